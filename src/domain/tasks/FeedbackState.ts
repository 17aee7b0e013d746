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
 *
 *  pending, staged ── Withdraw ──> withdrawn
 * ```
 *
 * Repeating an input changes nothing, and a rejected correction stays rejected. A promotion takes all staged corrections of a task together,
 * or the named ones: for each input, the correction that was staged last is promoted and the others are superseded. A withdrawal closes a
 * correction that was not promoted yet, and leaves any other status.
 */
export type FeedbackInput = "Stage" | "Unstage" | "Reject" | "Withdraw"

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
  const isOpen = status === "pending" || status === "staged"
  if (input === "Withdraw") return Result.succeed(isOpen ? "withdrawn" : status)
  if (status === "recorded") return Result.fail("NoCorrection")
  switch (input) {
    case "Stage":
      return status === "pending"
        ? Result.succeed("staged")
        : status === "rejected" || status === "withdrawn"
          ? Result.fail("AlreadyReviewed")
          : Result.succeed(status)
    case "Unstage":
      return isOpen ? Result.succeed("pending") : Result.fail("AlreadyReviewed")
    case "Reject":
      return isOpen || status === "rejected" ? Result.succeed("rejected") : Result.fail("AlreadyReviewed")
  }
}
