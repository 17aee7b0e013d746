import { Effect } from "effect"
import { FeedbackChanged } from "../../../api/Problems.ts"
import type { FeedbackId } from "../../../domain/Ids.ts"

/** Maximum number of fields that a problem names. */
const MAX_NAMED = 20

/** Fails if one of the selected corrections is not among the staged ones. */
export const requireStaged = (
  selected: ReadonlyArray<FeedbackId> | undefined,
  staged: ReadonlyArray<{ readonly feedback_id: FeedbackId }>,
  current: Pick<FeedbackChanged, "current_dataset_id" | "current_feedback_revision">
): Effect.Effect<void, FeedbackChanged> => {
  const found = new Set(staged.map(({ feedback_id }) => feedback_id))
  const errors = (selected ?? []).flatMap((id, index) =>
    found.has(id)
      ? []
      : [{ pointer: `#/feedback_ids/${index}`, detail: "is not a staged correction of this task" }]
  )
  return errors.length === 0
    ? Effect.void
    : Effect.fail(
        new FeedbackChanged({
          detail: "A selected correction is not staged. Select others, preview them, then promote.",
          errors: errors.slice(0, MAX_NAMED),
          ...current
        })
      )
}
