import type { Schema } from "effect"
import type { ApprovalOutcome } from "./Approval.ts"
import type { ApprovalId, RuleId, TaskId } from "../Ids.ts"
import { isConditionPointer } from "./RuleCondition.ts"
import { wilsonInterval } from "../tasks/wilsonInterval.ts"

/** A person's decision about a step that the current rules ask about. */
export interface StepVerdict {
  readonly approval_id: ApprovalId
  readonly tool: string
  readonly action_class: string
  readonly task_id: TaskId | null
  readonly verdict: ApprovalOutcome
  readonly decided_by: string
  /** Epoch milliseconds. */
  readonly requested_at: number
  /** The current rule that asks; null if none matches and the built-in rule does. */
  readonly asked_by: RuleId | null
  /** The numbers and short texts in the arguments, by JSON Pointer. */
  readonly values: ReadonlyMap<string, number | string>
}

/** A condition on one value of the arguments. */
export type SuggestedCondition =
  | { readonly pointer: string; readonly op: "at_most" | "at_least"; readonly value: number }
  | { readonly pointer: string; readonly op: "in"; readonly value: ReadonlyArray<string> }

/** A rule that would have decided like the people. */
export interface SuggestedRule {
  readonly tool: string
  readonly action_class: string
  readonly task_id: TaskId | null
  readonly effect: ApprovalOutcome
  readonly condition: SuggestedCondition | null
  readonly asked_by: RuleId | null
  /** The decisions that the rule covers. */
  readonly covered: ReadonlyArray<StepVerdict>
  /** The decisions on which the error was measured: all, or, for a rule with a condition, the newer half, which it was not found in. */
  readonly measured: ReadonlyArray<StepVerdict>
  /** Upper bound of the 95 % confidence interval of the share of steps that people would decide otherwise. */
  readonly error_upper_bound: number
}

/** Most suggestions. */
export const MAX_SUGGESTIONS = 20

/** Values of one step that are looked at, and how deep in its arguments. */
const MAX_VALUES = 30
const MAX_DEPTH = 4

/** Longest text that a rule compares with. */
const MAX_TEXT = 100

/** Share of the steps that must have a value for a condition on it. */
const MIN_PRESENCE = 0.9

/** Most different texts at one place, the fewest steps with each in a condition, and the most texts in a condition. */
const MAX_DISTINCT = 50
const MIN_STEPS_PER_TEXT = 3
const MAX_MEMBERS = 20

/** Most conditions, by the steps that they cover, whose error is measured: each further measurement loosens the bound. */
const MAX_MEASURED = 3

/** The numbers and short texts in a step's arguments, at pointers that a condition can have. */
export const valuesOf = (args: Schema.Json): ReadonlyMap<string, number | string> => {
  const values = new Map<string, number | string>()
  const collect = (value: Schema.Json, pointer: string, depth: number): void => {
    if (values.size >= MAX_VALUES || !isConditionPointer(pointer)) return
    if (typeof value === "number") values.set(pointer, value)
    else if (typeof value === "string" && value.length <= MAX_TEXT) values.set(pointer, value)
    else if (depth < MAX_DEPTH && isObject(value)) {
      for (const [name, inner] of Object.entries(value))
        collect(inner, `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`, depth + 1)
    }
  }
  collect(args, "", 0)
  return values
}

const isObject = (value: Schema.Json): value is Schema.JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const holds = (condition: SuggestedCondition, { values }: StepVerdict): boolean => {
  const value = values.get(condition.pointer)
  switch (condition.op) {
    case "at_most":
      return typeof value === "number" && value <= condition.value
    case "at_least":
      return typeof value === "number" && value >= condition.value
    case "in":
      return typeof value === "string" && condition.value.includes(value)
  }
}

/** The upper bound of a rule's error. */
const errorBound = (decisions: ReadonlyArray<StepVerdict>, effect: ApprovalOutcome): number =>
  wilsonInterval(decisions.filter(({ verdict }) => verdict !== effect).length, decisions.length).high

const groupBy = <A>(items: ReadonlyArray<A>, key: (item: A) => string): ReadonlyArray<ReadonlyArray<A>> => [
  ...Map.groupBy(items, key).values()
]

/** Some decisions of one tool and action class. */
interface Scope {
  readonly decisions: ReadonlyArray<StepVerdict>
  readonly task_id: TaskId | null
}

/**
 * Finds rules that would have decided like people did, with an upper bound of their error of at most `maxError`: for a tool and action
 * class, for one of its tasks, or on a condition. The general one is preferred. Yields between its parts, so that the caller can pause.
 */
export function* suggestRules(
  decisions: ReadonlyArray<StepVerdict>,
  maxError: number
): Generator<void, ReadonlyArray<SuggestedRule>> {
  const suggestions: Array<SuggestedRule> = []
  const byTool = groupBy(decisions.filter(canBeNamed), ({ action_class, asked_by, tool }) =>
    JSON.stringify([tool, action_class, asked_by])
  )
  for (const group of byTool) {
    const whole = plainRule({ decisions: group, task_id: null }, maxError)
    yield
    if (whole !== undefined) {
      suggestions.push(whole)
      continue
    }
    const rest: Array<StepVerdict> = []
    for (const part of groupBy(group, ({ task_id }) => task_id ?? "")) {
      const task_id = part[0]?.task_id ?? null
      const ofTask = task_id === null ? undefined : plainRule({ decisions: part, task_id }, maxError)
      if (ofTask === undefined) rest.push(...part)
      else suggestions.push(ofTask)
    }
    yield
    suggestions.push(...(yield* conditionalRules({ decisions: rest, task_id: null }, maxError)))
  }
  return suggestions
    .toSorted((one, other) => other.covered.length - one.covered.length)
    .slice(0, MAX_SUGGESTIONS)
}

