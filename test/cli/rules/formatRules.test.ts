import { assert, describe, it } from "@effect/vitest"
import { updateYaml, withKnownIds } from "../../../src/cli/rules/formatRules.ts"
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
})
