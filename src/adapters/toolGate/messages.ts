/** Texts for the model about a call that is not executed. */
import type { GovernedStep, StepAlreadyClaimedProblem } from "../../client/connect/generated/Operations.ts"
import { errorText } from "../../client/connect/recordable.ts"
import type { Problem } from "../../client/connect/Problem.ts"
import {
  ALREADY_EXECUTED,
  describeClaimed,
  describeRejection,
  describeWaiting,
  joinSentences,
  type RejectionCause,
  sentence
} from "../../domain/approvals/describeDecision.ts"

/** Says what rejected a call. */
export const describeDenial = (
  cause: RejectionCause,
  { changes_requested, comment, proposal, reason, reviewer }: GovernedStep
): string =>
  describeRejection({
    cause,
    reason,
    reviewer,
    comment,
    changes_requested,
    proposal:
      proposal?.arguments === undefined
        ? undefined
        : { arguments: proposal.arguments, expires_at: proposal.expires_at.toISOString() }
  })

/** Says that a call waits. */
export const describePending = ({ approval_id, expires_at, messages }: GovernedStep): string =>
  describeWaiting(String(approval_id), expires_at === null ? null : expires_at.toISOString(), messages)

/** Says that the call was claimed before. */
export const describeHeld = ({ claimed_at, outcome, state }: StepAlreadyClaimedProblem): string =>
  describeClaimed({ state, claimed_at: claimed_at === null ? null : claimed_at.toISOString(), outcome })

/** Says that a call could not be prepared, such as because a function of the settings has thrown. */
export const describeFailure = (error: unknown): string =>
  joinSentences("This call could not be prepared, so it was not executed.", sentence(errorText(error)))

/** Says why there is no decision. The texts of the service's problems are its own. */
export const describeProblem = (
  cause: "executed" | "unreachable" | "refused",
  problem: Problem | undefined
): string => {
  switch (cause) {
    case "executed":
      return ALREADY_EXECUTED
    case "unreachable":
      return "The approval service could not be reached or is busy, so this call was not executed. No person and no rule has rejected it."
    case "refused":
      return joinSentences(
        "The approval service refused to judge this call, so it was not executed.",
        problem === undefined ? "" : sentence(`${problem.code}: ${problem.message}`)
      )
  }
}
