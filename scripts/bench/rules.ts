/**
 * Processor time of judging one step by a list of rules, in microseconds: with 500 rules of 10 conditions each, all different, of which
 * only the last one of each rule does not hold, without and with shadow rules of the same size; and by lists without conditions, beside
 * the evaluation before conditions existed. Then a test of rules on a million past steps: its processor time, and its memory, which does
 * not depend on their number.
 */
import { DateTime, Effect, Schema } from "effect"
import type { ApprovalRule } from "../../src/domain/approvals/ApprovalRule.ts"
import { fitsBudgets } from "../../src/domain/approvals/BudgetMeter.ts"
import { compileRules } from "../../src/domain/approvals/CompiledRules.ts"
import { compileTextPattern } from "../../src/domain/approvals/CompiledRules/compileTextPattern.ts"
import { RuleCondition } from "../../src/domain/approvals/RuleCondition.ts"
import { RuleId } from "../../src/domain/Ids.ts"
import { noRules, ruleNewStep } from "../../src/server/approvals/Rules/RuleList.ts"
import { line, machine } from "./measure.ts"
import { measurePastSteps } from "./rules/pastSteps.ts"

const ROUNDS = 9

/** Processor time of a call, in microseconds, per round. */
const measure = (calls: number, call: () => unknown): ReadonlyArray<number> => {
  const round = (): number => {
    const before = process.cpuUsage()
    for (let count = 0; count < calls; count++) call()
    const { system, user } = process.cpuUsage(before)
    return (user + system) / calls
  }
  round()
  return Array.from({ length: ROUNDS }, round)
}

const ruleOf = (over: Partial<ApprovalRule>): ApprovalRule => ({
  id: Effect.runSync(RuleId.generate),
  tool: "*",
  action_class: "*",
  task_id: null,
  when: [],
  budgets: [],
  effect: "allow",
  review_seconds: 3600,
  expiring_seconds: null,
  escalation_seconds: null,
  timeout_action: "reject",
  self_approval: false,
  retry_unknown: false,
  reviewer: null,
  quorum: [{ count: 1, group: null }],
  require_comment: "never",
  reason: "",
  summary_template: null,
  ...over
})

const recipients = Array.from({ length: 5 }, (_, index) => `person${index}@acme.com`)

/** Arguments with a member of its own for each tenth rule, so that pointers repeat as they do in lists that people write. */
const stepArguments = Object.fromEntries(
  Array.from({ length: 50 }, (_, index) => [
    `order${index}`,
    { amount: 250, currency: "EUR", region: "eu-west-1", note: "Damaged on arrival", to: recipients }
  ])
)

const condition = Schema.decodeUnknownSync(RuleCondition)

/** Ten conditions that no other rule has, of which the last one does not hold. */
const conditionsOf = (rule: number): ReadonlyArray<RuleCondition> => {
  const at = `/order${rule % 50}`
  return [
    { pointer: `${at}/amount`, op: "at_most", value: 1_000 + rule },
    { pointer: `${at}/amount`, op: "greater_than", value: rule / 1_000 },
    { pointer: `${at}/currency`, op: "in", value: ["EUR", "USD", `X${rule}`] },
    { pointer: `${at}/currency`, op: "not_equals", value: `Y${rule}` },
    { pointer: `${at}/region`, op: "starts_with", value: "eu-" },
    { pointer: `${at}/region`, op: "matches", value: `^eu-[a-z]+-[0-9]+$|rule${rule}` },
    { pointer: `${at}/note`, op: "max_length", value: 200 + rule },
    { pointer: `${at}/to`, op: "max_items", value: 10 + rule },
    { pointer: `${at}/bcc`, op: "absent" },
    { pointer: `${at}/to`, op: "every", value: [{ pointer: "", op: "ends_with", value: `rule${rule}.com` }] }
  ].map((one) => condition(one))
}

const conditional = Array.from({ length: 500 }, (_, index) => ruleOf({ when: conditionsOf(index) }))
const step = {
  tool: "payments.refund",
  action_class: "write",
  task_id: null,
  arguments: stepArguments
}

console.log(machine())
console.log("\nProcessor time of one step\n")

const compiled = compileRules(conditional)
if (compiled.evaluate(step, fitsBudgets).rule_id !== null || compiled.exceeded !== undefined)
  throw new Error("not the case to measure")
const judged = measure(1_000, () => compiled.evaluate(step, fitsBudgets))
console.log(line("500 rules with 10 conditions each", judged, "µs"))
const live = { ...noRules, rules: conditional, compiled }
const shadowOf = (rules: ReadonlyArray<ApprovalRule>) => ({
  rules,
  compiled: compileRules(rules),
  since: DateTime.makeUnsafe(0)
})
const others = Array.from({ length: 500 }, (_, index) => ruleOf({ when: conditionsOf(500 + index) }))
for (const [what, shadow] of [
  ["a new step, without shadow rules", null],
  ["with shadow rules that differ in one", shadowOf([...conditional.slice(1), ruleOf({ tool: "other" })])],
  ["with 500 shadow rules, all different", shadowOf(others)]
] as const) {
  console.log(
    line(
      what,
      measure(1_000, () => ruleNewStep({ ...live, shadow }, step)),
      "µs"
    )
  )
}
const compiling = measure(5, () => compileRules(conditional))
console.log(line("compile them, once per revision", compiling, "µs"))

/** The evaluation before conditions existed: patterns are split for each step. */
const evaluateBefore = (rules: ReadonlyArray<ApprovalRule>) =>
  rules.find(
    (rule) =>
      compileTextPattern(rule.tool)(step.tool) &&
      compileTextPattern(rule.action_class)(step.action_class) &&
      (rule.task_id === null || rule.task_id === step.task_id)
  )

for (const count of [1, 5, 50, 500]) {
  const rules = Array.from({ length: count }, (_, index) =>
    ruleOf({ tool: index === count - 1 ? "payments.*" : `tool${index}.*`, effect: "require_approval" })
  )
  const list = compileRules(rules)
  const calls = Math.round(200_000 / count)
  console.log()
  console.log(
    line(
      `${count} rules without conditions, before`,
      measure(calls, () => evaluateBefore(rules)),
      "µs"
    )
  )
  console.log(
    line(
      `${count} rules without conditions, now`,
      measure(calls, () => list.evaluate(step, fitsBudgets)),
      "µs"
    )
  )
}

console.log("\nTest of rules on past steps\n")
await Effect.runPromise(measurePastSteps)
process.exit()
