import { Result, type Schema } from "effect"
import { canonicalJson } from "../json/CanonicalJson.ts"
import { hasManyCombining } from "./combiningCharacters.ts"
import type { JsonObject } from "./Dataset.ts"
import { type Evaluator, type EvaluatorTree, evaluatorTree, type TextEvaluator } from "./Evaluator.ts"
import { casefold } from "./casefold.ts"

/**
 * Numbers agree if they differ by at most this share of the larger one, or by this absolute amount near zero, because a fraction can be the
 * result of a calculation. Integers number and count things, so they agree only if they are equal.
 */
const RELATIVE_TOLERANCE = 1e-6
const ABSOLUTE_TOLERANCE = 1e-9

/** Items of unordered arrays that are matched by their evaluators; longer arrays are compared for equality of their items. */
const MAX_MATCHED_ITEMS = 100

/**
 * Values that the unordered arrays of one answer may compare, each item with each: nested ones multiply. Counted, not timed, so that the
 * result is the same on every machine; some 20 ms.
 */
const MAX_MATCHING_WORK = 200_000

/** Characters of texts whose comparison counts as one value. */
const CHARACTERS_PER_WORK = 8

/**
 * Characters that the `text` evaluators of one comparison normalize, before and after the Unicode form: some 20 ms. Further texts are
 * compared for equality. Counted, so that the result is the same on every machine.
 */
const MAX_NORMALIZED_CHARACTERS = 2 ** 17

/** How an answer compares with the expected one. */
export interface Agreement {
  readonly agrees: boolean
  /** The top-level fields of either answer that are compared, sorted by name, with whether they agree. */
  readonly fields: ReadonlyArray<readonly [field: string, agrees: boolean]>
  /** The share of the fields that agree, by their weights; 1 if no field is compared. */
  readonly score: number
}

/** Compares every value as the `equal` evaluator does. */
const equalOnly: EvaluatorTree = evaluatorTree({})

/** Compares two answers as JSON, in any order of keys, each value by its evaluator: see {@link Evaluator}. */
export const compareAnswers = (
  expected: JsonObject,
  actual: JsonObject,
  evaluators: EvaluatorTree = equalOnly
): Agreement => {
  const comparer = new Comparer()
  const names = [...new Set([...Object.keys(expected), ...Object.keys(actual)])]
    .filter((name) => evaluators.members.get(name)?.evaluator?.kind !== "ignore")
    .toSorted()
  let weight = 0
  let agreed = 0
  const fields = names.map((name) => {
    const tree = evaluators.members.get(name)
    const agrees =
      Object.hasOwn(expected, name) &&
      Object.hasOwn(actual, name) &&
      comparer.agree(expected[name], actual[name], tree)
    const own = weightOf(tree?.evaluator)
    weight += own
    if (agrees) agreed += own
    return [name, agrees] as const
  })
  return {
    agrees: fields.every(([, agrees]) => agrees),
    fields,
    score: weight === 0 ? 1 : agreed / weight
  }
}

const weightOf = (evaluator: Evaluator | undefined): number =>
  evaluator === undefined || evaluator.kind === "ignore" ? 1 : evaluator.weight

/** Matching the items of unordered arrays takes more work than one answer may. */
class TooMuchWork extends Error {}

/** Compares the values of one answer. Recursion is safe: request validation limits the depth to 64 levels. */
class Comparer {
  private left = MAX_MATCHING_WORK
  /** Unordered arrays around the value. */
  private depth = 0
  /** Characters that may still be normalized. */
  private normalizable = MAX_NORMALIZED_CHARACTERS
  /** Normalized texts by evaluator: an unordered array compares each of its texts several times. */
  private readonly normalized = new Map<TextOptions, Map<string, string>>()

  /** Whether two values agree by the evaluators. */
  agree(left: Maybe, right: Maybe, tree: EvaluatorTree | undefined): boolean {
    this.spend(1)
    const evaluator = tree?.evaluator
    switch (evaluator?.kind) {
      case "ignore":
        return true
      case "number":
        if (typeof left === "number" && typeof right === "number") {
          const difference = Math.abs(left - right)
          return (
            difference <= evaluator.absolute_tolerance ||
            difference <= evaluator.relative_tolerance * Math.max(Math.abs(left), Math.abs(right))
          )
        }
        break
      case "text":
        if (typeof left === "string" && typeof right === "string") {
          this.spend((left.length + right.length) / CHARACTERS_PER_WORK)
          return left === right || this.agreeNormalized(left, right, evaluator)
        }
        break
      case "unordered":
        if (isArray(left) && isArray(right)) {
          return this.haveSameItems(left, right, tree?.members.get("*"))
        }
        break
      case "equal":
      case undefined:
        break
    }
    return this.areEqual(left, right, tree)
  }

