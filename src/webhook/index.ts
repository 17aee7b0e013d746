/**
 * `countersign/webhook`: for receivers of Countersign's webhooks. Uses Web Crypto only, without dependencies; runs on Node 18 and newer,
 * Deno, Bun and Workers.
 *
 * ```ts
 * import { verify } from "countersign/webhook"
 *
 * const result = await verify(rawBody, request.headers, secret)
 * // Respond 202 to event types of a newer service, so that they do not count as failed deliveries.
 * if (!result.ok) return new Response(null, { status: result.reason === "unknown_event_type" ? 202 : 400 })
 * // Answer a challenge, which verifies the endpoint, with its `verification` object.
 * if (result.event.type === "verification") return Response.json(result.event.verification)
 * if (result.event.type === "approval.requested") console.log(result.event.approval.approval_id)
 * ```
 */
export { catchUp, type CatchUpOptions, type CatchUpResult, type ListedEvents } from "./catchUp.ts"
export type {
  ApprovalSnapshot,
  ApprovalStage,
  ApprovalStatus,
  DecidedApproval,
  Decider,
  NotificationEvent,
  VerificationEvent,
  WebhookEvent,
  WebhookEventType
} from "./event.ts"
export { handler } from "./handler.ts"
export { nodeHandler, type NodeRequest, type NodeResponse } from "./node.ts"
export type { ReceiverOptions, ReceiverRefusalReason } from "./receiver.ts"
export type { Refusal, RefusalReason } from "./refusal.ts"
export { type Claim, type EventClaims, memorySeen, type SeenEvents } from "./seen.ts"
export { type RawBody, type Verification, verify, type VerifyOptions, type WebhookHeaders } from "./verify.ts"
