import { DateTime } from "effect"
import { createHash } from "node:crypto"
import type { SupersededCorrection } from "./Feedback.ts"
import type { FeedbackId } from "../Ids.ts"
import type { Timestamp } from "../Time.ts"

/** The facts about a staged correction that decide whether it is promoted. */
export interface StagedFeedback {
  readonly feedback_id: FeedbackId
  /** The digest of the run's input: see `inputDigest`. */
  readonly input_digest: string
  readonly staged_at: Timestamp
}

/** The effect of promoting a set of staged corrections. */
export interface Promotion<S extends StagedFeedback> {
  /** For each input, the correction that was staged last. Newest first. */
  readonly promoted: ReadonlyArray<S>
  /** The other corrections of the same inputs. */
  readonly superseded: ReadonlyArray<SupersededCorrection>
  /** Identifies this set: every other set has a different revision. */
  readonly revision: string
}

/** Plans the promotion of one task's staged corrections. Their order does not matter. */
export const planPromotion = <S extends StagedFeedback>(staged: ReadonlyArray<S>): Promotion<S> => {
  const winners = new Map<string, S>()
  for (const correction of staged) {
    const other = winners.get(correction.input_digest)
    if (other === undefined || isLater(correction, other)) winners.set(correction.input_digest, correction)
  }
  const promoted = [...winners.values()].toSorted((left, right) =>
    left.feedback_id < right.feedback_id ? 1 : -1
  )
  const superseded = staged.flatMap(({ feedback_id, input_digest }) => {
    const winner = winners.get(input_digest)
    return winner === undefined || winner.feedback_id === feedback_id
      ? []
      : [{ id: feedback_id, superseded_by: winner.feedback_id }]
  })
  return { promoted, superseded, revision: revisionOf(staged) }
}

/** Sorts by staging time, earliest first, so that the correction staged last becomes the newest example of the dataset. */
export const sortByStagingTime = <S extends StagedFeedback>(staged: ReadonlyArray<S>): ReadonlyArray<S> =>
  staged.toSorted((left, right) => (isLater(left, right) ? 1 : -1))

const isLater = (left: StagedFeedback, right: StagedFeedback): boolean => {
  const order = DateTime.toEpochMillis(left.staged_at) - DateTime.toEpochMillis(right.staged_at)
  return order === 0 ? left.feedback_id > right.feedback_id : order > 0
}

/**
 * The revision of a set of staged corrections: a digest of their ids and of when they were staged, which decides between two of the same
 * input. The content of a correction never changes.
 */
const revisionOf = (staged: ReadonlyArray<StagedFeedback>): string => {
  const digest = createHash("sha256")
  const members = staged.map(
    ({ feedback_id, staged_at }) => `${feedback_id} ${DateTime.toEpochMillis(staged_at)}\n`
  )
  for (const member of members.toSorted()) digest.update(member)
  return digest.digest("hex")
}