  /** Whether two texts are equal after normalization; false if that would take too long. */
  private agreeNormalized(left: string, right: string, options: TextOptions): boolean {
    const normalized = this.normalized.get(options) ?? new Map<string, string>()
    this.normalized.set(options, normalized)
    const added = [left, right].filter((text) => !normalized.has(text))
    const length = added.reduce((sum, text) => sum + text.length, 0)
    if (length > this.normalizable || added.some(hasManyCombining)) {
      return this.differ()
    }
    for (const text of added) {
      const form = text.normalize("NFKC")
      // A character becomes up to 18 characters.
      this.normalizable -= Math.max(text.length, form.length)
      if (this.normalizable >= 0) normalized.set(text, normalize(form, options))
    }
    return this.normalizable < 0 ? this.differ() : normalized.get(left) === normalized.get(right)
  }

  /** The result for texts that are not equal and cannot be normalized. In an unordered array it must not depend on the order. */
  private differ(): false {
    if (this.depth > 0) throw new TooMuchWork()
    return false
  }

  /** Work counts within unordered arrays only: the rest of a comparison takes a time proportional to the answer. */
  private spend(work: number): void {
    if (this.depth === 0) return
    this.left -= work
    if (this.left < 0) throw new TooMuchWork()
  }

  /** Whether two values are equal, with their members compared by the members' evaluators. */
  private areEqual(left: Maybe, right: Maybe, tree: EvaluatorTree | undefined): boolean {
    if (typeof left === "number" && typeof right === "number") {
      if (Number.isInteger(left) && Number.isInteger(right)) return left === right
      return (
        Math.abs(left - right) <=
        Math.max(ABSOLUTE_TOLERANCE, RELATIVE_TOLERANCE * Math.max(Math.abs(left), Math.abs(right)))
      )
    }
    if (isArray(left) || isArray(right)) {
      return (
        isArray(left) &&
        isArray(right) &&
        left.length === right.length &&
        left.every((member, index) => this.agree(member, right[index], itemTree(tree, index)))
      )
    }
    if (isObject(left) && isObject(right)) {
      const compared = (value: Schema.JsonObject) =>
        Object.keys(value).filter((key) => tree?.members.get(key)?.evaluator?.kind !== "ignore")
      const keys = compared(left)
      return (
        keys.length === compared(right).length &&
        keys.every(
          (key) => Object.hasOwn(right, key) && this.agree(left[key], right[key], tree?.members.get(key))
        )
      )
    }
    return left === right
  }

  /** Whether two arrays have the same items, each as often, in any order. */
  private haveSameItems(
    left: Schema.JsonArray,
    right: Schema.JsonArray,
    tree: EvaluatorTree | undefined
  ): boolean {
    if (left.length !== right.length) return false
    if (left.length > MAX_MATCHED_ITEMS) return hasEqualItems(left, right)
    this.depth++
    try {
      return this.canMatch(left, right, tree)
    } catch (error) {
      // Only the outermost array knows a cheaper way: the work of the inner ones is repeated for each pair of items.
      if (!(error instanceof TooMuchWork) || this.depth > 1) throw error
      return hasEqualItems(left, right)
    } finally {
      this.depth--
    }
  }

  /**
   * Whether each item has a partner of its own. Tolerances are not transitive, so the first item that agrees may be the wrong partner:
   * augmenting paths find a perfect matching if there is one (Kuhn's algorithm).
   */
  private canMatch(
    left: Schema.JsonArray,
    right: Schema.JsonArray,
    tree: EvaluatorTree | undefined
  ): boolean {
    const partners = left.map((item) =>
      right.flatMap((other, index) => (this.agree(item, other, tree) ? [index] : []))
    )
    const itemOf = new Map<number, number>()
    const match = (item: number, tried: Set<number>): boolean => {
      for (const partner of partners[item] ?? []) {
        if (tried.has(partner)) continue
        tried.add(partner)
        const other = itemOf.get(partner)
        if (other === undefined || match(other, tried)) {
          itemOf.set(partner, item)
          return true
        }
      }
      return false
    }
    return left.every((_, item) => match(item, new Set()))
  }
}

const itemTree = (tree: EvaluatorTree | undefined, index: number): EvaluatorTree | undefined =>
  tree?.members.get(String(index)) ?? tree?.members.get("*")

/** Whether two arrays have equal items by their canonical texts, each as often. */
const hasEqualItems = (left: Schema.JsonArray, right: Schema.JsonArray): boolean => {
  const texts = (items: Schema.JsonArray) =>
    items.map((item) => Result.getOrElse(canonicalJson(item), () => JSON.stringify(item))).toSorted()
  const others = texts(right)
  return texts(left).every((text, index) => text === others[index])
}

type TextOptions = Pick<TextEvaluator, "ignore_case" | "ignore_punctuation">

/** Normalizes a text in Unicode form NFKC. */
const normalize = (form: string, { ignore_case, ignore_punctuation }: TextOptions): string => {
  const cased = ignore_case ? casefold(form) : form
  const plain = ignore_punctuation ? cased.replaceAll(/[\p{P}\p{S}]/gu, " ") : cased
  return plain.replaceAll(/\s+/gu, " ").trim()
}

type Maybe = Schema.Json | undefined

const isArray = (value: Maybe): value is Schema.JsonArray => Array.isArray(value)

const isObject = (value: Maybe): value is Schema.JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
