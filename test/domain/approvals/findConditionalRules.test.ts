import { assert, describe, it } from "@effect/vitest"
import { findConditionalRules } from "../../../src/domain/approvals/findConditionalRules.ts"
import { RuleId, TaskId } from "../../../src/domain/Ids.ts"

const task = TaskId.make(`tsk_${"1".repeat(32)}`)

const rule = (number: number, tool: string, over: object = {}) => ({
  id: RuleId.make(`rul_${String(number).padStart(32, "0")}`),
  tool,
  action_class: "*",
  task_id: null,
  effect: "allow" as const,
  when: [{ pointer: "/amount", op: "at_most" as const, value: number }],
  ...over
})

const numbersOf = (rules: ReadonlyArray<ReturnType<typeof rule>>, decided: number) =>
  findConditionalRules(rules, { tool: "pay.refund", action_class: "write", task_id: null }, decided).map(
    ({ number }) => number
  )

describe("findConditionalRules", () => {
  it("finds rules with conditions that are for the tool, class and task of a step", () => {
    const rules = [
      rule(1, "pay.*"),
      rule(2, "mail.*"),
      rule(3, "pay.refund", { when: [] }),
      rule(4, "*", { action_class: "read" }),
      rule(5, "*", { task_id: task }),
      rule(6, "pay.refund", { action_class: "wri*" })
    ]
    assert.deepStrictEqual(numbersOf(rules, -1), [1, 6])
  })

  it("finds none after the rule that decided, and ends after five", () => {
    const rules = Array.from({ length: 9 }, (_, index) => rule(index + 1, "pay.*"))
    assert.deepStrictEqual(numbersOf(rules, 2), [1, 2, 3])
    assert.deepStrictEqual(numbersOf(rules, -1), [1, 2, 3, 4, 5])
  })
})
