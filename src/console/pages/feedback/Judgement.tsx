import type { FeedbackRecord } from "../../../domain/tasks/Feedback.ts"
import { Badge } from "../../ui/Badge.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** The label of feedback. */
export const ScoreLabel = ({ record: { score_label } }: { readonly record: FeedbackRecord }) =>
  score_label === null ? null : (
    <Badge tone="quiet">
      <UntrustedText text={score_label} />
    </Badge>
  )

/** The comment of feedback. */
export const FeedbackComment = ({ record: { comment } }: { readonly record: FeedbackRecord }) =>
  comment === null ? null : (
    <blockquote>
      <UntrustedText text={comment} />
    </blockquote>
  )

/** That feedback is not counted, and why. */
export const NotCounted = ({ record: { current, withdrawn_at } }: { readonly record: FeedbackRecord }) =>
  current ? null : (
    <Badge tone="quiet">{withdrawn_at === null ? "Replaced by a later opinion" : "Withdrawn"}</Badge>
  )
