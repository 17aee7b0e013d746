import { Cause, Effect, Layer } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiError } from "effect/http-api"
import { HookDenials } from "../../api/Hooks.ts"
import { InsufficientScope } from "../../api/Problems.ts"
import { describeFirst, describeIssue } from "../../domain/describeIssue.ts"
import { answerFault } from "../../domain/hooks/hookAnswer.ts"

/**
 * Answers a body that is refused with a denial in the hook's format and status 200: a coding agent lets a call pass whose hook gets an error.
 * Refusals of the API key keep their status, and so do faults of the service, which are logged.
 */
export const layer: Layer.Layer<HookDenials> = Layer.succeed(HookDenials, (operation) =>
  Effect.catchCause(operation, (cause) => {
    const failure = cause.reasons.find(Cause.isFailReason)
    if (failure === undefined || failure.error instanceof InsufficientScope) return Effect.failCause(cause)
    return Effect.succeed(
      HttpServerResponse.jsonUnsafe(
        answerFault("claude-code", {
          _tag: "Fault",
          event: undefined,
          reason: describe(failure.error),
          canBlock: true
        })
      )
    )
  })
)

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
