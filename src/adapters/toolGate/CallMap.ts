/** Most calls that are remembered. A run that was aborted never takes its own. */
const MAX_CALLS = 10_000

/** State that an adapter keeps about calls from one callback of its framework to a later one. The oldest are evicted. */
export class CallMap<Value> {
  private readonly values = new Map<string, Value>()
  private readonly onEvict: ((value: Value) => void) | undefined

  constructor(onEvict?: (value: Value) => void) {
    this.onEvict = onEvict
  }

  get size(): number {
    return this.values.size
  }

  get(key: string): Value | undefined {
    return this.values.get(key)
  }

  set(key: string, value: Value): void {
    this.values.delete(key)
    this.values.set(key, value)
    const [oldest] = this.values
    if (this.values.size <= MAX_CALLS || oldest === undefined) return
    this.values.delete(oldest[0])
    this.onEvict?.(oldest[1])
  }

  /** Returns a value and forgets it. */
  take(key: string): Value | undefined {
    const value = this.values.get(key)
    this.values.delete(key)
    return value
  }

  /** Returns the values that match and forgets them. */
  takeAll(matches: (value: Value) => boolean): ReadonlyArray<Value> {
    const taken = [...this.values].filter(([, value]) => matches(value))
    for (const [key] of taken) this.values.delete(key)
    return taken.map(([, value]) => value)
  }
}
