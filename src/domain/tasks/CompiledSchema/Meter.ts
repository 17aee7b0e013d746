/** Validating a value exceeded the work limit. Carries the errors found until then, if they are known. */
export class WorkLimitExceeded<Found = never> extends Error {
  readonly found: ReadonlyArray<Found>

  constructor(found?: ReadonlyArray<Found> | null) {
    super("The value takes too much work to validate")
    this.found = found ?? []
  }
}

/**
 * Work limits in units: the minimum of any value, the increments per part and per character, and the maximum. A typical
 * 2 KiB answer takes hundreds.
 */
const MIN_WORK = 300_000
const WORK_PER_PART = 60
const WORK_PER_CHARACTER = 30
const MAX_WORK = 3_000_000

/**
 * The work limit for a value. It grows with the value's size, so that no schema can turn a small request into much
 * work. Reads no more of the value than decides the limit: at most `MAX_WORK / WORK_PER_PART` parts, and the names of
 * the object that exceeds it.
 */
export const workFor = (value: unknown): number => {
  let work = MIN_WORK
  const inner: Array<unknown> = [value]
  while (inner.length > 0 && work < MAX_WORK) {
    const next = inner.pop()
    if (typeof next === "string") work += WORK_PER_CHARACTER * next.length
    else if (Array.isArray(next)) {
      work += WORK_PER_PART * next.length
      if (work < MAX_WORK) for (const item of next) inner.push(item)
    } else if (isRecord(next)) {
      const names = Object.keys(next)
      work += WORK_PER_PART * names.length
      for (const name of names) {
        if (work >= MAX_WORK) break
        work += WORK_PER_CHARACTER * name.length
        inner.push(next[name])
      }
    }
  }
  return Math.min(work, MAX_WORK)
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/**
 * Counts and limits the work of one check, so that no combination of schema and value can block the event loop: a
 * reference to itself inside `anyOf` doubles the work with each level of nesting. A unit is about one application of a
 * small schema, at most some 100 ns. It is a count and not a time limit, so that the result for a value is the same on
 * every machine.
 */
export class Meter {
  left = 0

  /** Spends units; throws {@link WorkLimitExceeded} if too few are left. */
  spend(units: number): void {
    this.left -= units
    if (this.left < 0) throw new WorkLimitExceeded()
  }

  /** Spends units for a keyword that iterates over a value itself: by its characters, items or members. */
  weigh(value: unknown): void {
    if (typeof value === "string") this.spend(value.length / 8)
    else if (Array.isArray(value)) this.spend(value.length / 8)
    else if (typeof value === "object" && value !== null) this.spend(Object.keys(value).length)
  }
}
