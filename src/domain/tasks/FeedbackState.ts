import { Result } from "effect"
import type { FeedbackStatus } from "./Feedback.ts"

/**
 * The states of feedback, and the inputs that change them:
 *
 * ```
 *                 Stage
 *               ──────────>          promotion
 *  ──> pending             staged ───────────────> promoted
 *         │     <──────────  │  └────────────────> superseded
 *         │      Unstage     │
 *         │ Reject           │ Reject
 *         v                  │
 *      rejected <────────────┘                     recorded: no correction; never changes
 * ```
 *
 * Repeating an input changes nothing, and a rejected correction stays rejected. A promotion takes all staged corrections of a task together,
 * or the named ones: for each input, the correction that was staged last is promoted and the others are superseded.
 */
export type FeedbackInput = "Stage" | "Unstage" | "Reject"

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
  const isOpen = status === "pending" || status === "staged"
  switch (input) {
    case "Stage":
      return status === "pending"
        ? Result.succeed("staged")
        : status === "rejected"
          ? Result.fail("AlreadyReviewed")
          : Result.succeed(status)
    case "Unstage":
      return isOpen ? Result.succeed("pending") : Result.fail("AlreadyReviewed")
    case "Reject":
      return isOpen || status === "rejected" ? Result.succeed("rejected") : Result.fail("AlreadyReviewed")
  }
}
