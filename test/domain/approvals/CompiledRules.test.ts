import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import fc from "fast-check"
import type { ApprovalRule } from "../../../src/domain/approvals/ApprovalRule.ts"
import {
  compileRules,
  compileRulesInSteps,
  evaluateRules
} from "../../../src/domain/approvals/CompiledRules.ts"
import { fitsBudgets } from "../../../src/domain/approvals/BudgetMeter.ts"
import { compileTextPattern } from "../../../src/domain/approvals/CompiledRules/compileTextPattern.ts"
import { uniteQuorums } from "../../../src/domain/approvals/Quorum.ts"
import { RuleCondition } from "../../../src/domain/approvals/RuleCondition.ts"
import { describeIssue } from "../../../src/domain/describeIssue.ts"
import { RuleId, TaskId } from "../../../src/domain/Ids.ts"

const rule = (over: Partial<ApprovalRule>): ApprovalRule => ({
  id: RuleId.make(`rul_${"0".repeat(32)}`),
  tool: "*",
  action_class: "*",
  task_id: null,
  when: [],
  budgets: [],
  reviewer: null,
  effect: "require_approval",
  review_seconds: 60,
  expiring_seconds: 15,
  escalation_seconds: null,
  retry_unknown: false,
  timeout_action: "reject",
  self_approval: false,
  quorum: [{ count: 1, group: null }],
  require_comment: "never",
  reason: "",
  summary_template: null,
  ...over
})
const step = { tool: "payments.refund", action_class: "write", task_id: null, arguments: undefined }

describe("CompiledRules", () => {
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
        self_approval: false,
        quorum: [{ count: 1, group: null }],
        require_comment: "never"
      }
    })
  })

  it("the rule that decided a step allows another attempt only while it matches the step", () => {
    const id = RuleId.make(`rul_${"1".repeat(32)}`)
    const positive: RuleCondition = { pointer: "/amount", op: "greater_than", value: 0 }
    const retries = (over: Partial<ApprovalRule>, rule_id: RuleId | null = id) =>
      compileRules([rule({ effect: "allow" }), rule({ id, retry_unknown: true, ...over })]).retriesUnknown(
        rule_id,
        { ...step, arguments: { amount: 1 } }
      )
    assert.isTrue(retries({}))
    assert.isTrue(retries({ when: [positive] }))
    assert.isFalse(retries({ retry_unknown: false }))
    assert.isFalse(retries({}, null))
    assert.isFalse(retries({}, rule({}).id))
    assert.isFalse(retries({ tool: "payments.pay" }))
    assert.isFalse(retries({ task_id: TaskId.make(`tsk_${"1".repeat(32)}`) }))
    assert.isFalse(retries({ when: [{ ...positive, value: 1 }] }))
    // It cannot be judged.
    assert.isFalse(retries({ when: [{ ...positive, pointer: "/missing" }] }))
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
    assert.strictEqual(compileTextPattern(pattern)(text), expected)
  })

  it("a pattern matches like the equivalent regular expression", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", "*"), maxLength: 8 })
    fc.assert(
      fc.property(letters, fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 10 }), (pattern, text) => {
        assert.strictEqual(
          compileTextPattern(pattern)(text),
          new RegExp(`^${pattern.replaceAll("*", ".*")}$`).test(text)
        )
      }),
      { numRuns: 3000 }
    )
  })
})

/** A condition as the API accepts it. */
const condition = Schema.decodeUnknownSync(RuleCondition)

/** How a rule with one condition judges arguments: `allow` if it allows them, and `ask` if it asks because it cannot be judged. */
const judged = (given: object, value: Schema.Json | undefined): "holds" | "fails" | "unjudged" => {
  const when = [condition(given)]
  const evaluate = (effect: "allow" | "reject") =>
    evaluateRules([rule({ effect, when }), rule({ effect: "allow" })], { ...step, arguments: value })
  const rejecting = evaluate("reject").effect
  const allowing = evaluateRules([rule({ effect: "allow", when })], { ...step, arguments: value }).effect
  assert.strictEqual(
    allowing === "allow",
    rejecting === "reject",
    "an allow matches exactly if a reject does"
  )
  return rejecting === "reject" ? "holds" : rejecting === "allow" ? "fails" : "unjudged"
}

