import { createHash, type Hash, hash } from "node:crypto"
import type { Schema } from "effect"
import { canonicalParts } from "../json/CanonicalJson.ts"

/** The content of a governed step. A decision is bound to all of it and to nothing else. */
export interface StepContent {
  readonly org_id: string
  readonly session_id: string
  readonly step_id: string
  readonly tool: string
  readonly action_class: string
  /** As the agent gave them. Absent, `null` and `{}` are three different values. */
  readonly arguments?: Schema.Json
}

/** The content of a step to which a counter-proposal is bound: that of a step, whatever its ID. */
export type ProposalContent = Omit<StepContent, "step_id">

/**
 * The digest that binds a counter-proposal to later steps: as `stepDigest`, of
 * `["countersign-proposal-v1", org, session, tool, action_class, arguments]`.
 */
export const proposalDigest = (content: ProposalContent): string =>
  digestAtOnce(proposalDigestInSlices(content))

/** `proposalDigest` in slices, as `stepDigestInSlices`. */
export const proposalDigestInSlices = (content: ProposalContent): DigestSlices =>
  digestInSlices(
    ["countersign-proposal-v1", content.org_id, content.session_id, content.tool, content.action_class],
    content.arguments
  )

/**
 * The digest that binds a decision to one step: SHA-256, in lowercase hex, of the RFC 8785 form of
 * `["countersign-step-v1", org, session, step, tool, action_class, arguments]`. If arguments are absent, the array is one element shorter.
 * The order of keys and the notation of numbers and escapes do not matter; any other change gives a different digest.
 *
 * Throws `NotCanonical` for a lone surrogate or a number that is not finite. Request validation rejects both earlier.
 */
export const stepDigest = (step: StepContent): string => digestAtOnce(stepDigestInSlices(step))

/** `stepDigest` in slices, for large arguments, which must not change meanwhile. */
export const stepDigestInSlices = (step: StepContent): DigestSlices =>
  digestInSlices(
    ["countersign-step-v1", step.org_id, step.session_id, step.step_id, step.tool, step.action_class],
    step.arguments
  )

/**
 * A digest that pauses at each `yield`: the first time after two of the `canonicalParts`, then after each, which is about a millisecond. A
 * part with an object of 20,000 names or a text of some MiB takes up to 30 ms.
 */
export type DigestSlices = Generator<undefined, string>

/** The digest of a version and the names of a step, and of its arguments if it has any. */
export function* digestInSlices(
  names: ReadonlyArray<string>,
  stepArguments: Schema.Json | undefined
): DigestSlices {
  const content: ReadonlyArray<Schema.Json> = stepArguments === undefined ? names : [...names, stepArguments]
  let first: string | undefined
  let whole: Hash | undefined
  for (const part of canonicalParts(content)) {
    if (first === undefined) {
      first = part
      continue
    }
    whole ??= createHash("sha256").update(first)
    whole.update(part)
    yield
  }
  // Several times as fast as an object with updates, for the small arguments that nearly all steps have.
  return whole === undefined ? hash("sha256", first ?? "") : whole.digest("hex")
}

/** The digest, without pauses. */
export const digestAtOnce = (slices: DigestSlices): string => {
  for (;;) {
    const slice = slices.next()
    if (slice.done === true) return slice.value
  }
}
