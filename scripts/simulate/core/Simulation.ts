import { RandomStream } from "./RandomStream.ts"

/** An event that has not happened yet. */
interface Scheduled {
  readonly at: number
  /** Orders events of the same moment at random. */
  readonly place: number
  readonly run: () => void
  cancelled: boolean
}

/**
 * A virtual timeline: events happen one after the other, in the order of their virtual times, and in a seeded random
 * order at the same time. Nothing happens beside them, so one seed always gives the same run.
 */
export class Simulation {
  /** The virtual time, in milliseconds since the beginning. */
  now = 0
  /** Events that have happened. */
  steps = 0
  readonly random: RandomStream
  readonly #order: RandomStream
  readonly #events: Array<Scheduled> = []
  readonly #trace: ((line: string) => void) | undefined

  constructor(seed: string, trace?: (line: string) => void) {
    this.random = new RandomStream(seed)
    this.#order = this.random.fork("order")
    this.#trace = trace
  }

  /** Schedules an event. Returns a function that cancels it. */
  schedule(delayMillis: number, run: () => void): () => void {
    const event: Scheduled = {
      at: this.now + Math.max(0, delayMillis),
      place: this.#order.next(),
      run,
      cancelled: false
    }
    this.#push(event)
    return () => {
      event.cancelled = true
    }
  }

  /** Lets the next event happen; false if there is none. */
  step(): boolean {
    for (let event = this.#pop(); event !== undefined; event = this.#pop()) {
      if (event.cancelled) continue
      this.now = event.at
      this.steps++
      event.run()
      return true
    }
    return false
  }

  /** Adds a line to the trace. The text is only made if somebody reads it. */
  log(text: () => string): void {
    this.#trace?.(`${(this.now / 1000).toFixed(3).padStart(9)} s  ${text()}`)
  }

  /** A binary heap: the earliest event comes first. */
  #push(event: Scheduled): void {
    const heap = this.#events
    let index = heap.length
    heap.push(event)
    while (index > 0) {
      const parent = (index - 1) >> 1
      const above = heap[parent]
      if (above === undefined || !isBefore(event, above)) break
      heap[index] = above
      index = parent
    }
    heap[index] = event
  }

  #pop(): Scheduled | undefined {
    const heap = this.#events
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    let index = 0
    while (true) {
      const left = 2 * index + 1
      const a = heap[left]
      if (a === undefined) break
      const b = heap[left + 1]
      const [child, place] = b !== undefined && isBefore(b, a) ? [b, left + 1] : [a, left]
      if (!isBefore(child, last)) break
      heap[index] = child
      index = place
    }
    heap[index] = last
    return first
  }
}

const isBefore = (a: Scheduled, b: Scheduled): boolean => a.at < b.at || (a.at === b.at && a.place < b.place)
