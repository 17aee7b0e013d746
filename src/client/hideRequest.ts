import { Schema } from "effect"
import { HttpClientError, type HttpClientRequest, type HttpClientResponse } from "effect/http"
import { InvalidRequest } from "../api/Problems.ts"
import { describeFirst, describeIssue } from "../domain/describeIssue.ts"
import { type FailedRequest, reasonOf, ServiceUnreachable, TIMEOUT } from "./ServiceUnreachable.ts"
import { UnexpectedResponse } from "./UnexpectedResponse.ts"

/** The parts of a request that an error may show. */
export const requestOf = (
  operation: string,
  { method, url }: HttpClientRequest.HttpClientRequest
): FailedRequest => ({ operation, method, url: new URL(url) })

/** Why a request got no response: its input violates the contract, or the HTTP client failed. */
export type RequestError = HttpClientError.HttpClientError | Schema.SchemaError

/**
 * Replaces an error of the HTTP client, which holds the request and so the API key, and a schema's error, which holds the response, by an
 * error of this package. Node prints an uncaught error with all its members. `response` is the one that arrived.
 */
export const hideRequest =
  (operation: string, response: HttpClientResponse.HttpClientResponse) =>
  <E>(error: E): Exclude<E, RequestError> | ServiceUnreachable | UnexpectedResponse => {
    if (isLibraryError(error)) {
      return HttpClientError.isHttpClientError(error)
        ? hideHttpRequest(operation)(error)
        : new UnexpectedResponse(
            requestOf(operation, response.request),
            response.status,
            `the body does not match the API: ${describeFirst(describeIssue(error.issue))}`
          )
    }
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the library's errors are excluded above
    return error as Exclude<E, RequestError>
  }

const isLibraryError = (error: unknown): error is RequestError =>
  HttpClientError.isHttpClientError(error) || Schema.isSchemaError(error)

/** Replaces the error of a request that got no response. */
export const hideFailedRequest =
  (operation: string) =>
  <E>(error: E): Exclude<E, RequestError> | InvalidRequest | ServiceUnreachable | UnexpectedResponse => {
    if (HttpClientError.isHttpClientError(error)) return hideHttpRequest(operation)(error)
    if (Schema.isSchemaError(error)) return invalidInput(operation, error)
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the library's errors are excluded above
    return error as Exclude<E, RequestError>
  }

/** Replaces an error of the HTTP client: no response, or one that cannot be read. */
const hideHttpRequest =
  (operation: string) =>
  ({ reason, response }: HttpClientError.HttpClientError): ServiceUnreachable | UnexpectedResponse => {
    const request = requestOf(operation, reason.request)
    const code = reasonOf("cause" in reason ? reason.cause : undefined)
    if (reason._tag === "TransportError" || response === undefined) {
      return new ServiceUnreachable(request, code, code === TIMEOUT ? reason.description : undefined)
    }
    // The connection broke while the body was read.
    if (code !== "UNKNOWN") return new ServiceUnreachable(request, code)
    const isRedirect = response.status === 0 || (response.status >= 300 && response.status < 400)
    return new UnexpectedResponse(
      request,
      response.status,
      isRedirect ? "redirects are not followed" : "not of this API"
    )
  }

/** The problem for input that violates the contract, before anything is sent. It has no request ID. */
const invalidInput = (operation: string, error: Schema.SchemaError): InvalidRequest => {
  const errors = describeIssue(error.issue)
  return new InvalidRequest({
    detail: `${operation}: the input is invalid: ${describeFirst(errors)} Nothing was sent.`,
    errors
  })
}