const nested = (levels: number): Schema.Json =>
  Array.from({ length: levels }).reduce<Schema.Json>((inner) => [inner], 1)

describe("RuleCondition", () => {
  it.each<[given: object, value: Schema.Json | undefined, expected: string]>([
    [{ pointer: "/a", op: "equals", value: 1 }, { a: 1 }, "holds"],
    [{ pointer: "/a", op: "equals", value: 1 }, { a: 2 }, "fails"],
    [{ pointer: "/a", op: "equals", value: 1 }, { a: "1" }, "unjudged"],
    [{ pointer: "/a", op: "equals", value: 1 }, { a: [1] }, "unjudged"],
    [{ pointer: "/a", op: "equals", value: 1 }, {}, "unjudged"],
    [{ pointer: "/a", op: "equals", value: null }, { a: "x" }, "fails"],
    [{ pointer: "/a", op: "equals", value: "x" }, { a: null }, "unjudged"],
    [{ pointer: "/a", op: "equals", value: { b: 1, c: [2] } }, { a: { c: [2], b: 1 } }, "holds"],
    [{ pointer: "/a", op: "equals", value: { b: 1 } }, { a: { b: 1, c: 2 } }, "fails"],
    [{ pointer: "/a", op: "equals", value: { b: 1 } }, { a: { b: "1" } }, "unjudged"],
    [{ pointer: "/a", op: "equals", value: { b: 1, c: 2 } }, { a: { b: "1", c: 3 } }, "fails"],
    [{ pointer: "/a", op: "equals", value: { b: 1 } }, { a: {} }, "unjudged"],
    [{ pointer: "/a", op: "not_equals", value: "admin" }, { a: "user" }, "holds"],
    [{ pointer: "/a", op: "not_equals", value: "admin" }, { a: ["admin"] }, "unjudged"],
    [{ pointer: "/a", op: "not_equals", value: null }, { a: 0 }, "holds"],
    [{ pointer: "/a", op: "in", value: ["x", 1] }, { a: 1 }, "holds"],
    [{ pointer: "/a", op: "in", value: ["x", 1] }, { a: 2 }, "unjudged"],
    [{ pointer: "/a", op: "not_in", value: ["x", 1] }, { a: "1" }, "unjudged"],
    [{ pointer: "/a", op: "not_in", value: ["x", 1] }, { a: "x" }, "fails"],
    [{ pointer: "/a", op: "not_in", value: [[1], "x"] }, { a: [2] }, "unjudged"],
    [{ pointer: "/a", op: "not_in", value: ["", null] }, { a: "x" }, "holds"],
    [{ pointer: "/a", op: "not_in", value: ["", null] }, { a: null }, "fails"],
    [{ pointer: "/a", op: "in", value: ["x", 1] }, { a: true }, "unjudged"],
    [{ pointer: "/a", op: "not_in", value: ["x"] }, { a: "y" }, "holds"],
    [{ pointer: "/a", op: "not_in", value: ["x"] }, { a: ["x"] }, "unjudged"],
    [{ pointer: "/a", op: "not_in", value: ["x"] }, {}, "unjudged"],
    [{ pointer: "/a", op: "not_in", value: [{ b: 1 }] }, { a: { b: "1" } }, "unjudged"],
    [{ pointer: "/a", op: "starts_with", value: "eu-" }, { a: "eu-west" }, "holds"],
    [{ pointer: "/a", op: "ends_with", value: "@acme.com" }, { a: "m@acme.com.evil" }, "fails"],
    [{ pointer: "/a", op: "matches", value: "^[a-z]+@acme[.]com$" }, { a: "m@acme.com" }, "holds"],
    [{ pointer: "/a", op: "matches", value: "^[a-z]+@acme[.]com$" }, { a: "m@acme.com\n" }, "fails"],
    [{ pointer: "/a", op: "not_matches", value: "prod" }, { a: "dev" }, "holds"],
    [{ pointer: "/a", op: "not_matches", value: "prod" }, { a: 7 }, "unjudged"],
    [{ pointer: "/a", op: "exists" }, { a: null }, "holds"],
    [{ pointer: "/a", op: "exists" }, {}, "fails"],
    [{ pointer: "/a", op: "absent" }, {}, "holds"],
    [{ pointer: "/a", op: "absent" }, undefined, "holds"],
    [{ pointer: "/a", op: "absent" }, null, "unjudged"],
    [{ pointer: "/a/b", op: "absent" }, { a: "text" }, "unjudged"],
    [{ pointer: "/a/b", op: "absent" }, { a: ["b"] }, "unjudged"],
    [{ pointer: "", op: "equals", value: "x" }, "x", "holds"],
    [{ pointer: "", op: "exists" }, undefined, "fails"]
  ])("%j judges the arguments %j: %s", (given, value, expected) => {
    assert.strictEqual(judged(given, value), expected)
  })

  it.each<[op: string, limit: number, below: string, at: string, above: string]>([
    ["less_than", 5, "holds", "fails", "fails"],
    ["at_most", 5, "holds", "holds", "fails"],
    ["greater_than", 5, "fails", "fails", "holds"],
    ["at_least", 5, "fails", "holds", "holds"],
    ["min_length", 2, "fails", "holds", "holds"],
    ["max_length", 2, "holds", "holds", "fails"],
    ["min_items", 2, "fails", "holds", "holds"],
    ["max_items", 2, "holds", "holds", "fails"]
  ])("%s %d judges a value below, at and above its limit: %s, %s, %s", (op, limit, below, at, above) => {
    const valueOf = (size: number): Schema.Json =>
      op.endsWith("_length") ? "x".repeat(size) : op.endsWith("_items") ? Array(size).fill(null) : size
    const expected = [below, at, above]
    const around = [limit - 1, limit, limit + 1].map((size) => ({ a: valueOf(size) }))
    const given = { pointer: "/a", op, value: limit }
    assert.deepStrictEqual(
      around.map((value) => judged(given, value)),
      expected
    )
    // The same limit for each element of a list.
    assert.deepStrictEqual(
      around.map((value) => judged({ pointer: "/list", op: "every", value: [given] }, { list: [value] })),
      expected
    )
    // A value of another type has no size.
    const others: ReadonlyArray<Schema.Json> = [
      null,
      true,
      {},
      ...["5", 5, [5]].filter((value) => typeof value !== typeof valueOf(1))
    ]
    for (const other of others)
      assert.strictEqual(judged(given, { a: other }), "unjudged", JSON.stringify(other))
    assert.strictEqual(judged(given, {}), "unjudged")
  })

  it.each<[pointer: string, value: Schema.Json, expected: string]>([
    ["/__proto__", {}, "fails"],
    ["/constructor", {}, "fails"],
    ["/a/length", { a: [1] }, "unjudged"],
    ["/a/0", { a: [1] }, "holds"],
    ["/a/00", { a: [1] }, "unjudged"],
    ["/a/-", { a: [1] }, "unjudged"],
    ["/a/1e0", { a: [1, 2] }, "unjudged"],
    ["/a/1", { a: [1] }, "fails"],
    ["/0", { 0: 1 }, "holds"],
    ["/a~1b/c~0d", { "a/b": { "c~d": 1 } }, "holds"],
    ["/a~01", { "a~1": 1 }, "holds"],
    ["/", { "": 1 }, "holds"]
  ])("the pointer %s finds a value in %j: %s", (pointer, value, expected) => {
    assert.strictEqual(judged({ pointer, op: "exists" }, value), expected)
  })

  it("a member named __proto__ of parsed JSON is found like any other", () => {
    const parsed = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))('{"__proto__":{"a":1}}')
    assert.strictEqual(judged({ pointer: "/__proto__/a", op: "equals", value: 1 }, parsed), "holds")
  })

  it.each<[op: string, value: Schema.Json, expected: string]>([
    ["every", ["a@acme.com", "b@acme.com"], "holds"],
    ["every", ["a@acme.com", "b@evil.com", 7], "fails"],
    ["every", ["a@acme.com", 7], "unjudged"],
    ["every", [], "unjudged"],
    ["every", "a@acme.com", "unjudged"],
    ["some", ["b@evil.com", "a@acme.com"], "holds"],
    ["some", ["b@evil.com", 7], "unjudged"],
    ["some", ["b@evil.com"], "fails"],
    ["some", [], "fails"]
  ])("%s element of %j ends with @acme.com: %s", (op, value, expected) => {
    const inner = { pointer: "", op: "ends_with", value: "@acme.com" }
    assert.strictEqual(judged({ pointer: "/to", op, value: [inner] }, { to: value }), expected)
  })

  it("several conditions on an element hold for the same element", () => {
    const given = {
      pointer: "/lines",
      op: "some",
      value: [
        { pointer: "/sku", op: "equals", value: "gold" },
        { pointer: "/qty", op: "greater_than", value: 1 }
      ]
    }
    const lines = (...quantities: ReadonlyArray<readonly [string, number]>) => ({
      lines: quantities.map(([sku, qty]) => ({ sku, qty }))
    })
    assert.strictEqual(judged(given, lines(["gold", 1], ["tin", 9])), "fails")
    assert.strictEqual(judged(given, lines(["tin", 9], ["gold", 2])), "holds")
  })

  it("arguments that take too long to judge are a question, and the cost of one step is limited", () => {
    const every = { pointer: "", op: "every", value: [{ pointer: "/a", op: "equals", value: 1 }] }
    const some = { pointer: "", op: "some", value: [{ pointer: "/a", op: "equals", value: 1 }] }
    const large = Array.from({ length: 99_000 }, () => ({ a: 1 }))
    assert.strictEqual(judged(every, large.slice(0, 1_000)), "holds")
    assert.strictEqual(judged(every, large), "unjudged")
    assert.strictEqual(judged(some, [...large.map(() => ({ a: 2 })), { a: 1 }]), "unjudged")
    assert.strictEqual(
      judged({ pointer: "/a", op: "matches", value: "(x+x+)+y" }, { a: "x".repeat(1_000_000) }),
      "unjudged"
    )
  })

  it("of thousands of patterns that cannot be used, the first ones are faults and the others are not compiled", () => {
    const rules = Array.from({ length: 500 }, (_, index) =>
      rule({
        when: Array.from({ length: 20 }, (_unused, at) =>
          condition({ pointer: "/a", op: "matches", value: `${index}-${at}(${"a?".repeat(400)}){1000}` })
        )
      })
    )
    const { faults } = compileRules(rules)
    assert.lengthOf(faults, 20)
    assert.match(faults[0]?.detail ?? "", /too large/)
    // Those that are compiled before their size is known take longer.
    const large = rules.slice(0, 2).map((one, index) => ({
      ...one,
      when: one.when.map((_, at) =>
        condition({ pointer: "/a", op: "matches", value: `${index}-${at}[a-z]{990}` })
      )
    }))
    assert.isAtMost(compileRules(large).faults.length, 11)
  })

  it("a list is compiled in steps, one for each pattern, also of conditions on elements", () => {
    const matches = (value: string) => ({ pointer: "/a", op: "matches", value })
    const when = [
      condition(matches("a")),
      condition({ pointer: "/b", op: "some", value: [matches("b"), matches("c")] })
    ]
    const steps = compileRulesInSteps([rule({ when }), rule({ effect: "allow" })])
    for (const _ of ["a", "b", "c"]) assert.isFalse(steps.next().done)
    const { done, value } = steps.next()
    assert.isTrue(done)
    assert.strictEqual(
      value?.evaluate({ ...step, arguments: { a: "x", b: [] } }, fitsBudgets).effect,
      "allow"
    )
  })

  it("an object is enumerated once, however many conditions compare with it", () => {
    let enumerations = 0
    const large = new Proxy(
      { amount: 1 },
      {
        ownKeys: (target) => {
          enumerations++
          return Reflect.ownKeys(target)
        }
      }
    )
    const rules = Array.from({ length: 100 }, (_, index) =>
      rule({ effect: "allow", when: [condition({ pointer: "/to", op: "equals", value: { kind: index } })] })
    )
    assert.strictEqual(evaluateRules(rules, { ...step, arguments: { to: large } }).effect, "require_approval")
    assert.strictEqual(enumerations, 1)
  })

  it.each<[given: object, fault: RegExp]>([
    [{ pointer: "a", op: "exists" }, /JSON Pointer/],
    [{ pointer: "/a~2", op: "exists" }, /JSON Pointer/],
    [{ pointer: "/a\u202e", op: "exists" }, /JSON Pointer/],
    [{ pointer: "/a".repeat(17), op: "exists" }, /16 segments/],
    [{ pointer: `/${"a".repeat(500)}`, op: "exists" }, /500/],
    [{ pointer: "/a", op: "at_most", value: "5" }, /number/],
    [{ pointer: "/a", op: "in", value: [] }, /length/],
    [{ pointer: "/a", op: "starts_with", value: "" }, /length/],
    [{ pointer: "/a", op: "equals", value: nested(9) }, /8 levels/],
    [{ pointer: "/a", op: "equals" }, /value/],
    [{ pointer: "/a", op: "like", value: "x" }, /op/],
    [
      {
        pointer: "/a",
        op: "every",
        value: [
          {
            pointer: "",
            op: "every",
            value: [{ pointer: "", op: "every", value: [{ pointer: "", op: "exists" }] }]
          }
        ]
      },
      /op|value/
    ]
  ])("the condition %j is refused", (given, fault) => {
    const decoded = Schema.decodeUnknownResult(RuleCondition)(given)
    if (Result.isSuccess(decoded)) return assert.fail("The condition was accepted")
    assert.match(JSON.stringify(describeIssue(decoded.failure.issue)), fault)
  })
})

