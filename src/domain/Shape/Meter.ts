/** A value is not judged to its end, since its schema makes that too much work. Carries what was found wrong until then, if known. */
export class TooMuchWork<Found = never> extends Error {
  readonly found: ReadonlyArray<Found>

  constructor(found?: ReadonlyArray<Found> | null) {
    super("The value takes too much work to check")
    this.found = found ?? []
  }
}

/**
 * The work that one check may do, counted as it is done, so that no schema and value together can hold the process: a reference to
 * itself inside `anyOf` doubles the work with each level of nesting. A unit is about one application of a small schema, some 100 ns at
 * most. A count, not a clock: the same value is judged the same on every machine.
 */
export class Meter {
  left = 0

  /** Takes units; throws {@link TooMuchWork} once there are none. */
  spend(units: number): void {
    this.left -= units
    if (this.left < 0) throw new TooMuchWork()
  }

  /** What keywords that walk a value by themselves cost beyond their schema: by characters, items or members. */
  weigh(value: unknown): void {
    if (typeof value === "string") this.spend(value.length / 8)
    else if (Array.isArray(value)) this.spend(value.length / 8)
    else if (typeof value === "object" && value !== null) this.spend(Object.keys(value).length)
  }
}
