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
  atOnce(
    digestInSlices(
      ["countersign-proposal-v1", content.org_id, content.session_id, content.tool, content.action_class],
      content.arguments
    )
  )

/**
 * The digest that binds a decision to one step: SHA-256, in lowercase hex, of the RFC 8785 form of
 * `["countersign-step-v1", org, session, step, tool, action_class, arguments]`. If arguments are absent, the array is one element shorter.
 * The order of keys and the notation of numbers and escapes do not matter; any other change gives a different digest.
 *
 * Throws `NotCanonical` for a lone surrogate or a number that is not finite. Request validation rejects both earlier.
 */
export const stepDigest = (step: StepContent): string => atOnce(stepDigestInSlices(step))

/** `stepDigest` in slices, for large arguments: pauses at each `yield`, after about two milliseconds of work. */
export const stepDigestInSlices = (step: StepContent): Generator<undefined, string> =>
  digestInSlices(
    ["countersign-step-v1", step.org_id, step.session_id, step.step_id, step.tool, step.action_class],
    step.arguments
  )

function* digestInSlices(
  names: ReadonlyArray<string>,
  stepArguments: Schema.Json | undefined
): Generator<undefined, string> {
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

const atOnce = <A>(slices: Generator<undefined, A>): A => {
  for (;;) {
    const slice = slices.next()
    if (slice.done === true) return slice.value
  }
}
