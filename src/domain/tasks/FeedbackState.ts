import { Result } from "effect"
import type { FeedbackStatus } from "./Feedback.ts"

/**
 * The states of feedback, and the inputs that change them:
 *
 * ```
 *                 Stage           promotion
 *  ──> pending ──────────> staged ───────────> promoted
 *         │                   └──────────────> superseded
 *         │ Reject
 *         v
 *      rejected                                recorded: no correction; never changes
 * ```
 *
 * Repeating a verdict changes nothing; any other verdict after the first is refused. A promotion takes all staged corrections of a task
 * together: for each run, the correction that was staged last is promoted and the others are superseded.
 */
export type FeedbackInput = "Stage" | "Reject"

/** Why an input is refused. */
export type FeedbackRefusal = "NoCorrection" | "AlreadyReviewed"

/** The status of new feedback. */
export const initialStatus = (hasCorrection: boolean): FeedbackStatus =>
  hasCorrection ? "pending" : "recorded"

/** The status after an input, or why the input is refused. */
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
