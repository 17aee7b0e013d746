import { Cause, Context, Effect, Layer, type SchemaIssue } from "effect"
import { HttpServerRequest, HttpServerRespondable } from "effect/http"
import { type HttpApiEndpoint, HttpApiError } from "effect/http-api"
import { FieldProblems, ProblemFrame } from "../../api/Middleware.ts"
import { InvalidRequest, NotFound } from "../../api/Problems.ts"
import { describeFirst, describeIssue } from "../../domain/describeIssue.ts"
import { findSyntaxError } from "../../domain/json/findSyntaxError.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import { DatabaseOutage } from "../observability/DatabaseOutage.ts"
import { recordRequest } from "../observability/recordRequest.ts"
import { causeResponse } from "./causeResponse.ts"
import { makeRequestLog, type RequestLog } from "./RequestLog.ts"
import { problemResponse } from "./problemResponse.ts"

/**
 * The outermost middleware of every API operation. It turns every failure into a problem with the id of the request,
 * and records the request in the metrics.
 */
export const layer: Layer.Layer<ProblemFrame, never, RequestLog> = Layer.effect(
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
                  : Effect.flatMap(invalidRequest(error, endpoint), problemResponse)
              }
              if (HttpServerRespondable.isRespondable(error)) return problemResponse(error)
            }
            return causeResponse(cause, outage)
          })
        )
  )
)

/** The problem for a request that does not decode. It lists each invalid field, and never a value of the request. */
const invalidRequest = (
  { cause: { issue }, kind }: HttpApiError.HttpApiSchemaError,
  endpoint: HttpApiEndpoint.Top
) =>
  Effect.map(
    kind === "Payload" && issue._tag === "InvalidValue"
      ? findJsonFault
      : kind === "Query"
        ? describeQuery(issue)
        : Effect.undefined,
    (found) => {
      const faults = found ?? describeIssue(issue)
      // Names are the caller's input too: a misplaced secret may be one of them.
      const errors = redactFaults(faults)
      if (kind === "Params") {
        // A malformed identifier cannot belong to an existing resource.
        return new NotFound({ detail: `Unknown identifier in the path: ${describeFirst(errors)}` })
      }
      if (kind === "Payload") {
        const special = Context.getOrUndefined(endpoint.annotations, FieldProblems) ?? {}
        // A field with a problem of its own gets that problem, whichever other fields are invalid.
        for (const [field, problem] of Object.entries(special)) {
          if (errors.some(({ pointer }) => `${pointer}/`.startsWith(`#/${field}/`))) return problem(errors)
        }
      }
      const part = kind === "Payload" ? "body is" : kind === "Query" ? "query is" : "headers are"
      return new InvalidRequest({ detail: `The ${part} invalid: ${describeFirst(errors)}`, errors })
    }
  )

/** The faults of a query. The schema of a parameter that is given twice sees a list, and would describe one value. */
const describeQuery = (issue: SchemaIssue.Issue) =>
  Effect.map(HttpServerRequest.HttpServerRequest, ({ url }) => {
    const given = new URL(url, "http://localhost").searchParams
    return describeIssue(issue, "parameter").map((fault) =>
      given.getAll(fault.pointer.slice("#/".length)).length > 1
        ? { ...fault, detail: "Is given more than once" }
        : fault
    )
  })

/** The fault of a body that is not JSON; undefined if it is. */
const findJsonFault = Effect.gen(function* () {
  const request = yield* HttpServerRequest.HttpServerRequest
  const fault = findSyntaxError(yield* Effect.orDie(request.text))
  if (fault === undefined) return undefined
  const { column, detail, line } = fault
  return [{ pointer: "#", detail: `Not JSON at line ${line}, column ${column}: ${detail}` }]
})
