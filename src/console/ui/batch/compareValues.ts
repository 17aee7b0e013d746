/**
 * What values of several records have in common and where they differ, for acting on them together.
 *
 * Equal values are listed once. A difference is traced down to the member or item that differs, so that a reader compares
 * little. Together the two lists hold every value of every record, except of the records in `incomplete`.
 */
import { JsonPointer, Result, type Schema } from "effect"
import { canonicalJson } from "../../../domain/json/CanonicalJson.ts"

/** The value of one record; undefined: it has none. */
export interface ComparedValue {
  readonly id: string
  readonly value: Schema.Json | undefined
}

/** Why a value deserves a second look: a number ten times as large or small as the others, or of another sign; another type. */
export type ValueMark = "magnitude" | "type"

/** One of the different values at a pointer, and the records that have it. Undefined: the value is not given. */
export interface ValueGroup {
  readonly value: Schema.Json | undefined
  readonly ids: ReadonlyArray<string>
  readonly mark: ValueMark | undefined
}

/** A place at which the values differ: at least two groups, which hold every record once. Marked values come first. */
export interface Difference {
  readonly pointer: string
  readonly groups: ReadonlyArray<ValueGroup>
}

export interface Comparison {
  /** Values that all records have. */
  readonly common: ReadonlyArray<{ readonly pointer: string; readonly value: Schema.Json | undefined }>
  /** Places with a marked value come first. */
  readonly differences: ReadonlyArray<Difference>
  /** The records with a value that is not listed, because of a limit. */
  readonly incomplete: ReadonlySet<string>
}

/** The most differences that are listed, and the most values in them: a page with more is slow and unreadable. */
export const MAX_DIFFERENCES = 50
export const MAX_VALUES = 1_000

/** The most characters of JSON text of a value in a difference. */
export const MAX_VALUE_CHARACTERS = 600

/** How deep a difference is traced, and the most places that are visited. Below, whole values are compared. */
const MAX_LEVELS = 6
const MAX_PLACES = 2_000

/** The most items of an array that are compared one by one: an item that is added moves all that follow it. */
const MAX_ITEMS = 20

/** The factor from which on two numbers count as different in magnitude. */
const TENFOLD = 10

interface Place {
  readonly pointer: string
  readonly values: ReadonlyArray<ComparedValue>
  readonly level: number
}

/** Compares the values of records. Without records, there is nothing to list. */
export const compareValues = (records: ReadonlyArray<ComparedValue>): Comparison => {
  const common: Array<Comparison["common"][number]> = []
  const found: Array<Difference> = []
  const queue: Array<Place> = records.length === 0 ? [] : [{ pointer: "", values: records, level: 0 }]
  let visited = 1
  for (let place = queue.shift(); place !== undefined; place = queue.shift()) {
    const { level, pointer, values } = place
    const groups = groupByValue(values)
    const [first, second] = groups
    if (first === undefined || second === undefined) {
      common.push({ pointer, value: first?.value })
      continue
    }
    const names = level < MAX_LEVELS ? namesOf(groups) : undefined
    if (names === undefined || visited + names.length > MAX_PLACES) {
      found.push({ pointer, groups: order(mark(groups)) })
      continue
    }
    visited += names.length
    queue.unshift(
      ...names.map((name) => ({
        pointer: `${pointer}/${JsonPointer.escapeToken(name)}`,
        values: values.map(({ id, value }) => ({ id, value: memberOf(value, name) })),
        level: level + 1
      }))
    )
  }
  const isMarked = ({ groups }: Difference) => groups.some((group) => group.mark !== undefined)
  const differences = [...found.filter(isMarked), ...found.filter((one) => !isMarked(one))]
  const listed = differences.slice(0, countListed(differences))
  return {
    common,
    differences: listed,
    incomplete: new Set([
      ...differences.slice(listed.length).flatMap(({ groups }) => groups.flatMap(idsWithValue)),
      ...listed.flatMap(({ groups }) => groups.filter(isTooLong).flatMap(({ ids }) => ids))
    ])
  }
}

/** How many of these differences are within the limits. */
const countListed = (differences: ReadonlyArray<Difference>): number => {
  let values = 0
  const beyond = differences.findIndex(
    ({ groups }, index) => index >= MAX_DIFFERENCES || (values += groups.length) > MAX_VALUES
  )
  return beyond < 0 ? differences.length : beyond
}

const idsWithValue = ({ ids, value }: ValueGroup): ReadonlyArray<string> => (value === undefined ? [] : ids)

/** Whether a value is too long to be listed. */
export const isTooLong = ({ value }: Pick<ValueGroup, "value">): boolean =>
  value !== undefined && JSON.stringify(value).length > MAX_VALUE_CHARACTERS

