import type { Schema } from "effect"
import type { LinearPattern } from "../../tasks/CompiledSchema/LinearPattern.ts"
import type { RuleCondition } from "../RuleCondition.ts"
import { compareJson, typeOfJson } from "./compareJson.ts"
import type { PatternCompiler } from "./makePatternCompiler.ts"
import { isArray, pointerSegments, type Resolved, resolvePointer, UNREACHABLE } from "./resolvePointer.ts"

/** Why a condition cannot be judged. */
export type Unjudged = "missing" | "mistyped" | "empty" | "too_large" | "unsupported"

/** Whether a condition holds for a step. */
export type Judgement = "holds" | "fails" | Unjudged

/** Work of one evaluation, in units of about 50 ns at most: some milliseconds in the worst case. */
const MAX_WORK = 50_000

/** Characters times steps of a pattern's program per unit of work. */
const STEPS_PER_UNIT = 16

/** Characters of an expected array or object per unit of work. */
const TEXT_PER_UNIT = 16

/** Limits the work of one evaluation. What exceeds it cannot be judged, so that no arguments can delay other requests. */
export class EvaluationBudget {
  #left = MAX_WORK
  #counts: Map<Schema.JsonObject, number> | undefined

  /** Takes some of the budget. False: none is left. */
  spend(units: number): boolean {
    this.#left -= units
    return this.#left >= 0
  }

  /** Counts the members of an object, once: of a large one that takes milliseconds, and thousands of conditions can need it. */
  readonly countMembers = (value: Schema.JsonObject): number => {
    this.#counts ??= new Map()
    let count = this.#counts.get(value)
    if (count === undefined) {
      count = Object.keys(value).length
      this.#counts.set(value, count)
    }
    return count
  }
}

/** Judges the value at a condition's pointer. */
export type Judge = (value: Resolved, budget: EvaluationBudget) => Judgement

/**
 * Compiles a condition. `at` is its pointer in the request, for faults. Each judge is one function that tests the expected type first,
 * because a step is judged by thousands of them.
 */
export const compileCondition = (condition: RuleCondition, at: string, patterns: PatternCompiler): Judge => {
  switch (condition.op) {
    case "equals":
    case "not_equals":
      return equality(condition.value, condition.op === "equals")
    case "less_than": {
      const limit = condition.value
      return (value) => (typeof value === "number" ? (value < limit ? "holds" : "fails") : unjudged(value))
    }
    case "at_most": {
      const limit = condition.value
      return (value) => (typeof value === "number" ? (value <= limit ? "holds" : "fails") : unjudged(value))
    }
    case "greater_than": {
      const limit = condition.value
      return (value) => (typeof value === "number" ? (value > limit ? "holds" : "fails") : unjudged(value))
    }
    case "at_least": {
      const limit = condition.value
      return (value) => (typeof value === "number" ? (value >= limit ? "holds" : "fails") : unjudged(value))
    }
    case "in":
    case "not_in":
      return membership(condition.value, condition.op === "in")
    case "starts_with": {
      const text = condition.value
      return (value) =>
        typeof value === "string" ? (value.startsWith(text) ? "holds" : "fails") : unjudged(value)
    }
    case "ends_with": {
      const text = condition.value
      return (value) =>
        typeof value === "string" ? (value.endsWith(text) ? "holds" : "fails") : unjudged(value)
    }
    case "matches":
    case "not_matches":
      return matching(patterns.compile(condition.value, `${at}/value`), condition.op === "matches")
    case "min_length": {
      const length = condition.value
      return (value) =>
        typeof value === "string" ? (value.length >= length ? "holds" : "fails") : unjudged(value)
    }
    case "max_length": {
      const length = condition.value
      return (value) =>
        typeof value === "string" ? (value.length <= length ? "holds" : "fails") : unjudged(value)
    }
    case "min_items": {
      const length = condition.value
      return (value) => (isArray(value) ? (value.length >= length ? "holds" : "fails") : unjudged(value))
    }
    case "max_items": {
      const length = condition.value
      return (value) => (isArray(value) ? (value.length <= length ? "holds" : "fails") : unjudged(value))
    }
    case "exists":
      return presence("holds", "fails")
    case "absent":
      return presence("fails", "holds")
    case "every":
    case "some":
      return quantifier(
        condition.value.map((inner, index) => ({
          segments: pointerSegments(inner.pointer),
          judge: compileCondition(inner, `${at}/value/${index}`, patterns)
        })),
        condition.op === "every"
      )
  }
}

/** How much it costs to judge a condition, for the order within a rule: a pattern takes as long as many comparisons. */
export const costRank = (condition: RuleCondition): number => {
  switch (condition.op) {
    case "matches":
    case "not_matches":
      return 2
    case "every":
    case "some":
      return Math.max(1, ...condition.value.map(costRank))
    default:
      return 0
  }
}

