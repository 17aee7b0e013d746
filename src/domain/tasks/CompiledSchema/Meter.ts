/** A value is not judged to its end, since its schema makes that too much work. Carries what was found wrong until then, if known. */
export class WorkLimitExceeded<Found = never> extends Error {
  readonly found: ReadonlyArray<Found>

  constructor(found?: ReadonlyArray<Found> | null) {
    super("The value takes too much work to check")
    this.found = found ?? []
  }
}

/**
 * Units that any value may take, those that its parts and their characters add, and the most that one may take. A usual answer of 2 KiB
 * takes hundreds.
 */
const LEAST_WORK = 300_000
const WORK_A_PART = 60
const WORK_A_CHARACTER = 30
const MOST_WORK = 3_000_000

/**
 * Units of work that a value may take: more for one that is larger, so that a schema cannot make a lot of work of the little that
 * somebody sends.
 */
export const workFor = (value: unknown): number => {
  let work = LEAST_WORK
  const inner: Array<unknown> = [value]
  while (inner.length > 0 && work < MOST_WORK) {
    const next = inner.pop()
    if (typeof next === "string") work += WORK_A_CHARACTER * next.length
    else if (Array.isArray(next)) {
      work += WORK_A_PART * next.length
      if (work < MOST_WORK) for (const item of next) inner.push(item)
    } else if (typeof next === "object" && next !== null) {
      for (const [name, part] of Object.entries(next)) {
        work += WORK_A_PART + WORK_A_CHARACTER * name.length
        inner.push(part)
      }
    }
  }
  return Math.min(work, MOST_WORK)
}

/**
 * The work that one check may do, counted as it is done, so that no schema and value together can hold the process: a reference to
 * itself inside `anyOf` doubles the work with each level of nesting. A unit is about one application of a small schema, some 100 ns at
 * most. A count, not a clock: the same value is judged the same on every machine.
 */
export class Meter {
  left = 0

  /** Takes units; throws {@link WorkLimitExceeded} once there are none. */
  spend(units: number): void {
    this.left -= units
    if (this.left < 0) throw new WorkLimitExceeded()
  }

  /** What keywords that walk a value by themselves cost beyond their schema: by characters, items or members. */
  weigh(value: unknown): void {
    if (typeof value === "string") this.spend(value.length / 8)
    else if (Array.isArray(value)) this.spend(value.length / 8)
    else if (typeof value === "object" && value !== null) this.spend(Object.keys(value).length)
  }
}
