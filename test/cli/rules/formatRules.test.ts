import { assert, describe, it } from "@effect/vitest"
import { isUnchanged, updateYaml, withKnownIds } from "../../../src/cli/rules/formatRules.ts"
import type { ApprovalRule } from "../../../src/domain/approvals/ApprovalRule.ts"
import { defaultRule } from "../../../src/domain/approvals/defaultRule.ts"
import { RuleId } from "../../../src/domain/Ids.ts"

const COUNT = 300

/** Rules with different tools, and how often these were read. */
const countedRules = (prefix: string) => {
  const reads = { count: 0 }
  const rules = Array.from({ length: COUNT }, (_, index): ApprovalRule => ({
    ...defaultRule,
    id: RuleId.make(`rul_${index.toString(16).padStart(32, "0")}`),
    effect: "allow",
    get tool() {
      reads.count++
      return `${prefix}${index}`
    }
  }))
  return { reads, rules }
}

describe("formatRules", () => {
  it("each rule is compared once, however many have no id", () => {
    const { reads, rules: current } = countedRules("old")
    const given = Array.from({ length: COUNT }, (_, index) => ({
      tool: `new${index}`,
      effect: "allow" as const
    }))
    assert.isTrue(withKnownIds(given, current).every(({ id }) => id === undefined))
    assert.isAtMost(reads.count, 10 * COUNT)

    reads.count = 0
    const file = given.map(({ effect, tool }) => `  - { tool: ${tool}, effect: ${effect} }\n`).join("")
    const updated = updateYaml(`rules:\n${file}`, current)
    assert.include(updated, "tool: old299")
    assert.isAtMost(reads.count, 10 * COUNT)
  })

  it("equal rules keep the ids of as many current ones", () => {
    const [first, second] = ["1", "2"].map((digit): ApprovalRule => ({
      ...defaultRule,
      id: RuleId.make(`rul_${digit.repeat(32)}`),
      effect: "allow"
    }))
    if (first === undefined || second === undefined) return assert.fail("two rules")
    const ids = withKnownIds([{ effect: "allow" }, { effect: "allow" }, { effect: "allow" }], [first, second])
    assert.deepStrictEqual(
      ids.map(({ id }) => id),
      [first.id, second.id, undefined]
    )
  })

  it("a budget keeps its notation in a file while it is the same, and gets no second one when it changes", () => {
    const budget = { per: "session", window_seconds: 3600, count: 3, sum: null, by: [] } as const
    const current = (count: number): ApprovalRule => ({
      ...defaultRule,
      id: RuleId.make(`rul_${"1".repeat(32)}`),
      tool: "pay",
      effect: "allow",
      budgets: [{ ...budget, count }]
    })
    const file = `rules:
  - id: rul_${"1".repeat(32)}
    tool: pay # Small ones
    effect: allow
    budget: { per: session, window_seconds: 3600, count: 3 }
`
    const same = updateYaml(file, [current(3)])
    assert.include(same, "budget: { per: session, window_seconds: 3600, count: 3 }")
    assert.notInclude(same, "budgets:")
    assert.include(updateYaml(file.replace(/- id: .*\n\s+/, "- "), [current(3)]), "budget: {")
    const changed = updateYaml(same ?? "", [current(5)])
    assert.notInclude(changed, "budget:")
    assert.include(changed, "# Small ones")
    assert.match(changed ?? "", /budgets:\s+- per: session\s+window_seconds: 3600\s+count: 5\n/)
    const given = {
      tool: "pay",
      effect: "allow",
      budget: { per: "session", window_seconds: 3600, count: 3 }
    } as const
    assert.isTrue(isUnchanged([given], [current(3)]))
    assert.isFalse(isUnchanged([given], [current(4)]))
  })
})
