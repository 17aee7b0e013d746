/** One decision for many approvals: `POST /v1/agent-approvals/decide`. */
import { Schema } from "effect"
import { Decision } from "../domain/approvals/Approval.ts"
import { documented } from "../domain/documented.ts"
import { documentedEnum } from "../domain/documentedEnum.ts"
import { ApprovalId } from "../domain/Ids.ts"
import { hasVisibleText } from "../domain/VisibleText.ts"
import { ApprovalSnapshot } from "./SessionStream.ts"
import { Comment } from "./Text.ts"

/** Approvals that one request decides. */
export const MAX_DECISIONS = 100

/** Refuses a list that names an approval twice, and points to the second. */
const withoutDuplicates = Schema.makeFilter((ids: ReadonlyArray<string>) => {
  const seen = new Set<string>()
  for (const [index, id] of ids.entries()) {
    if (seen.has(id)) return { path: [index], issue: "Expected each approval once" }
    seen.add(id)
  }
  return true
})

/** Refuses a request for changes without an instruction. */
export const withInstruction = Schema.makeFilter(
  ({ comment, decision }: { readonly comment?: string | null; readonly decision: Decision }) =>
    decision === "request_changes" && !hasVisibleText(comment ?? "")
      ? {
          path: ["comment"],
          issue: "Expected a comment that says what to change, because `decision` is `request_changes`"
        }
      : undefined
)

export const DecideManyRequest = Schema.Struct({
  approval_ids: Schema.Array(ApprovalId)
    .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_DECISIONS), withoutDuplicates)
    .check(documented({ uniqueItems: true }))
    .annotateKey({
      description: `The approvals to decide, 1 to ${MAX_DECISIONS}, each once.`
    }),
  decision: Decision.annotateKey({ description: "The verdict on each of them." }),
  comment: Schema.optionalKey(Schema.NullOr(Comment)).annotateKey({
    description:
      "A comment for the record of each of them, at most 4,000 characters. Required with `request_changes`, and if the rule of one of them asks for it. Default null."
  })
})
  .annotate({
    description: "A person's verdict on several approvals. It is attributed to the API key that sends it."
  })
  .check(withInstruction)
  .annotate({ identifier: "DecideManyRequest" })
export type DecideManyRequest = typeof DecideManyRequest.Type

const RefusalCode = documentedEnum({
  NOT_FOUND: "The organization has no such approval.",
  SELF_APPROVAL: "The key that submitted the step cannot decide it, nor can a key that it created.",
  ADMIN_REQUIRED: "The approval was escalated; deciding it requires `approvals.admin`.",
  GROUP_REQUIRED:
    "The quorum asks for members of groups, and the key is in none whose approval is still needed.",
  SAME_PERSON: "A key that created this one, or that it created, has approved already.",
  COMMENT_REQUIRED: "The rule asks for a comment with this decision.",
  APPROVAL_ALREADY_DECIDED: "The approval was already decided. `approval` shows by whom and how.",
  APPROVAL_EXPIRED: "The approval closed before anyone decided. `approval` shows its outcome."
})

export const DecisionRefusal = Schema.Struct({
  type: Schema.String.annotateKey({ description: "URI of the problem's type." }),
  status: Schema.Int.annotateKey({ description: "The HTTP status with which a single decision is refused." }),
  code: RefusalCode.annotateKey({ description: "Stable code of the problem. Branch on this." }),
  title: Schema.String.annotateKey({ description: "The problem in a few words." }),
  detail: Schema.String.annotateKey({ description: "What happened, and what to do." })
}).annotate({
  identifier: "DecisionRefusal",
  description: "Why one approval of a request was not decided."
})
export type DecisionRefusal = typeof DecisionRefusal.Type

export const DecisionResult = Schema.Struct({
  approval_id: ApprovalId.annotateKey({ description: "The approval's ID." }),
  approval: Schema.NullOr(ApprovalSnapshot).annotateKey({
    description:
      "The approval as it is now, without its arguments. Null if a problem says that it does not exist, or that this key cannot decide it."
  }),
  problem: Schema.NullOr(DecisionRefusal).annotateKey({
    description:
      "Why the decision was refused. Null if it was accepted: in this request, or in an earlier equal one of this key."
  })
}).annotate({ identifier: "DecisionResult", description: "What became of one approval of a request." })
export type DecisionResult = typeof DecisionResult.Type

export const DecisionResults = Schema.Struct({
  results: Schema.Array(DecisionResult).annotateKey({
    description: "One result for each approval, in the order of the request."
  })
}).annotate({ identifier: "DecisionResults", description: "The results of deciding several approvals." })
