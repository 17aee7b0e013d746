/** What a model is told about a call that is not executed. */
import type { GovernedStep } from "../../client/connect/Operations.ts"
import type { Problem } from "../../client/connect/Problem.ts"

/** A reason as a sentence of its own. */
const sentence = (text: string): string => {
  const trimmed = text.trim()
  return trimmed === "" || /[.!?]$/u.test(trimmed) ? trimmed : `${trimmed}.`
}

const join = (...sentences: ReadonlyArray<string>): string => sentences.filter(Boolean).join(" ")

const proposalOf = ({ proposal }: GovernedStep): string =>
  proposal?.arguments === undefined
    ? "Do not call it again with these arguments."
    : `They propose other arguments; a call with exactly these is allowed until ${proposal.expires_at.toISOString()}: ${JSON.stringify(proposal.arguments)}`

/** Says what rejected a call. */
export const describeDenial = (
  cause: "person" | "rule" | "timeout" | "session_closed",
  decision: GovernedStep,
  comment: string | null
): string => {
  switch (cause) {
    case "person":
      return join(
        "A person rejected this call, so it was not executed.",
        // Quoted: it is the person's, not an instruction of the service.
        comment === null || comment === "" ? "" : `Their comment: ${JSON.stringify(comment)}.`,
        proposalOf(decision)
      )
    case "rule":
      return join(
        "A rule rejected this call, so it was not executed.",
        sentence(decision.reason),
        "Do not call it again with these arguments."
      )
    case "timeout":
      return "Nobody decided about this call in time, so it was not executed. No person has rejected it."
    case "session_closed":
      return "The session was closed before anybody decided about this call, so it was not executed."
  }
}

/** Says that a call waits. */
export const describePending = ({ approval_id, expires_at }: GovernedStep): string =>
  join(
    `This call waits for a person (approval ${String(approval_id)}) and was not executed.`,
    expires_at === null ? "" : `The review window ends at ${expires_at.toISOString()}.`
  )

/** Says why there is no decision. The texts of the service's problems are its own. */
export const describeProblem = (
  cause: "executed" | "unreachable" | "refused",
  problem: Problem | undefined
): string => {
  switch (cause) {
    case "executed":
      return "This call was executed before and its outcome is recorded, so it was not executed again."
    case "unreachable":
      return "The approval service could not be reached, so this call was not executed. No person and no rule has rejected it."
    case "refused":
      return join(
        "The approval service refused to judge this call, so it was not executed.",
        problem === undefined ? "" : sentence(`${problem.code}: ${problem.message}`)
      )
  }
}
