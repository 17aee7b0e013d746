import { Schema } from "effect"
import { AuditAction, type AuditEntry } from "../../../domain/identity/AuditEntry.ts"

/** What somebody did, as it is said after their name. */
export const auditPhrases: Readonly<Record<AuditAction, string>> = {
  "key.created": "made a key",
  "key.revoked": "revoked a key",
  "console.signed_in": "signed in to the console",
  "console.signed_out": "signed out of the console",
  "endpoint.created": "created a notification endpoint",
  "endpoint.updated": "changed a notification endpoint",
  "endpoint.removed": "deleted a notification endpoint",
  "endpoint.secret_rotated": "rotated the secret of a notification endpoint",
  "endpoint.tested": "sent a test to a notification endpoint",
  "endpoint.replayed": "replayed a window of deliveries",
  "delivery.replayed": "replayed a delivery",
  "destination.created": "set the telemetry collector",
  "destination.removed": "removed the telemetry collector",
  "destination.tested": "sent a test span to the telemetry collector",
  "rules.replaced": "saved the rules",
  "approval.approved": "approved a step",
  "approval.rejected": "rejected a step",
  "session.closed": "closed a session",
  "feedback.staged": "staged a correction",
  "feedback.rejected": "rejected a correction",
  "feedback.promoted": "promoted corrections",
  "task.created": "made a task",
  "task.updated": "changed a task",
  "dataset.created": "made a version of a dataset",
  "comparison.created": "began a comparison",
  "release.created": "made a release"
}

const isKnown = Schema.is(AuditAction)

/** What an entry says. The service may have been renewed since this page was loaded. */
export const auditPhrase = ({ action }: AuditEntry): string =>
  isKnown(action) ? auditPhrases[action] : "did something that this page does not know yet"
