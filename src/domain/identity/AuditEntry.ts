import { Schema } from "effect"
import { openEnum } from "../OpenEnum.ts"
import { AuditEntryId } from "../Ids.ts"
import { Actor } from "./Principal.ts"
import { Timestamp } from "../Time.ts"

/** What is entered in the audit log: every change of who may do what, where things are sent, what is decided and what is learnt. */
export const AuditAction = Schema.Literals([
  "key.created",
  "key.revoked",
  "console.signed_in",
  "console.signed_out",
  "endpoint.created",
  "endpoint.updated",
  "endpoint.removed",
  "endpoint.secret_rotated",
  "endpoint.tested",
  "endpoint.replayed",
  "delivery.replayed",
  "destination.created",
  "destination.removed",
  "destination.tested",
  "rules.replaced",
  "approval.approved",
  "approval.rejected",
  "session.closed",
  "feedback.staged",
  "feedback.rejected",
  "feedback.promoted",
  "task.created",
  "task.updated",
  "dataset.created",
  "comparison.created",
  "release.created"
])
export type AuditAction = typeof AuditAction.Type

/** Who did what to what, when and in which request. */
export const AuditEntry = Schema.Struct({
  id: AuditEntryId,
  action: openEnum(AuditAction),
  /** The id of what was changed. */
  target_id: Schema.String,
  /** Null: the operator, at the command line or by the first start. */
  actor: Schema.NullOr(Actor),
  occurred_at: Timestamp,
  /** The `x-request-id` of the answer; null outside of a request. */
  request_id: Schema.NullOr(Schema.String),
  /** What the change was, as far as it is no secret. */
  detail: Schema.Record(Schema.String, Schema.Json)
}).annotate({ identifier: "AuditEntry" })
export type AuditEntry = typeof AuditEntry.Type
