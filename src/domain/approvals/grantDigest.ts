import type { Schema } from "effect"
import { digestAtOnce, digestInSlices, type DigestSlices } from "./StepDigest.ts"

/** The content of a step that a grant for these very arguments is bound to. */
export interface GrantedContent {
  readonly org_id: string
  readonly session_id: string
  readonly tool: string
  readonly action_class: string
  /** As the agent gave them. Absent, `null` and `{}` are three different values. */
  readonly arguments?: Schema.Json
}

/**
 * The digest that binds a grant to arguments: as `stepDigest`, without the step's id. SHA-256, in lowercase hex, of the RFC 8785 form of
 * `["countersign-grant-v1", org, session, tool, action_class, arguments]`; without arguments the array is one element shorter.
 */
export const grantDigest = (content: GrantedContent): string => digestAtOnce(grantDigestInSlices(content))

/** `grantDigest` in slices, as `stepDigestInSlices`. */
export const grantDigestInSlices = (content: GrantedContent): DigestSlices =>
  digestInSlices(
    ["countersign-grant-v1", content.org_id, content.session_id, content.tool, content.action_class],
    content.arguments
  )
