import { LoopShares, type LoopTime, processTime } from "./LoopShares.ts"

/** Time that starting requests may take per pass of the event loop: of one client, and of all. */
const CLIENT_MILLIS = 2
const TOTAL_MILLIS = 8

/** Time of a request outside of its start: Node.js reads and parses it, and writes the response. */
const MILLIS_PER_REQUEST = 0.15

/** The longest time that a start is charged for. A longer one was interrupted, such as by garbage collection. */
const MAX_START_MILLIS = 5

/** Debt that a client may have and still start requests, so that one with few requests at a time does not wait. */
const ALLOWED_DEBT_MILLIS = 10

/** How long a throttled client waits at most until the contention is checked again. */
const CHECK_MILLIS = 100

/** Requests of one client that wait, at most. They start within a few seconds. */
const MAX_WAITING = 5_000

/** A request before its start. */
export interface PacedRequest {
  readonly start: () => void
  /** Whether its connection has closed: it is then not started. */
  readonly isClosed: () => boolean
  /** Answers a request that is not started, because too many of its client wait. */
  readonly refuse: () => void
}

/** The requests of one client that wait for a later pass, and the time that its requests took in this pass. */
interface ClientQueue {
  readonly waiting: Set<PacedRequest>
  millis: number
}

/**
 * Spreads the start of requests over passes of the event loop. One pass reads every connection with data, and starting
 * a request takes up to half a millisecond, even without a key: a thousand connections of one client would delay all
 * others by half a second. Waiting requests keep their order, and clients take turns.
 *
 * While the event loop is contended, a client is throttled ({@link LoopShares}), so that refused requests, which no rate
 * limit makes fewer, do not take up a whole processor.
 */
export class RequestPacer {
  readonly #time: LoopTime
  readonly #shares: LoopShares
  readonly #queues = new Map<string, ClientQueue>()
  #millis = 0
  #isDue = false
  #cancelTimer = (): void => undefined

  constructor(time: LoopTime = processTime) {
    this.#time = time
    this.#shares = new LoopShares(time)
  }

  /** Requests that wait. */
  get waiting(): number {
    let count = 0
    for (const { waiting } of this.#queues.values()) count += waiting.size
    return count
  }

  /**
   * Starts a request of a client, now or in a later pass. Returns a function that removes a waiting request from the
   * queue.
   */
  start(client: string, request: PacedRequest): (() => void) | undefined {
    const queue = this.#queues.get(client) ?? { waiting: new Set(), millis: 0 }
    this.#queues.set(client, queue)
    this.#passSoon()
    const { waiting } = queue
    if (waiting.size === 0 && this.#hasTime(client, queue)) {
      this.#run(client, queue, request)
      return undefined
    }
    if (waiting.size >= MAX_WAITING) {
      request.refuse()
      return undefined
    }
    waiting.add(request)
    return () => void waiting.delete(request)
  }

  #hasTime(client: string, { millis }: ClientQueue): boolean {
    return (
      millis < CLIENT_MILLIS &&
      this.#millis < TOTAL_MILLIS &&
      this.#shares.debt(client) <= ALLOWED_DEBT_MILLIS
    )
  }

  #run(client: string, queue: ClientQueue, request: PacedRequest): void {
    if (request.isClosed()) return
    const start = this.#time.now()
    try {
      request.start()
    } finally {
      const millis = this.#time.now() - start
      queue.millis += millis
      this.#millis += millis
      this.#shares.charge(client, Math.min(millis, MAX_START_MILLIS) + MILLIS_PER_REQUEST)
    }
  }

  #passSoon(): void {
    if (this.#isDue) return
    this.#isDue = true
    this.#cancelTimer()
    setImmediate(() => {
      this.#isDue = false
      this.#pass()
    })
  }

  /** Starts waiting requests, one of each client at a time, as long as the time of this pass suffices. */
  #pass(): void {
    this.#millis = 0
    const waiting: Array<readonly [string, ClientQueue]> = []
    for (const [client, queue] of this.#queues) {
      queue.millis = 0
      if (queue.waiting.size > 0) waiting.push([client, queue])
      else this.#queues.delete(client)
    }
    try {
      for (let hasRun = true; hasRun;) {
        hasRun = false
        for (const [client, queue] of waiting) {
          if (!this.#hasTime(client, queue)) continue
          const [next] = queue.waiting
          if (next === undefined) continue
          queue.waiting.delete(next)
          hasRun = true
          // Clients that were not served in this pass come first in the next one.
          this.#queues.delete(client)
          this.#queues.set(client, queue)
          this.#run(client, queue, next)
        }
      }
    } finally {
      // Even if a request throws, the others are started in the next pass.
      this.#passLater()
    }
  }

  /** Schedules the next pass: immediately, or when the first debt of a client with waiting requests is low enough. */
  #passLater(): void {
    if (this.#queues.size === 0 || this.#isDue) return
    let millis = CHECK_MILLIS
    for (const [client, { waiting }] of this.#queues) {
      const debt = waiting.size === 0 ? 0 : this.#shares.debt(client)
      millis = Math.min(millis, debt - ALLOWED_DEBT_MILLIS)
    }
    if (millis > 0) this.#cancelTimer = this.#time.after(millis, () => this.#passSoon())
    else this.#passSoon()
  }
}
