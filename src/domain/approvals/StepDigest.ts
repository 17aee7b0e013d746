import { createHash } from "node:crypto"
import { Result, type Schema } from "effect"
import { canonicalJson } from "../json/CanonicalJson.ts"

/** What a governed step would execute: all of it, and nothing else, is what a decision binds to. */
export interface StepContent {
  readonly org_id: string
  readonly session_id: string
  readonly step_id: string
  readonly tool: string
  readonly action_class: string
  /** As the agent gave them. Absent, `null` and `{}` are three different things. */
  readonly arguments?: Schema.Json
}

/**
 * The digest that ties a decision to one step: SHA-256, in lowercase hex, over the RFC 8785 form of
 * `["countersign-step-v1", org, session, step, tool, action_class, arguments]`. Absent arguments leave the array one element
 * short. The order of keys and the spelling of numbers and escapes do not matter; any other change gives another digest.
 *
 * Throws `NotCanonical` on a lone surrogate or a number that is not finite: every such body was refused before it got here.
 */
export const stepDigest = (step: StepContent): string => {
  const parts: Array<Schema.Json> = [
    "countersign-step-v1",
    step.org_id,
    step.session_id,
    step.step_id,
    step.tool,
    step.action_class
  ]
  if (step.arguments !== undefined) parts.push(step.arguments)
  return createHash("sha256")
    .update(Result.getOrThrow(canonicalJson(parts)))
    .digest("hex")
}
