/** Failures of requests as the page shows them. */
import { Cause, Option, Schema } from "effect"
import { describeIssue } from "../../domain/describeIssue.ts"
import { type Failure, failureOf, invalidInput, isOfField } from "./problemFailure.ts"

export { type Failure, isOfField } from "./problemFailure.ts"

/** Converts a cause; undefined for an interruption. */
export const failureOfCause = (cause: Cause.Cause<unknown>): Failure | undefined =>
  Cause.hasInterruptsOnly(cause) ? undefined : failureOf(Option.getOrUndefined(Cause.findErrorOption(cause)))

/** Converts the cause of a user's action, including invalid form input. */
export const failureOfAction = (cause: Cause.Cause<unknown>): Failure | undefined => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  return Schema.isSchemaError(error) ? invalidInput(describeIssue(error.issue)) : failureOfCause(cause)
}

/** The text of a toast: what was just done could not be undone. */
export const notUndoneText = (cause: Cause.Cause<unknown>): string =>
  `Not undone: ${failureOfAction(cause)?.title ?? "the request was cancelled"}`

/** The validation error of a form field. For an error inside a structured field, the text starts with the path in it. */
export const fieldError = (failure: Failure | undefined, field: string): string | undefined => {
  const whole = `#/${field}`
  const found = failure?.errors.find((error) => isOfField(error, field))
  if (found === undefined || found.pointer === whole) return found?.detail
  return `${found.pointer.slice(whole.length)}: ${found.detail}`
}
