import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import {
  type ApprovalRule,
  evaluateRules,
  matchesPattern
} from "../../../src/domain/approvals/ApprovalRule.ts"
import { RuleId, TaskId } from "../../../src/domain/Ids.ts"

const rule = (over: Partial<ApprovalRule>): ApprovalRule => ({
  id: RuleId.make(`rul_${"0".repeat(32)}`),
  tool: "*",
  action_class: "*",
  task_id: null,
  effect: "require_approval",
  review_seconds: 60,
  expiring_seconds: 15,
  escalation_seconds: null,
  timeout_action: "reject",
  self_approval: false,
  reason: "",
  ...over
})
const step = { tool: "payments.refund", action_class: "write", task_id: null }

describe("ApprovalRule", () => {
  it("the first rule that matches decides", () => {
    const verdict = evaluateRules(
      [
        rule({ tool: "payments.read" }),
        rule({ tool: "payments.*", effect: "reject", reason: "Never" }),
        rule({ effect: "allow" })
      ],
      step
    )
    assert.strictEqual(verdict.effect, "reject")
    assert.strictEqual(verdict.reason, "Never")
  })

  it("without a matching rule a person must approve within an hour, and the timeout action is reject", () => {
    assert.deepStrictEqual(evaluateRules([rule({ tool: "mail.send", effect: "allow" })], step), {
      rule_id: null,
      effect: "require_approval",
      reason: "No rule matches; a person must approve",
      terms: {
        review_seconds: 3600,
        expiring_seconds: null,
        escalation_seconds: null,
        timeout_action: "reject",
        self_approval: false
      }
    })
  })

  it("a rule with a task matches only steps of that task", () => {
    const task_id = TaskId.make(`tsk_${"1".repeat(32)}`)
    const rules = [rule({ task_id, effect: "allow" })]
    assert.strictEqual(evaluateRules(rules, { ...step, task_id }).effect, "allow")
    assert.strictEqual(evaluateRules(rules, step).effect, "require_approval")
  })

  it.each([
    ["*", "", true],
    ["a*", "a", true],
    ["*a", "ba", true],
    ["a*a", "a", false],
    ["a*b*c", "axxbyyc", true],
    ["a*b*c", "axxcyyb", false],
    ["a.b", "axb", false],
    ["(a+)+$", "(a+)+$", true],
    ["**", "anything", true]
  ])("pattern %s against text %s matches: %s", (pattern, text, expected) => {
    assert.strictEqual(matchesPattern(pattern, text), expected)
  })

  it("a pattern matches like the equivalent regular expression", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", "*"), maxLength: 8 })
    fc.assert(
      fc.property(letters, fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 10 }), (pattern, text) => {
        assert.strictEqual(
          matchesPattern(pattern, text),
          new RegExp(`^${pattern.replaceAll("*", ".*")}$`).test(text)
        )
      }),
      { numRuns: 3000 }
    )
  })
})
