import { assert, describe, it } from "@effect/vitest"
import type { ApprovalRule } from "../../../src/domain/approvals/ApprovalRule.ts"
import { findRuleWarnings } from "../../../src/domain/approvals/ruleWarnings.ts"
import { TaskId } from "../../../src/domain/Ids.ts"

type Rule = Pick<ApprovalRule, "tool" | "action_class" | "task_id" | "effect">

const rule = (effect: ApprovalRule["effect"], over: Partial<Rule> = {}): Rule => ({
  ...{ tool: "*", action_class: "*", task_id: null },
  ...{ effect, ...over }
})
const placesOf = (rules: ReadonlyArray<Rule>) => findRuleWarnings(rules).map(({ pointer }) => pointer)

describe("findRuleWarnings", () => {
  it("a rule that allows any tool by action class or task alone is warned about, wherever it is", () => {
    const task_id = TaskId.make(`tsk_${"0".repeat(32)}`)
    assert.deepStrictEqual(
      placesOf([
        rule("reject"),
        rule("allow", { action_class: "read*" }),
        rule("allow", { tool: "**", task_id })
      ]),
      ["#/rules/1", "#/rules/2"]
    )
    assert.deepStrictEqual(
      placesOf([
        rule("allow", { tool: "files.*", action_class: "read", task_id }),
        rule("reject", { task_id })
      ]),
      []
    )
  })

  it("a rule that allows any tool is warned about before one that rejects, and not after all of them", () => {
    const list = [
      rule("allow"),
      rule("require_approval"),
      rule("reject", { tool: "payments.*" }),
      rule("allow")
    ]
    assert.deepStrictEqual(placesOf(list), ["#/rules/0"])
    assert.deepStrictEqual(placesOf(list.slice(1)), [])
  })
})
