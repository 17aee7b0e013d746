/** The most characters of a step's ID. */
const MAX_LENGTH = 200

/** Proposals that one call of `govern` accepts: reviewers may propose other arguments again and again. */
export const MAX_PROPOSALS = 10

/**
 * The ID of the step that `govern` requests with the arguments of a proposal: `refund~2` after `refund`, then `refund~3`. A program that is
 * started again requests the same steps again, which have their decisions.
 */
export const proposedStepId = (step_id: string, attempt: number): string => {
  const suffix = `~${attempt}`
  // The cut must not leave half of a character.
  return step_id.slice(0, MAX_LENGTH - suffix.length).replace(/[\uD800-\uDBFF]$/u, "") + suffix
}
