import { type LoopTime, makeCompany, processTime, restAfter } from "../../concurrency/Company.ts"

/** Time that starting requests may take per pass of the event loop: of one client, and of all. */
const CLIENT_MILLIS = 2
const TOTAL_MILLIS = 8

/** Time of a request outside of its start: Node.js reads and parses it, and writes the response. */
const MILLIS_PER_REQUEST = 0.15

/** Rest that a client may owe and still start requests, so that one with few requests at a time does not wait. */
const OWED_MILLIS = 10

/** The requests of one client that wait for a later pass, and the time that its requests took in this pass. */
interface ClientQueue {
  readonly waiting: Array<() => void>
  millis: number
  restsUntil: number
}

/**
 * Spreads the start of requests over passes of the event loop. One pass reads every connection with data, and starting
 * a request takes up to half a millisecond, even without a key: a thousand connections of one client would delay all
 * others by half a second. Waiting requests keep their order, and clients take turns.
 *
 * While other clients send requests too, a client rests after its own, so that refused requests, which no rate limit
 * makes fewer, do not take up a whole processor.
 */
export class RequestPacer {
  readonly #time: LoopTime
  readonly #company: ReturnType<typeof makeCompany>
  readonly #queues = new Map<string, ClientQueue>()
  #millis = 0
  #isDue = false
  /** When the timer for the end of a rest runs. */
  #wakesAt = Number.POSITIVE_INFINITY
  #cancelTimer = (): void => undefined

  constructor(time: LoopTime = processTime) {
    this.#time = time
    this.#company = makeCompany(time)
  }

  /** Starts a request of a client, now or in a later pass. */
  start(client: string, request: () => void): void {
    this.#company.arrive(client)
    const queue = this.#queues.get(client) ?? { waiting: [], millis: 0, restsUntil: 0 }
    this.#queues.set(client, queue)
    try {
      if (queue.waiting.length === 0 && this.#hasTime(queue)) this.#run(client, queue, request)
      else queue.waiting.push(request)
    } finally {
      this.#passAt(nextStart(queue))
    }
  }

  #hasTime({ millis, restsUntil }: ClientQueue): boolean {
    return (
      millis < CLIENT_MILLIS && this.#millis < TOTAL_MILLIS && restsUntil <= this.#time.now() + OWED_MILLIS
    )
  }

  #run(client: string, queue: ClientQueue, request: () => void): void {
    const start = this.#time.now()
    try {
      request()
    } finally {
      const end = this.#time.now()
      queue.millis += end - start
      this.#millis += end - start
      if (this.#company.has(client)) {
        queue.restsUntil = restAfter(queue.restsUntil, end - start + MILLIS_PER_REQUEST, end)
      }
    }
  }

  /** Makes the next pass come no later than at this time. */
  #passAt(at: number): void {
    if (this.#isDue || at >= this.#wakesAt) return
    this.#cancelTimer()
    const rest = at - this.#time.now()
    if (rest > 0) {
      this.#wakesAt = at
      this.#cancelTimer = this.#time.after(rest, () => {
        this.#wakesAt = Number.POSITIVE_INFINITY
        this.#passAt(0)
      })
      return
    }
    this.#isDue = true
    this.#wakesAt = Number.POSITIVE_INFINITY
    setImmediate(() => {
      this.#isDue = false
      this.#pass()
    })
  }

  /** Starts waiting requests, one of each client at a time, as long as the time of this pass suffices. */
  #pass(): void {
    this.#millis = 0
    const now = this.#time.now()
    const waiting: Array<readonly [string, ClientQueue]> = []
    for (const [client, queue] of this.#queues) {
      queue.millis = 0
      if (queue.waiting.length > 0) waiting.push([client, queue])
      else if (queue.restsUntil <= now) this.#queues.delete(client)
    }
    try {
      for (let hasRun = true; hasRun;) {
        hasRun = false
        for (const [client, queue] of waiting) {
          if (!this.#hasTime(queue)) continue
          const next = queue.waiting.shift()
          if (next === undefined) continue
          hasRun = true
          // Clients that were not served in this pass come first in the next one.
          this.#queues.delete(client)
          this.#queues.set(client, queue)
          this.#run(client, queue, next)
        }
      }
    } finally {
      // Even if a request throws, the others are started in the next pass.
      let next = Number.POSITIVE_INFINITY
      for (const queue of this.#queues.values()) next = Math.min(next, nextStart(queue))
      if (this.#queues.size > 0) this.#passAt(next)
    }
  }
}

/** When a client may start its next request; if none waits, when it is forgotten. */
const nextStart = ({ restsUntil, waiting }: ClientQueue): number =>
  waiting.length > 0 ? restsUntil - OWED_MILLIS : restsUntil
