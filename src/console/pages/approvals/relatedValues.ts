/** Finds numbers of a step's arguments that earlier steps of the session know, or know ten times smaller or larger. */
import type { Schema } from "effect"

/** A number of the arguments beside one of an earlier step. */
export interface RelatedValue {
  /** Path of the argument, such as `items.0.amount`. */
  readonly path: string
  readonly value: number
  /** How many times it is the other value: 1 if they are equal, else a power of ten. */
  readonly factor: number
  readonly otherPath: string
  readonly otherValue: number
  readonly tool: string
}

/** The values by which an earlier step is compared. */
export interface ComparedStep {
  readonly tool: string
  readonly values: ReadonlyArray<Schema.Json>
}

/** The most numbers of one step, and the most findings. */
const MAX_NUMBERS = 200
const MAX_FOUND = 10

/** Smaller numbers are ten times each other by chance. */
const MIN_SUSPICIOUS = 10

const FACTORS = [10, 100, 1_000]

const DECIMAL = /^-?\d{1,15}(?:\.\d{1,6})?$/

interface FoundNumber {
  readonly path: string
  readonly value: number
}

/** The numbers of a value, also numbers that are written as text. */
const numbersOf = (root: Schema.Json): ReadonlyArray<FoundNumber> => {
  const found: Array<FoundNumber> = []
  const pending: Array<readonly [string, Schema.Json]> = [["", root]]
  for (let next = pending.pop(); next !== undefined && found.length < MAX_NUMBERS; next = pending.pop()) {
    const [path, value] = next
    if (typeof value === "number") found.push({ path, value })
    else if (typeof value === "string") {
      if (DECIMAL.test(value)) found.push({ path, value: Number(value) })
    } else if (typeof value === "object" && value !== null) {
      const members = Object.entries(value).map(
        ([name, member]: readonly [string, Schema.Json]) =>
          [path === "" ? name : `${path}.${name}`, member] as const
      )
      pending.push(...members.slice(0, MAX_NUMBERS).toReversed())
    }
  }
  return found
}

/** The factor of 10, 100 or 1,000 between two numbers; 1 if they are equal; undefined if there is none. */
const factorOf = (value: number, other: number): number | undefined => {
  if (value === other) return 1
  if (Math.min(Math.abs(value), Math.abs(other)) < MIN_SUSPICIOUS) return undefined
  return FACTORS.flatMap((factor) => [factor, 1 / factor]).find(
    (factor) => Math.abs(value - other * factor) <= Math.abs(value) * 1e-9
  )
}

/**
 * The numbers of the arguments that occur in the newest earlier step that has them, or that has them ten, a hundred or a thousand times
 * smaller or larger. An equal number takes precedence: it explains the argument.
 */
export const findRelatedValues = (
  args: Schema.Json | undefined,
  steps: ReadonlyArray<ComparedStep>
): ReadonlyArray<RelatedValue> => {
  if (args === undefined) return []
  const known = steps
    .toReversed()
    .flatMap(({ tool, values }) =>
      values.flatMap(numbersOf).map(({ path, value }) => ({ tool, otherPath: path, otherValue: value }))
    )
  return numbersOf(args)
    .flatMap(({ path, value }): ReadonlyArray<RelatedValue> => {
      const related = known.flatMap((other) => {
        const factor = factorOf(value, other.otherValue)
        return factor === undefined ? [] : [{ path, value, factor, ...other }]
      })
      const [best] = [...related.filter(({ factor }) => factor === 1), ...related]
      return best === undefined ? [] : [best]
    })
    .slice(0, MAX_FOUND)
}
