import { Result } from "effect"
import type { FeedbackStatus } from "./Feedback.ts"

/**
 * A correction's way, and what moves it:
 *
 * ```
 *                 Stage            Promote
 *  ──> pending ──────────> staged ─────────> promoted
 *         │                   │  Supersede
 *         │ Reject            └────────────> superseded
 *         v
 *      rejected                              recorded: no correction, never moves
 * ```
 *
 * The same verdict again changes nothing. All else is refused: what was decided stays decided, and only a promotion moves what is staged.
 */
export type FeedbackInput = "Stage" | "Reject" | "Promote" | "Supersede"

/** Why an input does not move a correction. */
export type FeedbackRefusal = "NoCorrection" | "AlreadyReviewed" | "NotStaged"

/** What is new feedback's state. */
export const opened = (hasCorrection: boolean): FeedbackStatus => (hasCorrection ? "pending" : "recorded")

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
    case "Promote":
      return status === "staged" ? Result.succeed("promoted") : Result.fail("NotStaged")
    case "Supersede":
      return status === "staged" ? Result.succeed("superseded") : Result.fail("NotStaged")
  }
}
