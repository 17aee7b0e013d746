import type { FeedbackStatus } from "../../../domain/tasks/Feedback.ts"
import type { Tone } from "../../ui/Badge.tsx"

/** The tone and label of each feedback status. */
export const feedbackStatuses: Record<FeedbackStatus, readonly [Tone, string]> = {
  recorded: ["quiet", "Recorded"],
  pending: ["wait", "Pending"],
  staged: ["note", "Staged"],
  rejected: ["bad", "Rejected"],
  withdrawn: ["quiet", "Withdrawn"],
  promoted: ["good", "Promoted"],
  superseded: ["quiet", "Superseded"]
}
