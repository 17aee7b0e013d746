import { Cause, Effect, Layer, Option, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiError } from "effect/http-api"
import { HookDenials } from "../../api/Hooks.ts"
import { AddressNotAllowed, InsufficientScope, InvalidApiKey } from "../../api/Problems.ts"
import { describeFirst, describeIssue } from "../../domain/describeIssue.ts"
import { answerFault, type HookAnswer } from "../../domain/hooks/hookAnswer.ts"
import { DatabaseOutage } from "../observability/DatabaseOutage.ts"
import { RequestId } from "../observability/RequestId.ts"
import { faultProblem } from "./faultProblem.ts"

/**
 * Answers a request that is refused, or that the service fails to serve, with a denial in the hook's format and status 200: a coding agent lets
 * a call pass whose hook gets an error. Refusals of the API key keep their status, those of its rate do not. A fault of the service is logged
 * as for other operations.
 */
export const layer: Layer.Layer<HookDenials> = Layer.effect(
  HookDenials,
  Effect.map(
    DatabaseOutage,
    (outage) => (operation) =>
      Effect.catchCause(Effect.map(operation, denyProblem), (cause) => {
        const failure = cause.reasons.find(Cause.isFailReason)
        const isKeyRefused = failure !== undefined && isRefusalOfKey(failure.error)
        if (isKeyRefused || Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
        const answer =
          failure === undefined ? denyFault(cause, outage) : Effect.succeed(denyRefused(failure.error))
        return Effect.map(answer, (body) => HttpServerResponse.jsonUnsafe(body))
      })
  )
)

const isRefusalOfKey = (error: unknown): boolean =>
  error instanceof InvalidApiKey || error instanceof AddressNotAllowed || error instanceof InsufficientScope

/** Statuses of the problems of a key: 401 and 403. */
const KEY_STATUSES: ReadonlySet<number> = new Set([401, 403])

/** A problem can be a response already, such as that of a rate limit. */
const denyProblem = (
  response: HttpServerResponse.HttpServerResponse
): HttpServerResponse.HttpServerResponse => {
  const { body, status } = response
  if (status < 400 || KEY_STATUSES.has(status)) return response
  const problem =
    body._tag === "Uint8Array" ? decodeProblem(body.text ?? Buffer.from(body.body).toString()) : Option.none()
  return HttpServerResponse.jsonUnsafe(denyRefused(Option.getOrUndefined(problem)))
}

const decodeProblem = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ title: Schema.String, detail: Schema.optionalKey(Schema.String) }))
)

const denyRefused = (error: unknown): HookAnswer =>
  answerFault("claude-code", { _tag: "Fault", event: undefined, reason: describe(error), canBlock: true })

const denyFault = (cause: Cause.Cause<unknown>, outage: DatabaseOutage): Effect.Effect<HookAnswer> =>
  Effect.zipWith(faultProblem(cause, outage), RequestId, ({ detail }, request_id) => ({
    decision: "block",
    reason: `Countersign denied this, because it could not decide. ${detail} Request id: ${request_id}.`
  }))

/** The fault. The texts of problems contain no values of the body. */
const describe = (error: unknown): string => {
  if (HttpApiError.HttpApiSchemaError.is(error))
    return error.kind === "Query"
      ? `The query of the hook's URL is not valid: ${describeFirst(describeIssue(error.cause.issue, "parameter"))}`
      : "The body is not a JSON object."
  const detail: unknown = Reflect.get(Object(error), "detail")
  const title: unknown = Reflect.get(Object(error), "title")
  return typeof detail === "string"
    ? detail
    : typeof title === "string"
      ? `${title}.`
      : "The request was refused."
}