/** The judgements if a test is passed and if it is not. */
const outcomes = (positive: boolean): readonly [passed: "holds" | "fails", failed: "holds" | "fails"] =>
  positive ? ["holds", "fails"] : ["fails", "holds"]

/** Why a value that is not of the expected type cannot be judged. */
const unjudged = (value: Resolved): Unjudged => (value === undefined ? "missing" : "mistyped")

const presence =
  (present: Judgement, missing: Judgement): Judge =>
  (value) =>
    value === UNREACHABLE ? "mistyped" : value === undefined ? missing : present

const equality = (expected: Schema.Json, positive: boolean): Judge => {
  const [equal, different] = outcomes(positive)
  if (typeof expected !== "object") {
    const type = typeof expected
    return (value) => (value === expected ? equal : typeof value === type ? different : unjudged(value))
  }
  const cost = comparisonCost(expected)
  return (value, budget) => {
    if (value === undefined || value === UNREACHABLE) return unjudged(value)
    if (!budget.spend(cost)) return "too_large"
    const compared = compareJson(expected, value, budget.countMembers)
    return compared === "equal" ? equal : compared === "different" ? different : "mistyped"
  }
}

/**
 * Only members of the value's own type are compared with it; without one, the type was not expected. Beside members of several types no
 * type was: a text that is not a member can be read as a number that is one.
 */
const membership = (members: ReadonlyArray<Schema.Json>, positive: boolean): Judge => {
  const [member, other] = outcomes(positive)
  const scalars = new Set(members)
  const types = new Set(members.map(typeOfJson))
  const isMixed = types.size > (types.has("null") ? 2 : 1)
  const structures = members.filter((one) => typeof one === "object" && one !== null)
  const cost = structures.reduce<number>((total, one) => total + comparisonCost(one), 0)
  return (value, budget) => {
    if (value === undefined || value === UNREACHABLE) return unjudged(value)
    if (scalars.has(value)) return member
    const type = typeOfJson(value)
    if (!types.has(type)) return "mistyped"
    let result: Judgement = isMixed ? "mistyped" : other
    if (type !== "array" && type !== "object") return result
    if (!budget.spend(cost)) return "too_large"
    for (const one of structures) {
      if (typeOfJson(one) !== type) continue
      const compared = compareJson(one, value, budget.countMembers)
      if (compared === "equal") return member
      if (compared === "mistyped") result = "mistyped"
    }
    return result
  }
}

/** Units of work for a comparison with this value. The first comparison of two scalars ends it. */
const comparisonCost = (expected: Schema.Json): number =>
  typeof expected === "object" && expected !== null
    ? Math.ceil(JSON.stringify(expected).length / TEXT_PER_UNIT)
    : 0

const matching = (pattern: Pick<LinearPattern, "size" | "test"> | undefined, positive: boolean): Judge => {
  if (pattern === undefined) return () => "unsupported"
  const { size, test } = pattern
  const [found, notFound] = outcomes(positive)
  return (value, budget) => {
    if (typeof value !== "string") return unjudged(value)
    if (!budget.spend(((value.length + 1) * size) / STEPS_PER_UNIT)) return "too_large"
    return test(value) ? found : notFound
  }
}

/** A condition on the elements of an array. */
interface ElementCondition {
  readonly segments: ReadonlyArray<string>
  readonly judge: Judge
}

const quantifier =
  (conditions: ReadonlyArray<ElementCondition>, isEvery: boolean): Judge =>
  (value, budget) => {
    if (!isArray(value)) return unjudged(value)
    if (value.length === 0) return isEvery ? "empty" : "fails"
    let result: Judgement = isEvery ? "holds" : "fails"
    for (const element of value) {
      const judgement = judgeElement(conditions, element, budget)
      // One element that does not fit decides `every`, one that fits decides `some`, whatever the others are.
      if (judgement === (isEvery ? "fails" : "holds")) return judgement
      if (judgement === "too_large") return judgement
      if (judgement !== "holds" && judgement !== "fails") result = judgement
    }
    return result
  }

const judgeElement = (
  conditions: ReadonlyArray<ElementCondition>,
  element: Schema.Json,
  budget: EvaluationBudget
): Judgement => {
  let result: Judgement = "holds"
  for (const { judge, segments } of conditions) {
    if (!budget.spend(1 + segments.length)) return "too_large"
    const judgement = judge(resolvePointer(element, segments), budget)
    if (judgement === "fails") return "fails"
    if (judgement !== "holds") result = judgement
  }
  return result
}