describe("Rules with conditions", () => {
  const refunds = rule({
    tool: "payments.*",
    effect: "allow",
    reason: "Small refunds",
    when: [
      condition({ pointer: "/amount", op: "at_most", value: 100 }),
      condition({ pointer: "/currency", op: "equals", value: "EUR" })
    ]
  })
  const noEvil = rule({
    effect: "reject",
    reason: "Never to Mallory",
    timeout_action: "allow",
    self_approval: true,
    when: [condition({ pointer: "/to", op: "equals", value: "mallory" })]
  })
  const evaluate = (rules: ReadonlyArray<ApprovalRule>, value: Schema.Json | undefined) =>
    evaluateRules(rules, { ...step, arguments: value })

  it("the reason names the rule and its conditions, and no value", () => {
    assert.strictEqual(
      evaluate([rule({ tool: "mail.*" }), refunds], { amount: 99, currency: "EUR" }).reason,
      "Small refunds (rule 2: /amount at_most, /currency equals)"
    )
    assert.strictEqual(
      evaluate([refunds], { amount: 101, currency: "EUR" }).reason,
      "No rule matches; a person must approve (rule 1 does not allow it: /amount at_most)"
    )
    assert.strictEqual(
      evaluate([refunds, rule({ effect: "require_approval" })], { amount: 101, currency: "EUR" }).reason,
      "A rule requires approval by a person (rule 2) (rule 1 does not allow it: /amount at_most)"
    )
    assert.strictEqual(
      evaluate([refunds], { amount: 99 }).reason,
      "No rule matches; a person must approve (rule 1 does not allow it: /currency is missing)"
    )
    assert.strictEqual(
      evaluate([noEvil, rule({ effect: "allow" })], { to: ["mallory"] }).reason,
      "Never to Mallory (rule 1 cannot be judged, so a person must approve: /to has another type than expected)"
    )
  })

  it("a rejection that cannot be judged is a question that only another person can answer with yes", () => {
    const ruling = evaluate([noEvil, rule({ effect: "allow" })], {})
    assert.strictEqual(ruling.effect, "require_approval")
    assert.strictEqual(ruling.rule_id, noEvil.id)
    assert.strictEqual(ruling.terms.timeout_action, "reject")
    assert.isFalse(ruling.terms.self_approval)
  })

  it("a question because of a value that cannot be judged asks for a comment if any rule that could match does", () => {
    const small = rule({ when: [condition({ pointer: "/amount", op: "at_most", value: 100 })] })
    const requirement = (...rules: ReadonlyArray<ApprovalRule>) =>
      evaluate(rules, { amount: "5000" }).terms.require_comment
    const [on, off] = [rule({ require_comment: "always" }), rule({ require_comment: "reject" })]
    assert.strictEqual(requirement({ ...small, require_comment: "reject" }, on), "always")
    assert.strictEqual(requirement({ ...small, require_comment: "always" }, off), "always")
    assert.strictEqual(requirement(small, off), "reject")
    assert.strictEqual(requirement(small, rule({})), "never")
  })

  it("a question because of a value that cannot be judged needs the approvals of all rules that could match", () => {
    const amount = (op: "at_most" | "greater_than", value: number) =>
      condition({ pointer: "/amount", op, value })
    const two = [{ count: 2, group: null }]
    const finance = [{ count: 1, group: "finance" }]
    const legal = [{ count: 1, group: "legal" }]
    const quorumOf = (rules: ReadonlyArray<ApprovalRule>) => evaluate(rules, { amount: "5000" }).terms.quorum
    const small = rule({ when: [amount("at_most", 100)] })
    const large = rule({ when: [amount("greater_than", 1000)], quorum: legal })
    assert.deepStrictEqual(quorumOf([small, rule({ quorum: two })]), two)
    assert.deepStrictEqual(quorumOf([small, rule({ when: [amount("greater_than", 9)], quorum: two })]), two)
    assert.deepStrictEqual(quorumOf([{ ...small, effect: "reject" }, rule({ quorum: finance })]), finance)
    assert.deepStrictEqual(quorumOf([large, rule({ quorum: finance })]), [...legal, ...finance])
    assert.deepStrictEqual(quorumOf([rule({ when: [amount("at_most", 1)], quorum: two }), large]), [
      ...legal,
      { count: 1, group: null }
    ])
    // Rules that do not match, and those after one that does, ask nobody.
    const other = condition({ pointer: "/to", op: "exists" })
    assert.deepStrictEqual(
      quorumOf([
        small,
        rule({ when: [other], quorum: two }),
        rule({ quorum: finance }),
        rule({ quorum: two })
      ]),
      finance
    )
    assert.deepStrictEqual(quorumOf([rule({ when: [amount("at_most", 1)], quorum: two }), small]), two)
  })

  it("lets admins decide what cannot be judged only if every rule that could match escalates, after the longest windows", () => {
    const terms = (rules: ReadonlyArray<ApprovalRule>) => {
      const { escalation_seconds, review_seconds } = evaluate(rules, { amount: "5" }).terms
      return { escalation_seconds, review_seconds }
    }
    const large = rule({
      when: [condition({ pointer: "/amount", op: "greater_than", value: 1000 })],
      quorum: [{ count: 1, group: "legal" }],
      review_seconds: 1,
      escalation_seconds: 60
    })
    const finance = rule({ quorum: [{ count: 1, group: "finance" }], review_seconds: 900 })
    assert.deepStrictEqual(terms([large, finance]), { escalation_seconds: null, review_seconds: 900 })
    assert.deepStrictEqual(terms([large, { ...finance, escalation_seconds: 120 }]), {
      escalation_seconds: 120,
      review_seconds: 900
    })
  })

  it("a condition that does not hold decides, whatever the others are", () => {
    const guarded = {
      ...noEvil,
      when: [...noEvil.when, condition({ pointer: "/to", op: "exists" })]
    }
    assert.strictEqual(evaluate([guarded, rule({ effect: "allow" })], {}).effect, "allow")
  })

  it("a value that is missing or has another type never allows what was asked or rejected, nor asks fewer or other people", () => {
    const names = ["a", "b", "c"] as const
    const scalar = fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constantFrom("x", "xy", "y"), fc.boolean())
    const args = fc.record({
      a: fc.integer({ min: 0, max: 3 }),
      b: fc.constantFrom("x", "xy", "y"),
      c: fc.array(scalar, { maxLength: 3 })
    })
    const pointer = (name: string) => `/${name}`
    const conditions = fc.oneof(
      fc.record({
        pointer: fc.constant(pointer("a")),
        op: fc.constantFrom("equals", "not_equals", "less_than", "at_most", "greater_than", "at_least"),
        value: fc.integer({ min: 0, max: 3 })
      }),
      fc.record({
        pointer: fc.constant(pointer("a")),
        op: fc.constantFrom("in", "not_in"),
        value: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 3 })
      }),
      fc.record({
        pointer: fc.constant(pointer("b")),
        op: fc.constantFrom("equals", "not_equals", "starts_with", "ends_with", "matches", "not_matches"),
        value: fc.constantFrom("x", "y")
      }),
      fc.record({
        pointer: fc.constant(pointer("b")),
        op: fc.constantFrom("min_length", "max_length"),
        value: fc.integer({ min: 0, max: 2 })
      }),
      fc.record({
        pointer: fc.constant(pointer("c")),
        op: fc.constantFrom("min_items", "max_items"),
        value: fc.integer({ min: 0, max: 3 })
      }),
      fc.record({
        pointer: fc.constant(pointer("c")),
        op: fc.constantFrom("every", "some"),
        value: fc.tuple(
          fc.record({
            pointer: fc.constant(""),
            op: fc.constantFrom("equals", "not_equals"),
            value: scalar
          })
        )
      })
    )
    const rules = fc.array(
      fc.record({
        effect: fc.constantFrom("allow" as const, "reject" as const, "require_approval" as const),
        when: fc.array(conditions, { maxLength: 3 }),
        people: fc.integer({ min: 1, max: 3 }),
        group: fc.constantFrom(null, "finance", "legal"),
        escalation: fc.constantFrom(null, 60, 600)
      }),
      { maxLength: 4 }
    )
    /** No condition of the property expects an object or null. */
    const wrong = fc.constantFrom<Schema.Json | undefined>(undefined, null, {}, { x: 1 })
    fc.assert(
      fc.property(rules, args, fc.constantFrom(...names), wrong, (given, value, name, replacement) => {
        const list = given.map(({ effect, escalation, group, people, when }) =>
          rule({
            effect,
            when: when.map((one) => condition(one)),
            quorum: [{ count: people, group }],
            escalation_seconds: escalation
          })
        )
        const before = evaluate(list, value)
        const { [name]: _, ...rest } = value
        const after = evaluate(list, replacement === undefined ? rest : { ...rest, [name]: replacement })
        if (before.effect !== "allow") assert.notStrictEqual(after.effect, "allow")
        if (before.effect !== "require_approval" || after.effect !== "require_approval") return
        assert.deepStrictEqual(uniteQuorums(after.terms.quorum, before.terms.quorum), after.terms.quorum)
        if (before.rule_id !== null && before.terms.escalation_seconds === null)
          assert.isNull(after.terms.escalation_seconds)
      }),
      { numRuns: 5_000 }
    )
  })
})

