import { assert, describe, it } from "@effect/vitest"
import { findSimilarRule } from "../../../src/domain/approvals/findSimilarRule.ts"
import { RuleId } from "../../../src/domain/Ids.ts"

const id = (number: number) => RuleId.make(`rul_${String(number).padStart(32, "0")}`)

const rulesOf = (...tools: ReadonlyArray<string>) => tools.map((tool, index) => ({ id: id(index + 1), tool }))

describe("Similar rule", () => {
  it("a tool of look-alike letters names the rule that it would match, whatever rule decided", () => {
    const rules = rulesOf("search.*", "payments.*", "*")
    const expected = { id: id(2), number: 2, tool: "payments.refund", kind: "look_alike" } as const
    // The first two letters are Cyrillic.
    assert.deepInclude(findSimilarRule(rules, "раyments.refund", id(3)), expected)
    assert.deepInclude(findSimilarRule(rules, "раyments.refund", null), expected)
    assert.deepInclude(findSimilarRule(rules, "ｐayments.refund", null), expected)
  })

  it("a misspelt tool names the rule with the nearest name, if no rule decided", () => {
    const rules = rulesOf("search.*", "payments.*", "mail.send")
    assert.deepInclude(findSimilarRule(rules, "payment.refund", null), {
      number: 2,
      tool: "payments.*",
      kind: "spelling"
    })
    assert.deepInclude(findSimilarRule(rules, "mail.sent", null), { number: 3, tool: "mail.send" })
    assert.isUndefined(findSimilarRule(rules, "payment.refund", id(1)))
  })

  it("other tools are similar to nothing", () => {
    assert.isUndefined(findSimilarRule(rulesOf("payments.*", "*"), "kubernetes.apply", null))
    assert.isUndefined(findSimilarRule([], "раyments.refund", null))
    assert.isUndefined(findSimilarRule(rulesOf("payments.*"), "payments.refund", id(1)))
  })
})