/** Groups equal values, in the order of their first record. */
const groupByValue = (values: ReadonlyArray<ComparedValue>): ReadonlyArray<ValueGroup> => {
  const groups = new Map<string, { readonly value: Schema.Json | undefined; readonly ids: Array<string> }>()
  for (const { id, value } of values) {
    const key = value === undefined ? "" : Result.getOrElse(canonicalJson(value), () => JSON.stringify(value))
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { value, ids: [id] })
    else group.ids.push(id)
  }
  return [...groups.values()].map((group) => ({ ...group, mark: undefined }))
}

/** The members, or the items, to compare one by one; undefined unless all values are objects, or all are arrays. */
const namesOf = (groups: ReadonlyArray<ValueGroup>): ReadonlyArray<string> | undefined => {
  const values = groups.map(({ value }) => value)
  if (values.every(isArray)) {
    const length = Math.max(...values.map((value) => value.length))
    return length > MAX_ITEMS ? undefined : Array.from({ length }, (_, index) => String(index))
  }
  if (values.every(isObject)) return [...new Set(values.flatMap((value) => Object.keys(value)))]
  return undefined
}

const memberOf = (value: Schema.Json | undefined, name: string): Schema.Json | undefined => {
  if (isArray(value)) return value[Number(name)]
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

const isArray = (value: Schema.Json | undefined): value is Schema.JsonArray => Array.isArray(value)

const isObject = (value: Schema.Json | undefined): value is Schema.JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Marks numbers, also in quotes, that differ tenfold from the others, and values whose type is not the usual one. */
const mark = (groups: ReadonlyArray<ValueGroup>): ReadonlyArray<ValueGroup> => {
  const numbers = groups.flatMap(({ ids, value }) => {
    const number = numberOf(value)
    return number === undefined ? [] : ids.map(() => number)
  })
  numbers.sort((left, right) => left - right)
  const usualType = mostFrequentType(groups)
  return groups.map((group) => {
    const number = numberOf(group.value)
    const type = typeOf(group.value)
    const middle = number === undefined ? [] : middleOfOthers(numbers, number)
    return {
      ...group,
      mark:
        number !== undefined && middle.length > 0 && middle.every((other) => isTenfold(number, other))
          ? "magnitude"
          : type !== undefined && type !== usualType
            ? "type"
            : undefined
    }
  })
}

/** A decimal number in a text, as amounts are often sent. */
const DECIMAL = /^[+-]?\d{1,30}(?:\.\d{1,30})?$/u

const numberOf = (value: Schema.Json | undefined): number | undefined => {
  if (typeof value === "number") return value
  return typeof value === "string" && DECIMAL.test(value) ? Number(value) : undefined
}

/** The middle of a sorted list without one of its numbers: one number or two, unless there are no others. */
const middleOfOthers = (sorted: ReadonlyArray<number>, one: number): ReadonlyArray<number> => {
  const at = sorted.indexOf(one)
  const others = sorted.toSpliced(at, 1)
  const middle = (others.length - 1) / 2
  return others.slice(Math.floor(middle), Math.ceil(middle) + 1)
}

const isTenfold = (one: number, other: number): boolean => {
  if (one === other) return false
  const [small, large] = [Math.abs(one), Math.abs(other)].toSorted((left, right) => left - right)
  return (large ?? 0) >= TENFOLD * (small ?? 0) || (one !== 0 && other !== 0 && one < 0 !== other < 0)
}

/** The type of a value; undefined for one that is not given and for null, which anybody can tell from others. */
const typeOf = (value: Schema.Json | undefined): string | undefined => {
  if (value === undefined || value === null) return undefined
  return Array.isArray(value) ? "array" : typeof value
}

/** The type of most records; undefined if two types are equally frequent. */
const mostFrequentType = (groups: ReadonlyArray<ValueGroup>): string | undefined => {
  const counts = new Map<string, number>()
  for (const { ids, value } of groups) {
    const type = typeOf(value)
    if (type !== undefined) counts.set(type, (counts.get(type) ?? 0) + ids.length)
  }
  const [first, second] = [...counts].toSorted(([, left], [, right]) => right - left)
  return first?.[1] === second?.[1] ? undefined : first?.[0]
}

/** Marked values first, then the most frequent ones. */
const order = (groups: ReadonlyArray<ValueGroup>): ReadonlyArray<ValueGroup> =>
  groups.toSorted(
    (left, right) =>
      Number(right.mark !== undefined) - Number(left.mark !== undefined) || right.ids.length - left.ids.length
  )
