/** Failures of requests as the page shows them, from the service's answer. The sign-in page needs no more: it is loaded without Effect. */

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

/** There was no answer. */
export const unreachable: Failure = {
  title: "No response from the service",
  detail: "The service may be restarting or unreachable. Data shown may be stale.",
  code: undefined,
  errors: [],
  requestId: undefined
}

/** Input that violates the API's schema. The client, or a form, detects it before sending a request. */
export const invalidInput = (errors: Failure["errors"]): Failure => ({
  ...unreachable,
  title: "Some fields are invalid",
  detail: "",
  errors
})

/** Converts an error: a problem keeps its own texts; anything else is a network error or an unexpected response. */
export const failureOf = (error: unknown): Failure => {
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
  const detail = text(error["detail"]) ?? ""
  // The one problem of a field that is no violation of the schema.
  if (code === "NAME_IN_USE") return invalidInput([{ pointer: "#/name", detail }])
  return { title: text(error["title"]) ?? code, detail, code, errors, requestId }
}

/** Whether a validation error is about a form field, or about a part of its value. */
export const isOfField = ({ pointer }: { readonly pointer: string }, field: string): boolean =>
  pointer === `#/${field}` || pointer.startsWith(`#/${field}/`)
