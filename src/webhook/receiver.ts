import type { WebhookEvent } from "./event.ts"
import { refuse, type Refusal, type RefusalReason } from "./refusal.ts"
import { toEventClaims, type EventClaims, type SeenEvents } from "./seen.ts"
import { type VerifyOptions, verifier, type WebhookHeaders } from "./verify.ts"

/** How a receiver checks what comes, and who takes it. */
export interface ReceiverOptions extends VerifyOptions {
  /** The endpoint's secret as it was returned; during a rotation both. */
  readonly secret: string | ReadonlyArray<string>
  /** The organization that this receiver serves. Events of another are refused. */
  readonly orgId?: string | undefined
  /** Which events were handled before. */
  readonly seen: SeenEvents | EventClaims
  /**
   * Takes a verified event that was not handled before. The sender waits five seconds in all: save the event, queue its
   * work, return. What it throws is answered 500, and the event comes again.
   */
  readonly onEvent: (event: WebhookEvent) => unknown
  /** Longest body that is read, in bytes. Default 256 KiB; events are under 4 KiB. */
  readonly maxBodyBytes?: number | undefined
  /** Told of each delivery that is refused, and of an event whose type is not known here, which is answered 202. */
  readonly onRefused?: ((refusal: Refusal<ReceiverRefusalReason>) => unknown) | undefined
  /** Told of what `onEvent` or `seen` threw, and of a handler mounted behind a body parser. */
  readonly onError?: ((error: unknown) => unknown) | undefined
}

/** Why a handler refuses a delivery: what {@link RefusalReason} names, and what only a whole request shows. */
export type ReceiverRefusalReason =
  RefusalReason | "method_not_allowed" | "body_too_large" | "body_unreadable" | "wrong_organization"

/** What goes back to the sender. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
}

/** The raw body, or why there is none: it passes the limit, the peer broke off, or something before us has read it. */
export type ReadBody = Uint8Array | "too_large" | "broken_off" | "read_before"

/** A request as both adapters show it. */
export interface Incoming {
  readonly method: string
  readonly headers: WebhookHeaders
  readonly read: (limit: number) => Promise<ReadBody>
}

const statuses: Record<ReceiverRefusalReason, number> = {
  missing_signature: 401,
  malformed_signature: 400,
  stale_timestamp: 401,
  future_timestamp: 401,
  no_matching_signature: 401,
  body_not_json: 400,
  malformed_event: 422,
  // Not the sender's fault: a service that is newer than this receiver would otherwise count failures, and send more slowly.
  unknown_event_type: 202,
  method_not_allowed: 405,
  body_too_large: 413,
  body_unreadable: 400,
  wrong_organization: 403
}

const problem = (
  status: number,
  reason: string,
  message: string,
  more: Record<string, string> = {}
): Answer => ({
  status,
  headers: { "content-type": "application/json", "cache-control": "no-store", ...more },
  body: JSON.stringify({ reason, message })
})

const handled: Answer = { status: 204, headers: {}, body: null }
const busy = problem(503, "busy", "This event is being handled.", { "retry-after": "5" })
const failed = problem(500, "not_handled", "The event could not be handled.")

/** How a receiver answers, whatever carries the request. */
export const receiver = (options: ReceiverOptions): ((incoming: Incoming) => Promise<Answer>) => {
  const { maxBodyBytes = 256 * 1024, onEvent, orgId } = options
  const check = verifier(options.secret, options)
  const claims = toEventClaims(options.seen)
  /** Events at work in this process: a second delivery of one waits for the first and answers as it does. */
  const atWork = new Map<string, Promise<Answer>>()

  const examine = async (
    incoming: Incoming
  ): Promise<{ readonly ok: true; readonly event: WebhookEvent } | Refusal<ReceiverRefusalReason>> => {
    if (incoming.method !== "POST") return refuse("method_not_allowed", "Deliveries are sent by POST.")
    // What the header alone gives away is refused without reading the body.
    const read = check.header(incoming.headers)
    if (!read.ok) return read
    const body = await incoming.read(maxBodyBytes)
    if (body === "too_large")
      return refuse("body_too_large", `The body is longer than ${maxBodyBytes} bytes.`)
    if (body === "broken_off") return refuse("body_unreadable", "The body broke off.")
    if (body === "read_before") {
      throw new TypeError(
        "countersign/webhook: the body was read before; mount the handler ahead of body parsers"
      )
    }
    const verified = await check.body(read.signature, body)
    if (verified.ok && orgId !== undefined && verified.event.org_id !== orgId) {
      return refuse("wrong_organization", "The event belongs to another organization.")
    }
    return verified
  }

  const handle = async (event: WebhookEvent): Promise<Answer> => {
    const claim = await claims.claim(event.id)
    if (claim === "done") return handled
    if (claim === "busy") return busy
    try {
      await onEvent(event)
    } catch (error) {
      try {
        await claims.release(event.id)
      } catch (unreleased) {
        options.onError?.(unreleased)
      }
      throw error
    }
    await claims.complete(event.id)
    return handled
  }

  const handleOnce = (event: WebhookEvent): Promise<Answer> => {
    const first = atWork.get(event.id)
    if (first !== undefined) return first
    const work = handle(event).finally(() => atWork.delete(event.id))
    atWork.set(event.id, work)
    return work
  }

  const answer = async (incoming: Incoming): Promise<Answer> => {
    const examined = await examine(incoming)
    if (examined.ok) return handleOnce(examined.event)
    options.onRefused?.(examined)
    const { message, reason } = examined
    return problem(
      statuses[reason],
      reason,
      message,
      reason === "method_not_allowed" ? { allow: "POST" } : {}
    )
  }

  return async (incoming) => {
    try {
      return await answer(incoming)
    } catch (error) {
      options.onError?.(error)
      return failed
    }
  }
}
