import { Schema } from "effect"
import { AuditAction, type AuditEntry } from "../../../domain/identity/AuditEntry.ts"

/** The predicate of an audit entry's sentence, after the actor's name. */
export const auditPhrases: Readonly<Record<AuditAction, string>> = {
  "key.created": "created an API key",
  "key.updated": "changed an API key",
  "key.revoked": "revoked an API key",
  "key.verification_email_requested": "requested a link that verifies the email address of an API key",
  "key.email_verified": "recorded that the email address of an API key was confirmed",
  "console.signed_in": "signed in to the console",
  "console.signed_out": "signed out of the console",
  "endpoint.created": "created a webhook endpoint",
  "endpoint.updated": "updated a webhook endpoint",
  "person.created": "signed in with the identity provider for the first time",
  "person.access_changed": "got other access by their groups of the identity provider",
  "person.access_ended": "lost access by their groups of the identity provider",
  "master_key.rotated": "sealed this organization's secrets with another master key",
  "endpoint.removed": "deleted a webhook endpoint",
  "endpoint.secret_rotated": "rotated the signing secret of a webhook endpoint",
  "endpoint.tested": "sent a test event to a webhook endpoint",
  "endpoint.disabled": "disabled a webhook endpoint, which answered 410 Gone",
  "endpoint.verified": "verified a webhook endpoint",
  "endpoint.verification_failed": "sent a challenge that a webhook endpoint did not answer",
  "endpoint.replayed": "replayed failed deliveries of a period",
  "delivery.replayed": "replayed a delivery",
  "destination.created": "added the telemetry collector",
  "destination.removed": "removed the telemetry collector",
  "destination.tested": "sent a test span to the telemetry collector",
  "rules.replaced": "updated the approval rules",
  "rules.shadow_replaced": "updated the shadow rules",
  "rules.shadow_removed": "removed the shadow rules",
  "redaction_settings.replaced": "updated the redaction settings",
  "feedback_settings.replaced": "updated the feedback settings",
  "approval.vote_recorded": "approved a step that needs more approvals",
  "approval.approved": "approved a step",
  "approval.rejected": "rejected a step",
  "grant.created": "made a standing grant",
  "grant.revoked": "revoked a standing grant",
  "session.closed": "closed a session",
  "feedback.staged": "staged a correction",
  "feedback.unstaged": "undid the staging of a correction",
  "feedback.rejected": "rejected a correction",
  "feedback.promoted": "promoted corrections",
  "runs.imported": "imported past runs",
  "feedback.deleted": "deleted feedback",
  "run.deleted": "deleted a run",
  "run.review_dismissed": "removed a run from the review queue",
  "task.created": "created a task",
  "task.updated": "updated a task",
  "task.deleted": "deleted a task",
  "dataset.deleted": "deleted a dataset version",
  "erasure.requested": "requested the erasure of a data subject",
  "retention_settings.replaced": "updated the retention settings",
  "dataset.created": "created a dataset version",
  "dataset.exported": "exported a dataset version",
  "comparison.created": "started a comparison",
  "comparison.cancelled": "cancelled a comparison",
  "release.created": "created a release",
  "canary.started": "started a canary",
  "canary.changed": "changed the share of a canary",
  "canary.stopped": "stopped a canary"
}

const isKnown = Schema.is(AuditAction)

/** The predicate of an entry. An action unknown to this page was added by a newer version of the service. */
export const auditPhrase = ({ action }: AuditEntry): string =>
  isKnown(action) ? auditPhrases[action] : "performed an action that this page does not recognize"
