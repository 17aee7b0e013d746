import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { openEnum } from "../OpenEnum.ts"
import { AuditEntryId } from "../Ids.ts"
import { Actor } from "./Principal.ts"
import { timestamp } from "../Time.ts"

export const AuditAction = documentedEnum({
  "key.created": "An API key was created.",
  "key.updated": "The name or the email address of an API key was changed.",
  "key.revoked": "An API key was revoked.",
  "key.rights_reduced": "An API key lost the rights that the person who created it no longer has.",
  "key.verification_email_requested": "A link that verifies the email address of an API key was requested.",
  "key.email_verified": "The owner of an API key's email address confirmed it by a link.",
  "invitation.created": "A person was invited by email to use an API key.",
  "invitation.revoked": "An invitation was revoked before it was accepted.",
  "invitation.accepted": "An invitation was accepted, which created its API key.",
  "person.created": "Someone signed in with the identity provider for the first time.",
  "person.access_changed": "Someone's access changed with their groups of the identity provider.",
  "person.access_ended": "Someone's groups of the identity provider no longer give access.",
  "person.blocked": "Someone who signs in with the identity provider was blocked.",
  "person.unblocked": "Someone who was blocked may sign in again.",
  "person.sessions_ended":
    "The console sessions of someone who signs in with the identity provider were ended, by an administrator or by the provider's logout.",
  "master_key.rotated": "The operator began to seal the organization's secrets with another master key.",
  "console.signed_in": "Someone signed in to the console.",
  "console.signed_out": "Someone signed out of the console.",
  "endpoint.created": "A webhook endpoint was created.",
  "endpoint.updated": "A webhook endpoint was changed.",
  "endpoint.removed": "A webhook endpoint was removed.",
  "endpoint.disabled": "A webhook endpoint was disabled, because it answered 410 Gone.",
  "endpoint.failing": "No delivery to a webhook endpoint had succeeded for an hour.",
  "endpoint.secret_rotated": "A webhook endpoint's signing secret was rotated.",
  "endpoint.tested": "A test event was sent to a webhook endpoint.",
  "endpoint.verified": "A webhook endpoint answered a challenge.",
  "endpoint.verification_failed": "A webhook endpoint was sent a challenge and did not answer it.",
  "endpoint.replayed": "Failed deliveries of a webhook endpoint were queued again, by time window.",
  "endpoint.retried": "The waiting deliveries of a webhook endpoint were made due at once.",
  "delivery.replayed": "One failed delivery was queued again.",
  "destination.created": "A telemetry destination was created.",
  "destination.content_enabled":
    "A telemetry destination was created that gets inputs, answers, arguments and results.",
  "destination.host_changed": "A telemetry destination was created at another host than the one before.",
  "destination.removed": "A telemetry destination was removed.",
  "destination.tested": "A test span was sent to a telemetry destination.",
  "rules.replaced": "The approval rules were replaced.",
  "rules.shadow_replaced": "The shadow rules were replaced.",
  "rules.shadow_removed": "The shadow rules were removed.",
  "redaction_settings.replaced": "The redaction settings were replaced.",
  "feedback_settings.replaced": "The feedback settings were replaced.",
  "approval.vote_recorded": "A person approved an approval that needs more approvals.",
  "approval.approved": "An approval was approved by a person.",
  "approval.rejected": "An approval was rejected by a person.",
  "approval.changes_requested": "An approval was rejected by a person who requests changes.",
  "grant.created": "A standing grant was made with the approval of a step.",
  "grant.revoked": "A standing grant was revoked.",
  "execution.resolved": "A person resolved an execution whose outcome was unknown.",
  "session.closed": "An agent session was closed.",
  "feedback.staged": "A correction was staged.",
  "feedback.unstaged": "The staging of a correction was undone.",
  "feedback.rejected": "A correction was rejected.",
  "feedback.withdrawn": "Feedback was withdrawn by its author.",
  "feedback.promoted": "Staged corrections were promoted into a dataset version.",
  "runs.imported": "Past runs were imported into a task.",
  "feedback.deleted": "Feedback was deleted.",
  "run.deleted": "A run was deleted.",
  "run.review_dismissed": "A run was removed from its task's review queue without feedback.",
  "task.created":
    "A task was created. The log has its ID only: a name can hold personal data, and the log is not erased.",
  "task.updated": "A task was changed.",
  "task.deleted": "A task was deleted, with everything that belongs to it.",
  "dataset.created": "A dataset version was created.",
  "dataset.exported": "A dataset version was exported through the API.",
  "list.exported":
    "A list was exported as a file in the console. The target is the list's name; `detail` has its filters.",
  "dataset.deleted": "A dataset version was deleted.",
  "erasure.requested": "The erasure of a data subject was requested.",
  "retention_settings.replaced": "The retention settings were replaced.",
  "comparison.created": "A comparison was started.",
  "comparison.cancelled": "A comparison was cancelled.",
  "release.created": "A release was made live.",
  "canary.started": "A canary was started.",
  "canary.changed": "The share of a canary was changed.",
  "canary.stopped": "A canary was stopped.",
  "reviewer.created": "A reviewer model was created.",
  "reviewer.updated": "The tools or the daily limits of a reviewer model were changed.",
  "reviewer.stopped":
    "A reviewer model was stopped: every step goes to people again. Without an actor, the service stopped it; `detail` has the reason.",
  "reviewer.restored": "A stopped reviewer model may decide again.",
  "reviewer.decision_marked_wrong": "A person marked a decision of a reviewer model as wrong.",
  "step.approved_by_model": "A reviewer model allowed a step, within the bounds of its rule.",
  "step.rejected_by_model": "A reviewer model rejected a step, within the bounds of its rule."
})
export type AuditAction = typeof AuditAction.Type

export const AuditEntry = Schema.Struct({
  id: AuditEntryId.annotateKey({ description: "The entry's ID." }),
  action: openEnum(AuditAction).annotateKey({
    description: "The action. A later version of the service may add actions."
  }),
  target_id: Schema.String.annotateKey({
    description: "The ID of the resource that was changed or exported."
  }),
  actor: Schema.NullOr(Actor).annotateKey({
    description:
      "The API key that acted. Null for the operator, on the command line or at first start, and for the service itself."
  }),
  occurred_at: timestamp("When the change was made."),
  request_id: Schema.NullOr(Schema.String).annotateKey({
    description: "The `x-request-id` of the request. Null if the change was not made by a request."
  }),
  detail: Schema.Record(Schema.String, Schema.Json).annotateKey({
    description: "What changed, without secrets. The members depend on the action."
  })
}).annotate({ identifier: "AuditEntry", description: "One entry of the audit log. Entries never change." })
export type AuditEntry = typeof AuditEntry.Type
