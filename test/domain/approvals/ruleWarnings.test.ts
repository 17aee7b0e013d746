import { assert, describe, it } from "@effect/vitest"
import type { ApprovalRule } from "../../../src/domain/approvals/ApprovalRule.ts"
import { findRuleWarnings } from "../../../src/domain/approvals/ruleWarnings.ts"
import { TaskId } from "../../../src/domain/Ids.ts"

type Rule = Pick<ApprovalRule, "tool" | "action_class" | "task_id" | "effect" | "when">

const rule = (effect: ApprovalRule["effect"], over: Partial<Rule> = {}): Rule => ({
  ...{ tool: "*", action_class: "*", task_id: null, when: [] },
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

  it.each([
    ["db.query", "db.query", true],
    ["db.*", "db.query", true],
    ["db.query", "db.*", true],
    ["db.*", "*.query", true],
    ["db.*.one", "db.a*", true],
    ["db.*", "files.*", false],
    ["*.read", "*.write", false],
    ["db.query", "db.queries", false]
  ])(
    "a rule that rejects or asks for %s by action class, before one that allows %s, is warned about: %s",
    (limited, allowed, isWarned) => {
      for (const effect of ["reject", "require_approval"] as const) {
        const list = [
          rule(effect, { tool: limited, action_class: "delete" }),
          rule("allow", { tool: allowed })
        ]
        assert.deepStrictEqual(placesOf(list), isWarned ? ["#/rules/0"] : [])
      }
    }
  )

  it("a rule that rejects by action class is not warned about if the later one allows by arguments, or it rejects for every class", () => {
    const tool = "db.query"
    const when = [{ pointer: "/sql", op: "equals", value: "SELECT 1" }] as const
    assert.deepStrictEqual(
      placesOf([rule("reject", { tool, action_class: "delete" }), rule("allow", { tool, when })]),
      []
    )
    assert.deepStrictEqual(placesOf([rule("reject", { tool }), rule("allow", { tool })]), [])
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
