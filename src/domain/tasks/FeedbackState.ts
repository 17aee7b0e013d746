import { Result } from "effect"
import type { FeedbackStatus } from "./Feedback.ts"

/**
 * A correction's way, and what moves it:
 *
 * ```
 *                 Stage           a promotion
 *  ──> pending ──────────> staged ───────────> promoted
 *         │                   └──────────────> superseded
 *         │ Reject
 *         v
 *      rejected                                recorded: no correction, never moves
 * ```
 *
 * The same verdict again changes nothing. All other verdicts are refused: what was decided stays decided. A promotion takes all that is
 * staged of a task at once: of each run the correction that was staged last, and the others are superseded.
 */
export type FeedbackInput = "Stage" | "Reject"

/** Why an input does not move a correction. */
export type FeedbackRefusal = "NoCorrection" | "AlreadyReviewed"

/** What is new feedback's state. */
export const initialStatus = (hasCorrection: boolean): FeedbackStatus =>
  hasCorrection ? "pending" : "recorded"

/** Where an input moves feedback, or leaves it; why it does not, where it is refused. */
export const transition = (
  status: FeedbackStatus,
  input: FeedbackInput
): Result.Result<FeedbackStatus, FeedbackRefusal> => {
  if (status === "recorded") return Result.fail("NoCorrection")
  switch (input) {
    case "Stage":
      return status === "pending"
        ? Result.succeed("staged")
        : status === "rejected"
          ? Result.fail("AlreadyReviewed")
          : Result.succeed(status)
    case "Reject":
      return status === "pending" || status === "rejected"
        ? Result.succeed("rejected")
        : Result.fail("AlreadyReviewed")
  }
}