describe("Rules with a reviewer", () => {
  const reviewer = {
    task_id: TaskId.make(`tsk_${"2".repeat(32)}`),
    min_lower_bound: 0.95,
    max_false_approvals: 0.02,
    sample: 0.1,
    never: [
      condition({ pointer: "/amount", op: "greater_than", value: 100 }),
      condition({ pointer: "/note", op: "matches", value: "(?i)urgent" })
    ]
  }
  const reviewerOf = (rules: ReadonlyArray<ApprovalRule>, args: Schema.Json | undefined) =>
    evaluateRules(rules, { ...step, arguments: args }).reviewer

  it("the reviewer is for the steps of which no condition of `never` holds", () => {
    const rules = [rule({ reviewer })]
    assert.strictEqual(reviewerOf(rules, { amount: 100, note: "small" }), reviewer)
    assert.isUndefined(reviewerOf(rules, { amount: 101, note: "small" }))
    assert.isUndefined(reviewerOf(rules, { amount: 1, note: "Urgent!" }))
  })

  it("a condition of `never` that cannot be judged sends the step to people", () => {
    const rules = [rule({ reviewer })]
    for (const args of [undefined, null, [], {}, { amount: 1 }, { amount: "1", note: "" }, { note: "small" }])
      assert.isUndefined(reviewerOf(rules, args))
  })

  it("a question of a rule that cannot be judged has no reviewer, nor has a rule below that matches", () => {
    const when = [condition({ pointer: "/kind", op: "equals", value: "refund" })]
    const plain = { ...reviewer, never: [] }
    assert.isUndefined(reviewerOf([rule({ reviewer: plain, when })], {}))
    assert.isUndefined(reviewerOf([rule({ effect: "reject", when }), rule({ reviewer: plain })], {}))
    assert.strictEqual(
      reviewerOf([rule({ effect: "reject", when }), rule({ reviewer: plain })], { kind: "other" }),
      plain
    )
  })

  it("a rule without a reviewer, and one that decides by itself, name none", () => {
    assert.notProperty(evaluateRules([rule({})], step), "reviewer")
    assert.notProperty(evaluateRules([rule({ effect: "allow" }), rule({ reviewer })], step), "reviewer")
  })
})
