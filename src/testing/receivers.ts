import type { NotificationEvent } from "../webhook/index.ts"

/** How a receiver of webhooks answers. */
export interface ReceiverScript {
  /** The status for the nth delivery, from 1. */
  readonly statusOf: (delivery: number) => number
}

/** Answers 204. */
export const succeeds = (): ReceiverScript => ({ statusOf: () => 204 })

/** Fails the first deliveries, by default with 500, then answers 204. `fails(Infinity)` never succeeds. */
export const fails = (deliveries: number, status = 500): ReceiverScript => ({
  statusOf: (delivery) => (delivery <= deliveries ? status : 204)
})

/** One request that a receiver got. */
export interface ReceivedRequest {
  /** The service's time. */
  readonly at: Date
  /** The event. Null if the request is not a valid delivery of this endpoint. */
  readonly event: NotificationEvent | null
  /** Why it is not valid, such as `no_matching_signature`. Null if it is. */
  readonly refusal: string | null
  /** The status that the receiver answered with. */
  readonly status: number
}

/** A webhook endpoint with a receiver in this process. */
export interface TestReceiver {
  readonly url: string
  readonly endpoint_id: string
  readonly secret: string
  /** Every request, in order. Read it again after each move of the time. */
  readonly requests: ReadonlyArray<ReceivedRequest>
  /** The events that it has accepted: verified, and answered with a 2xx status. */
  readonly events: ReadonlyArray<NotificationEvent>
}
