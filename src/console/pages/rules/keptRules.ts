/** The edited rules as they are kept while they are not saved. */
import { Schema } from "effect"
import { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"
import { jsonEquals } from "../../ui/Diff.tsx"
import { isChanged, type RuleDraft, type RuleListDraft } from "./RuleDraft.ts"

const Drafts = Schema.Array(Schema.Struct({ rule: ApprovalRule, isNew: Schema.Boolean }))

const KeptRules = Schema.toCodecJson(Schema.Struct({ revision: Schema.Int, before: Drafts, drafts: Drafts }))
const encode = Schema.encodeSync(KeptRules)
const decode = Schema.decodeUnknownOption(KeptRules)

/** The stored form of an edited list: nothing if it is as it was loaded. */
export const toStoredRules = (edited: RuleListDraft): unknown =>
  isChanged(edited) ? encode(edited) : undefined

const sameRule = (left: RuleDraft, right: RuleDraft): boolean =>
  left.isNew === right.isNew && jsonEquals(toJson(left), toJson(right))

const toJson = ({ rule }: RuleDraft): Schema.Json => JSON.parse(JSON.stringify(rule))

/** The edited list of the stored form; undefined if it is of another version of the console. */
export const restoreRules = (stored: unknown): RuleListDraft | undefined => {
  const decoded = decode(stored)
  if (decoded._tag === "None") return undefined
  const { before, drafts, revision } = decoded.value
  return {
    revision,
    before,
    // Rules that are as they were loaded count as unchanged.
    drafts: drafts.map((draft) => before.find((one) => sameRule(one, draft)) ?? draft)
  }
}
