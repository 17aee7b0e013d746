/** What went wrong, in words for a person. */
import { Cause, JsonPointer, Option, Schema, SchemaIssue } from "effect"

/** A failure as it is shown. */
export interface Failure {
  readonly title: string
  readonly detail: string
  /** The problem's code, where the service gave one. */
  readonly code: string | undefined
  /** What is wrong with which field, by JSON pointer. */
  readonly errors: ReadonlyArray<{ readonly pointer: string; readonly detail: string }>
  readonly requestId: string | undefined
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

const unreachable: Failure = {
  title: "The service did not answer",
  detail: "It may be restarting, or the network is away. What is shown may be old.",
  code: undefined,
  errors: [],
  requestId: undefined
}

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

/** Fields at fault that are named, the most. */
const MAX_ERRORS = 20

/** What was filled in and the contract does not take: the client finds it before anything is sent. */
const invalidInput = (error: Schema.SchemaError): Failure => ({
  ...unreachable,
  title: "This cannot be sent as it is",
  detail: "",
  errors: formatIssues(error.issue)
    .issues.slice(0, MAX_ERRORS)
    .map(({ message, path = [] }) => ({
      pointer: JsonPointer.formatUriFragment(
        path.map((segment) => String(typeof segment === "object" ? segment.key : segment))
      ),
      detail: message
    }))
})

/** The failure of an error: a problem of the contract speaks for itself, all else is a service out of reach or not understood. */
const failureOf = (error: unknown): Failure => {
  if (!isRecord(error)) return unreachable
  const code = text(error["code"])
  if (code === undefined) {
    return error["_tag"] === "HttpClientError"
      ? unreachable
      : {
          ...unreachable,
          title: "The answer was not understood",
          detail: "The page may be older than the service: load it again."
        }
  }
  const errors = Array.isArray(error["errors"])
    ? error["errors"].flatMap((one: unknown) => {
        const pointer = isRecord(one) ? text(one["pointer"]) : undefined
        const detail = isRecord(one) ? text(one["detail"]) : undefined
        return pointer === undefined || detail === undefined ? [] : [{ pointer, detail }]
      })
    : []
  return {
    title: text(error["title"]) ?? code,
    detail: text(error["detail"]) ?? "",
    code,
    errors,
    requestId: text(error["request_id"])
  }
}

/** The failure of a cause; undefined where the work was only ended. */
export const failureOfCause = (cause: Cause.Cause<unknown>): Failure | undefined =>
  Cause.hasInterruptsOnly(cause) ? undefined : failureOf(Option.getOrUndefined(Cause.findErrorOption(cause)))

/** The failure of something that a person had done, with what they filled in. */
export const failureOfAction = (cause: Cause.Cause<unknown>): Failure | undefined => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  return Schema.isSchemaError(error) ? invalidInput(error) : failureOfCause(cause)
}

/** What is wrong with a field, if something is; for one that holds more than one value, with the place in it. */
export const fieldError = (failure: Failure | undefined, field: string): string | undefined => {
  const whole = `#/${field}`
  const found = failure?.errors.find(({ pointer }) => pointer === whole || pointer.startsWith(`${whole}/`))
  if (found === undefined || found.pointer === whole) return found?.detail
  return `${found.pointer.slice(whole.length)}: ${found.detail}`
}
