import { Cause, Context, Effect, Layer, SchemaIssue, type Types } from "effect"
import {
  HttpRouter,
  HttpServerError,
  type HttpServerRequest,
  HttpServerRespondable,
  HttpServerResponse
} from "effect/http"
import { type HttpApiEndpoint, HttpApiError } from "effect/http-api"
import { SqlError } from "effect/sql"
import { uuidV7Hex } from "../../domain/Ids.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import { formatPointer } from "../../domain/tasks/CompiledSchema/SchemaFault.ts"
import { ProblemFrame, FieldProblems } from "../../api/Middleware.ts"
import type { FieldError } from "../../api/Problem.ts"
import {
  InternalError,
  InvalidRequest,
  MethodNotAllowed,
  NotFound,
  RateLimited,
  Unavailable
} from "../../api/Problems.ts"
import { isDatabaseUnavailable } from "../store/Database/databaseErrors.ts"
import { allowedMethods } from "./Envelope/allowedMethods.ts"
import { recordRequest } from "../observability/Metrics/recordRequest.ts"

/** The id of the request that is being answered: on its answer, in its problem, in the log. */
export const RequestId = Context.Reference<string>("countersign/server/http/Frame/RequestId", {
  defaultValue: () => NO_REQUEST
})

/** What stands for the id where no request is being answered. */
export const NO_REQUEST = "req_none"

/** The most faults that one answer lists. */
const MAX_ERRORS = 20

/** Seconds after which a caller may come back when the store is out of reach. */
const RETRY_AFTER_SECONDS = "1"

/**
 * Around every route, of the contract or not: gives the request its id, answers paths and methods that do not exist, and turns a
 * defect into 500 with nothing but the request id. The defect is logged here, once.
 */
export const layerEnvelope = HttpRouter.middleware(
  (route) =>
    Effect.suspend(() => {
      const id = `req_${uuidV7Hex()}`
      return Effect.matchCauseEffect(route, {
        onSuccess: (response) => Effect.succeed(withHeaders(response, id)),
        // `unhandled` stays in the type: the router asks that a middleware hides no error it was not told of.
        onFailure: (cause): Effect.Effect<HttpServerResponse.HttpServerResponse, Types.unhandled> =>
          Effect.map(causeResponse(cause), (response) => withHeaders(response, id))
      }).pipe(Effect.provideService(RequestId, id))
    }),
  { global: true }
)

/**
 * Around every operation of the contract: what no service names becomes a problem, and every problem learns its request's id. And
 * each request is counted.
 */
export const layerProblemFrame: Layer.Layer<ProblemFrame> = Layer.succeed(
  ProblemFrame,
  (operation, { endpoint, group }) =>
    recordRequest(
      `${group.identifier}.${endpoint.identifier}`,
      Effect.catchCause(operation, (cause: Cause.Cause<unknown>) => {
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
        return causeResponse(cause)
      })
    )
)

/** The answer to what nobody caught. Interruption goes on: the server answers that by itself. */
const causeResponse = (cause: Cause.Cause<unknown>): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
  for (const reason of cause.reasons) {
    const error = Cause.isFailReason(reason)
      ? reason.error
      : Cause.isDieReason(reason)
        ? reason.defect
        : undefined
    if (HttpServerResponse.isHttpServerResponse(error)) return Effect.succeed(error)
    if (HttpServerError.isHttpServerError(error)) {
      if (error.reason._tag === "RouteNotFound") return unknownRoute(error.reason.request)
      if (error.reason._tag === "RequestParseError")
        return problemResponse(new InvalidRequest({ detail: "The request could not be read" }))
    }
    if (SqlError.isSqlError(error) && isDatabaseUnavailable(error)) {
      return Effect.andThen(
        withRequestId(Effect.logWarning("The store is out of reach", error.reason._tag)),
        problemResponse(new Unavailable({ detail: "The store is out of reach; try again in a moment" }))
      )
    }
  }
  return Effect.andThen(
    withRequestId(Effect.logError("A request failed by a fault of ours", cause)),
    problemResponse(new InternalError({ detail: "Name the request id when you report this" }))
  )
}

/** A line of the log with the id of the request that it is about: the id on an answer finds it. */
const withRequestId = (line: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.flatMap(RequestId, (request_id) => Effect.annotateLogs(line, { request_id }))

const unknownRoute = (request: HttpServerRequest.HttpServerRequest) => {
  const methods = allowedMethods(request.url)
  // A path that is known with this method was not matched for what stands in it: there is no such thing.
  return methods.length === 0 || methods.includes(request.method)
    ? problemResponse(new NotFound({ detail: "There is no such path; /docs lists those there are" }))
    : Effect.map(
        problemResponse(new MethodNotAllowed({ detail: `This path accepts ${methods.join(", ")}` })),
        HttpServerResponse.setHeader("allow", methods.join(", "))
      )
}

/** A problem as its answer, with the id of its request. The problem itself stays as it is: services fail with shared ones. */
export const problemResponse = (problem: HttpServerRespondable.Respondable) =>
  Effect.flatMap(RequestId, (request_id) => {
    const named: HttpServerRespondable.Respondable = Object.create(Object.getPrototypeOf(problem))
    const answer = HttpServerRespondable.toResponse(Object.assign(named, problem, { request_id }))
    return problem instanceof RateLimited
      ? Effect.map(answer, HttpServerResponse.setHeader("retry-after", String(problem.retry_after_seconds)))
      : answer
  })

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

/** What a request that does not decode is told: each field at fault, and never the value that was in it. */
const invalidRequest = (
  error: HttpApiError.HttpApiSchemaError,
  endpoint: HttpApiEndpoint.Top
): HttpServerRespondable.Respondable => {
  // An identifier of another form names nothing that exists.
  if (error.kind === "Params") return new NotFound({ detail: "The identifier in the path is not valid here" })
  const paths: Array<ReadonlyArray<string>> = []
  const faults: Array<FieldError> = []
  for (const issue of formatIssues(error.cause.issue).issues.slice(0, MAX_ERRORS)) {
    const path = (issue.path ?? []).map((segment) =>
      String(typeof segment === "object" ? segment.key : segment)
    )
    paths.push(path)
    faults.push({ pointer: formatPointer("#", path), detail: issue.message })
  }
  // Names are the caller's too: one of a record may be the secret itself, put in the wrong place.
  const errors = redactFaults(faults)
  if (error.kind === "Payload") {
    const special = Context.getOrUndefined(endpoint.annotations, FieldProblems)
    // A field that has a problem of its own has it whatever else is at fault.
    for (const [field = ""] of paths) {
      const problem = special?.[field]
      if (problem !== undefined) return problem(errors)
    }
  }
  const slot = error.kind === "Payload" ? "body" : error.kind.toLowerCase()
  return new InvalidRequest({
    detail: `The ${slot} does not have the shape that this operation takes`,
    errors
  })
}

const withHeaders = (response: HttpServerResponse.HttpServerResponse, id: string) => {
  const named = HttpServerResponse.setHeader(response, "x-request-id", id)
  switch (response.status) {
    case 401:
      return HttpServerResponse.setHeader(named, "www-authenticate", 'Bearer realm="countersign"')
    case 503:
      return HttpServerResponse.setHeader(named, "retry-after", RETRY_AFTER_SECONDS)
    default:
      return named
  }
}