/** Whether a rule can name the tool and class of a step alone: in a rule, `*` stands for any characters. */
const canBeNamed = ({ action_class, tool }: StepVerdict): boolean =>
  !tool.includes("*") && !action_class.includes("*")

/** The rule for all steps of a scope, if people decided them alike. */
const plainRule = ({ decisions, task_id }: Scope, maxError: number): SuggestedRule | undefined => {
  const allowed = decisions.filter(({ verdict }) => verdict === "allow").length
  const effect = allowed * 2 >= decisions.length ? "allow" : "reject"
  return ruleOf({ decisions, task_id }, effect, null, decisions, maxError)
}

const ruleOf = (
  { decisions, task_id }: Scope,
  effect: ApprovalOutcome,
  condition: SuggestedCondition | null,
  measured: ReadonlyArray<StepVerdict>,
  maxError: number
): SuggestedRule | undefined => {
  const [first] = decisions
  const bound = errorBound(measured, effect)
  if (first === undefined || bound > maxError) return undefined
  const { action_class, asked_by, tool } = first
  const rule = { tool, action_class, task_id, effect, condition, asked_by }
  return { ...rule, covered: decisions, measured, error_upper_bound: bound }
}

/**
 * Rules on one condition, at most one for each effect. A condition is found in the older half of the decisions, where it has no exception,
 * and measured in the newer half alone. In the decisions that it was made from, any rule looks better than it is.
 */
function* conditionalRules(
  { decisions, task_id }: Scope,
  maxError: number
): Generator<void, ReadonlyArray<SuggestedRule>> {
  const byTime = decisions.toSorted((one, other) => one.requested_at - other.requested_at)
  const middle = Math.floor(byTime.length / 2)
  const [older, newer] = [byTime.slice(0, middle), byTime.slice(middle)]
  const pointers = new Map<string, number>()
  for (const { values } of older)
    for (const pointer of values.keys()) pointers.set(pointer, (pointers.get(pointer) ?? 0) + 1)
  const candidates: Array<Candidate> = []
  for (const [pointer, steps] of pointers) {
    if (steps < older.length * MIN_PRESENCE) continue
    candidates.push(...thresholds(older, pointer), ...memberships(older, pointer))
    yield
  }
  return (["allow", "reject"] as const).flatMap((effect) => {
    const best = candidates
      .filter((candidate) => candidate.effect === effect)
      .toSorted((one, other) => other.steps - one.steps)
      .slice(0, MAX_MEASURED)
    for (const { condition } of best) {
      const covers = (decision: StepVerdict) => holds(condition, decision)
      const scope = { decisions: byTime.filter(covers), task_id }
      const rule = ruleOf(scope, effect, condition, newer.filter(covers), maxError)
      if (rule !== undefined) return [rule]
    }
    return []
  })
}

/** A condition, and the number of steps for which it holds. All of them were decided alike. */
interface Candidate {
  readonly effect: ApprovalOutcome
  readonly condition: SuggestedCondition
  readonly steps: number
}

/** The longest runs of equal verdicts from the lowest value up and from the highest value down. */
const thresholds = (decisions: ReadonlyArray<StepVerdict>, pointer: string): ReadonlyArray<Candidate> => {
  const numbers = decisions.flatMap(({ values, verdict }) => {
    const value = values.get(pointer)
    return typeof value === "number" ? [{ value, verdict }] : []
  })
  if (numbers.length < decisions.length * MIN_PRESENCE) return []
  const ascending = numbers.toSorted((one, other) => one.value - other.value)
  return [
    { op: "at_most" as const, sorted: ascending },
    { op: "at_least" as const, sorted: ascending.toReversed() }
  ].flatMap(({ op, sorted }): ReadonlyArray<Candidate> => {
    const effect = sorted[0]?.verdict
    if (effect === undefined) return []
    const exception = sorted.findIndex(({ verdict }) => verdict !== effect)
    // Without an exception there is no threshold. Steps with the value of the first exception were decided both ways.
    if (exception < 0) return []
    const excluded = sorted[exception]?.value
    const run = sorted.slice(0, exception).filter(({ value }) => value !== excluded)
    const last = run.at(-1)
    return last === undefined
      ? []
      : [{ effect, condition: { pointer, op, value: last.value }, steps: run.length }]
  })
}

/** The texts that were always decided alike. */
const memberships = (decisions: ReadonlyArray<StepVerdict>, pointer: string): ReadonlyArray<Candidate> => {
  const texts = new Map<string, { steps: number; allowed: number }>()
  for (const { values, verdict } of decisions) {
    const value = values.get(pointer)
    if (typeof value !== "string") continue
    const counts = texts.get(value) ?? { steps: 0, allowed: 0 }
    texts.set(value, counts)
    counts.steps++
    if (verdict === "allow") counts.allowed++
    if (texts.size > MAX_DISTINCT) return []
  }
  return (["allow", "reject"] as const).flatMap((effect): ReadonlyArray<Candidate> => {
    const alike = [...texts]
      .filter(
        ([, { allowed, steps }]) =>
          steps >= MIN_STEPS_PER_TEXT && allowed === (effect === "allow" ? steps : 0)
      )
      .toSorted(([, one], [, other]) => other.steps - one.steps)
      .slice(0, MAX_MEMBERS)
    return alike.length === 0
      ? []
      : [
          {
            effect,
            condition: { pointer, op: "in", value: alike.map(([text]) => text) },
            steps: alike.reduce((total, [, { steps }]) => total + steps, 0)
          }
        ]
  })
}
