import { DateTime } from "effect"
import { createHash } from "node:crypto"
import type { SupersededCorrection } from "./Feedback.ts"
import type { FeedbackId, TraceId } from "../Ids.ts"
import type { Timestamp } from "../Time.ts"

/** A staged correction, as far as it matters which are promoted. */
export interface StagedFeedback {
  readonly feedback_id: FeedbackId
  readonly trace_id: TraceId
  readonly staged_at: Timestamp
}

/** What promoting a set of staged corrections does. */
export interface Promotion<S extends StagedFeedback> {
  /** One a run: the one that was staged last. Newest first. */
  readonly promoted: ReadonlyArray<S>
  /** The others of those runs. */
  readonly superseded: ReadonlyArray<SupersededCorrection>
  /** Names exactly this set: any other has another. */
  readonly revision: string
}

/** Plans the promotion of one task's staged corrections. Their order does not matter. */
export const planPromotion = <S extends StagedFeedback>(staged: ReadonlyArray<S>): Promotion<S> => {
  const winners = new Map<TraceId, S>()
  for (const correction of staged) {
    const other = winners.get(correction.trace_id)
    if (other === undefined || isLater(correction, other)) winners.set(correction.trace_id, correction)
  }
  const promoted = [...winners.values()].toSorted((left, right) =>
    left.feedback_id < right.feedback_id ? 1 : -1
  )
  const superseded = staged.flatMap(({ feedback_id, trace_id }) => {
    const winner = winners.get(trace_id)
    return winner === undefined || winner.feedback_id === feedback_id
      ? []
      : [{ id: feedback_id, superseded_by: winner.feedback_id }]
  })
  return { promoted, superseded, revision: revisionOf(staged) }
}

/** Those that were staged first come first: what is put last into a dataset is the newest of it. */
export const sortByStagingTime = <S extends StagedFeedback>(staged: ReadonlyArray<S>): ReadonlyArray<S> =>
  staged.toSorted((left, right) => (isLater(left, right) ? 1 : -1))

const isLater = (left: StagedFeedback, right: StagedFeedback): boolean => {
  const order = DateTime.toEpochMillis(left.staged_at) - DateTime.toEpochMillis(right.staged_at)
  return order === 0 ? left.feedback_id > right.feedback_id : order > 0
}

/**
 * Names a set of staged corrections. A correction never changes, and what is staged leaves the set by promotion alone, so that its ids
 * say all there is to say.
 */
const revisionOf = (staged: ReadonlyArray<StagedFeedback>): string => {
  const digest = createHash("sha256")
  for (const id of staged.map(({ feedback_id }) => feedback_id).toSorted()) digest.update(id).update("\n")
  return digest.digest("hex")
}
