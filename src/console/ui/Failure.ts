/** Failures of requests as the page shows them. */
import { Cause, JsonPointer, Option, Schema, SchemaIssue } from "effect"

/** A failure with the texts to show. */
export interface Failure {
  readonly title: string
  readonly detail: string
  /** The problem's code, if the service answered with a problem. */
  readonly code: string | undefined
  /** Validation errors by JSON pointer. */
  readonly errors: ReadonlyArray<{ readonly pointer: string; readonly detail: string }>
  readonly requestId: string | undefined
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

const unreachable: Failure = {
  title: "No response from the service",
  detail: "The service may be restarting or unreachable. Data shown may be stale.",
  code: undefined,
  errors: [],
  requestId: undefined
}

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

/** The most validation errors that are listed. */
const MAX_ERRORS = 20

/** Input that violates the API's schema. The client, or a form, detects it before sending a request. */
const invalidInput = (errors: Failure["errors"]): Failure => ({
  ...unreachable,
  title: "Some fields are invalid",
  detail: "",
  errors
})

const errorsOf = (error: Schema.SchemaError): Failure["errors"] =>
  formatIssues(error.issue)
    .issues.slice(0, MAX_ERRORS)
    .map(({ message, path = [] }) => ({
      pointer: JsonPointer.formatUriFragment(
        path.map((segment) => String(typeof segment === "object" ? segment.key : segment))
      ),
      detail: message
    }))

/** Converts an error: a problem keeps its own texts; anything else is a network error or an unexpected response. */
const failureOf = (error: unknown): Failure => {
  if (!isRecord(error)) return unreachable
  const code = text(error["code"])
  if (error["_tag"] === "HttpClientError" || code === "SERVICE_UNREACHABLE") return unreachable
  if (code === undefined || code === "UNEXPECTED_RESPONSE") {
    return {
      ...unreachable,
      title: "Unexpected response",
      detail: "This page may be outdated. Reload it."
    }
  }
  const errors = Array.isArray(error["errors"])
    ? error["errors"].flatMap((one: unknown) => {
        const pointer = isRecord(one) ? text(one["pointer"]) : undefined
        const detail = isRecord(one) ? text(one["detail"]) : undefined
        return pointer === undefined || detail === undefined ? [] : [{ pointer, detail }]
      })
    : []
  const requestId = text(error["request_id"])
  // The client refused the input before it sent a request.
  if (code === "INVALID_REQUEST" && requestId === undefined) return invalidInput(errors)
  return {
    title: text(error["title"]) ?? code,
    detail: text(error["detail"]) ?? "",
    code,
    errors,
    requestId
  }
}

/** Converts a cause; undefined for an interruption. */
export const failureOfCause = (cause: Cause.Cause<unknown>): Failure | undefined =>
  Cause.hasInterruptsOnly(cause) ? undefined : failureOf(Option.getOrUndefined(Cause.findErrorOption(cause)))

/** Converts the cause of a user's action, including invalid form input. */
export const failureOfAction = (cause: Cause.Cause<unknown>): Failure | undefined => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  return Schema.isSchemaError(error) ? invalidInput(errorsOf(error)) : failureOfCause(cause)
}

/** Whether a validation error is about a form field, or about a part of its value. */
export const isOfField = ({ pointer }: { readonly pointer: string }, field: string): boolean =>
  pointer === `#/${field}` || pointer.startsWith(`#/${field}/`)

/** The validation error of a form field. For an error inside a structured field, the text starts with the path in it. */
export const fieldError = (failure: Failure | undefined, field: string): string | undefined => {
  const whole = `#/${field}`
  const found = failure?.errors.find((error) => isOfField(error, field))
  if (found === undefined || found.pointer === whole) return found?.detail
  return `${found.pointer.slice(whole.length)}: ${found.detail}`
}
