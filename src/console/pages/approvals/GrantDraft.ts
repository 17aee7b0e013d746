/** A standing grant while it is edited, as texts of form fields. */
import { Result } from "effect"
import type { NewGrant } from "../../../api/Grants.ts"
import { DEFAULT_GRANT_SECONDS, type GrantScope, MAX_GRANT_USES } from "../../../domain/approvals/Grant.ts"
import { type ConditionDraft, fromConditionDraft } from "../rules/ConditionDraft.ts"

export interface GrantDraft {
  readonly scope: GrantScope
  readonly conditions: ReadonlyArray<ConditionDraft>
  readonly seconds: number
  /** A whole number; empty: any number of steps. */
  readonly uses: string
}

/** The narrowest grant. */
export const newGrantDraft: GrantDraft = {
  scope: "arguments",
  conditions: [],
  seconds: DEFAULT_GRANT_SECONDS,
  uses: ""
}

/** Longest reason of a grant, in characters. */
const MAX_REASON = 1_000

/** The grant of a draft, with the comment as its reason. Fails with a message for the form. */
export const fromGrantDraft = (
  { conditions, scope, seconds, uses }: GrantDraft,
  comment: string
): Result.Result<NewGrant, string> => {
  const count = uses.trim() === "" ? null : Number(uses)
  if (count !== null && !(Number.isInteger(count) && count >= 1 && count <= MAX_GRANT_USES))
    return Result.fail(
      `Enter a whole number from 1 to ${MAX_GRANT_USES}, or nothing for any number of steps.`
    )
  const when = scope === "condition" ? conditions.map(fromConditionDraft) : []
  const fault = when.find(Result.isFailure)
  if (fault !== undefined) return Result.fail("Complete or remove the conditions.")
  if (scope === "condition" && when.length === 0) return Result.fail("Add a condition on the arguments.")
  return Result.succeed({
    scope,
    ...(when.length === 0
      ? {}
      : { when: when.flatMap((one) => (Result.isSuccess(one) ? [one.success] : [])) }),
    lasts_seconds: seconds,
    ...(count === null ? {} : { max_uses: count }),
    reason: comment.slice(0, MAX_REASON)
  })
}
