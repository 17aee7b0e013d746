import { assert, describe, it } from "@effect/vitest"
import { RuleEffect } from "../../../src/domain/approvals/ApprovalRule.ts"
import { evaluateRules } from "../../../src/domain/approvals/CompiledRules.ts"
import { differentEffects, shadowColumns } from "../../../src/domain/approvals/ShadowDifference.ts"

const noDifference = {
  shadow_effect: null,
  shadow_rule_id: null,
  shadow_reason: null,
  shadow_revision: null
}

/** The ruling of an empty list: it requires approval. */
const ruling = evaluateRules([], { tool: "x", action_class: "y", task_id: null, arguments: undefined })

describe("ShadowDifference", () => {
  it("a step without shadow rules, and one with the same effect, has no difference", () => {
    assert.deepStrictEqual(shadowColumns({ decision: "allow", effect: "allow" }, null), noDifference)
    const asked = { decision: "pending", effect: "require_approval" } as const
    assert.deepStrictEqual(shadowColumns(asked, { revision: 3, ruling }), noDifference)
    for (const effect of ["allow", "reject"] as const)
      assert.deepStrictEqual(
        shadowColumns({ decision: effect, effect }, { revision: 3, ruling: { ...ruling, effect } }),
        noDifference
      )
  })

  it("a step with another effect names it, the rule, the reason and the revision of the list", () => {
    assert.deepStrictEqual(shadowColumns({ decision: "allow", effect: "allow" }, { revision: 3, ruling }), {
      shadow_effect: "require_approval",
      shadow_rule_id: null,
      shadow_reason: "No rule matches; a person must approve",
      shadow_revision: 3
    })
    const allowing = { revision: 3, ruling: { ...ruling, effect: "allow" } } as const
    const asked = { decision: "pending", effect: "require_approval" } as const
    assert.strictEqual(shadowColumns(asked, allowing).shadow_effect, "allow")
  })

  it("a step that was allowed without asking, although the rules ask, differs only if it would be rejected", () => {
    const exempt = { decision: "allow", effect: "require_approval" } as const
    const differs = (effect: RuleEffect) =>
      shadowColumns(exempt, { revision: 3, ruling: { ...ruling, effect } }).shadow_effect
    assert.deepStrictEqual(RuleEffect.literals.map(differs), [null, "reject", null])
  })

  it("the pairs of effects are all that differ", () => {
    assert.lengthOf(differentEffects, RuleEffect.literals.length * (RuleEffect.literals.length - 1))
    assert.isTrue(differentEffects.every(({ live, shadow }) => live !== shadow))
  })
})
