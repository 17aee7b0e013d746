import { Cause, Context, Effect, Layer, SchemaIssue } from "effect"
import { HttpServerRespondable } from "effect/http"
import { type HttpApiEndpoint, HttpApiError } from "effect/http-api"
import { FieldProblems, ProblemFrame } from "../../api/Middleware.ts"
import type { FieldError } from "../../api/Problem.ts"
import { InvalidRequest, NotFound } from "../../api/Problems.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import { formatPointer } from "../../domain/tasks/CompiledSchema/SchemaFault.ts"
import { DatabaseOutage } from "../observability/DatabaseOutage.ts"
import { recordRequest } from "../observability/recordRequest.ts"
import { causeResponse } from "./causeResponse.ts"
import { makeRequestLog } from "./RequestLog.ts"
import { problemResponse } from "./problemResponse.ts"

/** The most field errors that one problem lists. */
const MAX_ERRORS = 20

/**
 * The outermost middleware of every API operation. It turns every failure into a problem with the id of the request,
 * and records the request in the metrics.
 */
export const layer: Layer.Layer<ProblemFrame> = Layer.effect(
  ProblemFrame,
  Effect.zipWith(
    DatabaseOutage,
    makeRequestLog,
    (outage, log) =>
      (operation, { endpoint, group }) =>
        recordRequest(
          `${group.identifier}.${endpoint.identifier}`,
          Effect.catchCause(log.operation({ endpoint, group }, operation), (cause: Cause.Cause<unknown>) => {
            for (const reason of cause.reasons) {
              if (!Cause.isFailReason(reason)) continue
              const { error } = reason
              if (HttpApiError.HttpApiSchemaError.is(error)) {
                return error.kind === "Body" || error.kind === "ResponseHeaders"
                  ? Effect.die(error)
                  : problemResponse(invalidRequest(error, endpoint))
              }
              if (HttpServerRespondable.isRespondable(error)) return problemResponse(error)
            }
            return causeResponse(cause, outage)
          })
        )
  )
)

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

/** The problem for a request that does not decode. It lists each invalid field, and never a value of the request. */
const invalidRequest = (
  error: HttpApiError.HttpApiSchemaError,
  endpoint: HttpApiEndpoint.Top
): HttpServerRespondable.Respondable => {
  // A malformed identifier cannot belong to an existing resource.
  if (error.kind === "Params") return new NotFound({ detail: "The identifier in the path is malformed." })
  const paths: Array<ReadonlyArray<string>> = []
  const faults: Array<FieldError> = []
  for (const issue of formatIssues(error.cause.issue).issues.slice(0, MAX_ERRORS)) {
    const path = (issue.path ?? []).map((segment) =>
      String(typeof segment === "object" ? segment.key : segment)
    )
    paths.push(path)
    faults.push({ pointer: formatPointer("#", path), detail: issue.message })
  }
  // Keys of a record are the caller's input too: a misplaced secret may be one of them.
  const errors = redactFaults(faults)
  if (error.kind === "Payload") {
    const special = Context.getOrUndefined(endpoint.annotations, FieldProblems)
    // A field with a problem of its own gets that problem, whichever other fields are invalid.
    for (const [field = ""] of paths) {
      const problem = special?.[field]
      if (problem !== undefined) return problem(errors)
    }
  }
  const part = error.kind === "Payload" ? "body" : error.kind.toLowerCase()
  return new InvalidRequest({ detail: `The ${part} does not match the schema of this operation.`, errors })
}
