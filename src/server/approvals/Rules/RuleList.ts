import { Effect, Schema } from "effect"
import type { ApprovalRules } from "../../../api/ApprovalRules.ts"
import { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"
import { DEFAULT_QUORUM } from "../../../domain/approvals/Quorum.ts"
import { type CompiledRules, compileRules } from "../../../domain/approvals/CompiledRules.ts"

/** A list of rules at one revision, compiled. */
export interface RuleList extends ApprovalRules {
  readonly compiled: CompiledRules
}

/** The list of an organization that has none. */
export const noRules: RuleList = { rules: [], revision: 0, compiled: compileRules([]) }

/** A rule as it is stored. Rules that were stored before a member existed have its default. */
export const StoredRule = Schema.Struct({
  ...ApprovalRule.fields,
  when: ApprovalRule.fields.when.pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
  quorum: ApprovalRule.fields.quorum.pipe(Schema.withDecodingDefaultKey(Effect.succeed(DEFAULT_QUORUM)))
})
