import type { NotificationEvent, WebhookEvent } from "./event.ts"
import { notify } from "./notify.ts"
import { refuse, type Refusal, type RefusalReason } from "./refusal.ts"
import { type EventClaims, handleOnce, type SeenEvents } from "./seen.ts"
import { type VerifyOptions, verifier, type WebhookHeaders } from "./verify.ts"

/** Options of a webhook handler. */
export interface ReceiverOptions extends VerifyOptions {
  /** The endpoint's secret as the API returned it; both secrets during a rotation. */
  readonly secret: string | ReadonlyArray<string>
  /** The organization that this receiver serves. Events of other organizations are refused. */
  readonly orgId?: string | undefined
  /** The record of handled events, for deduplication. */
  readonly seen: SeenEvents | EventClaims
  /**
   * Handles a verified, new event. A challenge that verifies the endpoint is answered without calling it. The sender
   * waits five seconds in total: store the event, enqueue its work and return. If it throws, or does not
   * end within five minutes, the response is 500, and the event is handled again when the delivery is retried.
   */
  readonly onEvent: (event: NotificationEvent) => unknown
  /** Maximum length of a body, in bytes. Default 256 KiB; events are under 4 KiB. */
  readonly maxBodyBytes?: number | undefined
  /** Called for each refused delivery, and for an event of an unknown type, whose response is 202. Its own errors are ignored. */
  readonly onRefused?: ((refusal: Refusal<ReceiverRefusalReason>) => unknown) | undefined
  /** Called with errors of `onEvent` and `seen`, and if a body parser consumed the body first. Its own errors are ignored. */
  readonly onError?: ((error: unknown) => unknown) | undefined
}

/** Why a handler refuses a delivery: a {@link RefusalReason}, or a reason that concerns the whole request. */
export type ReceiverRefusalReason =
  | RefusalReason
  | "method_not_allowed"
  | "body_too_large"
  | "body_unreadable"
  | "wrong_organization"

/** The response to the sender. */
export interface ReceiverResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
}

/** The raw body, or why it is missing: too large, disconnected, or consumed by a body parser. */
export type BodyResult = Uint8Array | "too_large" | "disconnected" | "already_consumed"

/** A request, as both adapters provide it. */
export interface IncomingRequest {
  readonly method: string
  readonly headers: WebhookHeaders
  readonly read: (limit: number) => Promise<BodyResult>
}

const statuses: Record<ReceiverRefusalReason, number> = {
  missing_signature: 401,
  malformed_signature: 400,
  stale_timestamp: 401,
  future_timestamp: 401,
  no_matching_signature: 401,
  body_not_json: 400,
  malformed_event: 422,
  // Not a failure of the delivery: otherwise a service newer than this receiver would count failures and cool down.
  unknown_event_type: 202,
  method_not_allowed: 405,
  body_too_large: 413,
  body_unreadable: 400,
  wrong_organization: 403
}

const jsonResponse = (status: number, body: object, more: Record<string, string> = {}): ReceiverResponse => ({
  status,
  headers: { "content-type": "application/json", "cache-control": "no-store", ...more },
  body: JSON.stringify(body)
})

const errorResponse = (
  status: number,
  reason: string,
  message: string,
  more: Record<string, string> = {}
): ReceiverResponse => jsonResponse(status, { reason, message }, more)

const handledResponse: ReceiverResponse = { status: 204, headers: {}, body: null }
const busyResponse = errorResponse(503, "busy", "Another process is handling this event. Retry later.", {
  "retry-after": "5"
})
const failedResponse = errorResponse(500, "not_handled", "The event could not be handled.")

/** Creates the handler behind both adapters. */
export const receiver = (
  options: ReceiverOptions
): ((incoming: IncomingRequest) => Promise<ReceiverResponse>) => {
  const { maxBodyBytes = 256 * 1024, orgId } = options
  const check = verifier(options.secret, options)

  const verifyRequest = async (
    incoming: IncomingRequest
  ): Promise<{ readonly ok: true; readonly event: WebhookEvent } | Refusal<ReceiverRefusalReason>> => {
    if (incoming.method !== "POST") return refuse("method_not_allowed", "Method not allowed. Use POST.")
    // Deliveries with an invalid header are refused without reading the body.
    const read = check.header(incoming.headers)
    if (!read.ok) return read
    const body = await incoming.read(maxBodyBytes)
    if (body === "too_large") return refuse("body_too_large", `The body exceeds ${maxBodyBytes} bytes.`)
    if (body === "disconnected")
      return refuse("body_unreadable", "The connection closed before the body was complete.")
    if (body === "already_consumed") {
      throw new TypeError(
        "countersign/webhook: a body parser has read the body. The signature needs its bytes: mount the handler before the parser, or let the parser keep the bytes or the text in rawBody or body."
      )
    }
    const verified = await check.body(read.signature, body)
    if (verified.ok && orgId !== undefined && verified.event.org_id !== orgId) {
      return refuse("wrong_organization", "The event belongs to another organization.")
    }
    return verified
  }

  const respond = async (incoming: IncomingRequest): Promise<ReceiverResponse> => {
    const examined = await verifyRequest(incoming)
    if (examined.ok) {
      const { event } = examined
      if (event.type === "verification") return jsonResponse(200, event.verification)
      return (await handleOnce(event, options)) === "busy" ? busyResponse : handledResponse
    }
    notify(options.onRefused, examined)
    const { message, reason } = examined
    return errorResponse(
      statuses[reason],
      reason,
      message,
      reason === "method_not_allowed" ? { allow: "POST" } : {}
    )
  }

  return async (incoming) => {
    try {
      return await respond(incoming)
    } catch (error) {
      notify(options.onError, error)
      return failedResponse
    }
  }
}
