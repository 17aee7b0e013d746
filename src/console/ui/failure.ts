/** What went wrong, in words for a person. */
import { Cause, Option } from "effect"

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

/** The failure of an error: a problem of the contract speaks for itself, all else is a service out of reach or not understood. */
export const failureOf = (error: unknown): Failure => {
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

/** What is wrong with a field, if something is. */
export const faultOf = (failure: Failure | undefined, field: string): string | undefined =>
  failure?.errors.find(({ pointer }) => pointer === `#/${field}` || pointer.startsWith(`#/${field}/`))?.detail
