import { assert, describe, it } from "@effect/vitest"
import { ApprovalId, RuleId, TaskId } from "../../../src/domain/Ids.ts"
import {
  MAX_SUGGESTIONS,
  type StepVerdict,
  type SuggestedRule,
  suggestRules,
  valuesOf
} from "../../../src/domain/approvals/suggestRules.ts"
import { wilsonInterval } from "../../../src/domain/tasks/wilsonInterval.ts"

const hex = (number: number): string => number.toString(16).padStart(32, "0")
const task = (number: number): TaskId => TaskId.make(`tsk_${hex(number)}`)

let made = 0

/** A decision, each a second after the one before. */
const verdict = (verdict: "allow" | "reject", more: Partial<StepVerdict> = {}): StepVerdict => {
  made++
  return {
    approval_id: ApprovalId.make(`apr_${hex(made)}`),
    tool: "pay",
    action_class: "write",
    task_id: null,
    verdict,
    decided_by: "ada",
    requested_at: made * 1_000,
    asked_by: null,
    values: new Map(),
    ...more
  }
}

const many = (count: number, make: (index: number) => StepVerdict): ReadonlyArray<StepVerdict> =>
  Array.from({ length: count }, (_, index) => make(index))

const suggest = (decisions: ReadonlyArray<StepVerdict>, maxError = 0.1): ReadonlyArray<SuggestedRule> => {
  const search = suggestRules(decisions, maxError)
  let found = search.next()
  while (found.done !== true) found = search.next()
  return found.value
}

/** The rule without the decisions that it is made from. */
const ruleOf = ({ action_class, condition, effect, task_id, tool }: SuggestedRule) => ({
  ...{ tool, action_class, task_id, effect },
  ...(condition === null ? {} : { condition })
})

describe("suggestRules", () => {
  it("suggests a rule for a tool once the upper bound of its error is low enough", () => {
    assert.lengthOf(suggest(many(34, () => verdict("allow"))), 0)
    const [rule, ...others] = suggest(many(35, () => verdict("allow")))
    assert.lengthOf(others, 0)
    if (rule === undefined) return assert.fail("35 decisions without exception are enough")
    assert.deepStrictEqual(ruleOf(rule), {
      tool: "pay",
      action_class: "write",
      task_id: null,
      effect: "allow"
    })
    assert.strictEqual(rule.error_upper_bound, wilsonInterval(0, 35).high)
    assert.lengthOf(
      suggest(
        many(35, () => verdict("allow")),
        0.05
      ),
      0
    )
  })

  it("counts exceptions against the rule", () => {
    const decisions = [...many(60, () => verdict("reject")), verdict("allow")]
    const [rule] = suggest(decisions)
    assert.strictEqual(rule?.effect, "reject")
    assert.strictEqual(rule?.error_upper_bound, wilsonInterval(1, 61).high)
    assert.lengthOf(suggest([...decisions, ...many(3, () => verdict("allow"))]), 0)
  })

  it("keeps steps apart that different rules ask about, other classes, and tasks that are decided otherwise", () => {
    const rule = RuleId.make(`rul_${hex(1)}`)
    const found = suggest([
      ...many(40, () => verdict("allow", { task_id: task(1) })),
      ...many(40, () => verdict("reject", { task_id: task(2) })),
      ...many(40, () => verdict("allow", { asked_by: rule, action_class: "read" }))
    ])
    assert.sameDeepMembers(
      found.map((one) => ({ ...ruleOf(one), asked_by: one.asked_by })),
      [
        { tool: "pay", action_class: "write", task_id: task(1), effect: "allow", asked_by: null },
        { tool: "pay", action_class: "write", task_id: task(2), effect: "reject", asked_by: null },
        { tool: "pay", action_class: "read", task_id: null, effect: "allow", asked_by: rule }
      ]
    )
  })

  it("finds a threshold in the older half and measures it in the newer one", () => {
    const amounts = many(400, (index) => {
      const amount = (index * 37) % 200
      return verdict(amount <= 100 ? "allow" : "reject", { values: new Map([["/amount", amount]]) })
    })
    const found = suggest(amounts)
    assert.sameDeepMembers(found.map(ruleOf), [
      {
        ...{ tool: "pay", action_class: "write", task_id: null, effect: "allow" as const },
        condition: { pointer: "/amount", op: "at_most" as const, value: 100 }
      },
      {
        ...{ tool: "pay", action_class: "write", task_id: null, effect: "reject" as const },
        condition: { pointer: "/amount", op: "at_least" as const, value: 101 }
      }
    ])
    for (const { covered, error_upper_bound, measured } of found) {
      assert.isBelow(measured.length, covered.length)
      assert.strictEqual(error_upper_bound, wilsonInterval(0, measured.length).high)
    }
  })

  it("does not suggest a condition that held by chance: the newer decisions refute it", () => {
    const older = many(200, (index) =>
      verdict(index % 2 === 0 ? "allow" : "reject", { values: new Map([["/n", index % 2]]) })
    )
    const newer = many(200, (index) =>
      verdict(index % 3 === 0 ? "allow" : "reject", { values: new Map([["/n", index % 2]]) })
    )
    assert.lengthOf(suggest([...older, ...newer]), 0)
  })

  it("finds the texts that are always decided alike", () => {
    const recipients = ["ann", "ben", "eve", "mallory"]
    const found = suggest(
      many(400, (index) => {
        const to = recipients[index % 4] ?? ""
        const isAllowed = to === "ann" || to === "ben" || (to === "eve" && index % 3 === 0)
        return verdict(isAllowed ? "allow" : "reject", { values: new Map([["/to", to]]) })
      })
    )
    assert.sameDeepMembers(
      found.map(({ condition, effect }) => [effect, condition]),
      [
        ["allow", { pointer: "/to", op: "in", value: ["ann", "ben"] }],
        ["reject", { pointer: "/to", op: "in", value: ["mallory"] }]
      ]
    )
  })

  it("lists the rules with the most decisions, up to a limit", () => {
    const found = suggest(
      Array.from({ length: MAX_SUGGESTIONS + 5 }, (_, tool) =>
        many(40 + tool, () => verdict("allow", { tool: `tool ${tool}` }))
      ).flat()
    )
    assert.lengthOf(found, MAX_SUGGESTIONS)
    assert.strictEqual(found[0]?.tool, `tool ${MAX_SUGGESTIONS + 4}`)
  })

  it("looks at numbers and short texts of objects, under escaped pointers", () => {
    assert.deepStrictEqual(
      [...valuesOf({ amount: 3, to: { "a/b": "x", "~": "y" }, list: [1], long: "x".repeat(101), no: null })],
      [
        ["/amount", 3],
        ["/to/a~1b", "x"],
        ["/to/~0", "y"]
      ]
    )
    assert.strictEqual(valuesOf(Object.fromEntries(Array.from({ length: 99 }, (_, n) => [n, n]))).size, 30)
  })

  it("suggests nothing for a tool or class with an asterisk, which a rule would take for any characters", () => {
    for (const more of [{ tool: "*" }, { tool: "db.*" }, { action_class: "w*" }])
      assert.lengthOf(suggest(many(100, () => verdict("allow", more))), 0)
  })

  it("values at places that no condition can have are left out", () => {
    const args = { amount: 1, ["zero\u200bwidth"]: 2, ["x".repeat(500)]: 3, nested: { ["y".repeat(493)]: 4 } }
    assert.deepStrictEqual([...valuesOf(args)], [["/amount", 1]])
  })
})
