/** Time that starting requests may take per pass of the event loop: of one client, and of all. */
const CLIENT_MILLIS = 2
const TOTAL_MILLIS = 8

/** The requests of one client that wait for a later pass, and the time that its requests took in this pass. */
interface ClientQueue {
  readonly waiting: Array<() => void>
  millis: number
}

/**
 * Spreads the start of requests over passes of the event loop. One pass reads every connection with data, and starting
 * a request takes up to half a millisecond, even without a key: a thousand connections of one client would delay all
 * others by half a second. Waiting requests keep their order, and clients take turns.
 */
export class RequestPacer {
  readonly #now: () => number
  readonly #queues = new Map<string, ClientQueue>()
  #millis = 0
  #isDue = false

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Starts a request of a client, now or in a later pass. */
  start(client: string, request: () => void): void {
    const queue = this.#queues.get(client) ?? { waiting: [], millis: 0 }
    this.#queues.set(client, queue)
    if (queue.waiting.length === 0 && this.#hasTime(queue)) this.#run(queue, request)
    else queue.waiting.push(request)
    this.#passSoon()
  }

  #hasTime({ millis }: ClientQueue): boolean {
    return millis < CLIENT_MILLIS && this.#millis < TOTAL_MILLIS
  }

  #run(queue: ClientQueue, request: () => void): void {
    const start = this.#now()
    try {
      request()
    } finally {
      const millis = this.#now() - start
      queue.millis += millis
      this.#millis += millis
    }
  }

  #passSoon(): void {
    if (this.#isDue) return
    this.#isDue = true
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
      if (queue.waiting.length === 0) this.#queues.delete(client)
      else waiting.push([client, queue])
    }
    if (waiting.length === 0) return
    // Even if a request throws, the others are started in the next pass.
    this.#passSoon()
    for (let hasRun = true; hasRun;) {
      hasRun = false
      for (const [client, queue] of waiting) {
        if (!this.#hasTime(queue)) continue
        const next = queue.waiting.shift()
        if (next === undefined) continue
        hasRun = true
        this.#run(queue, next)
        // Clients that were not served in this pass come first in the next one.
        this.#queues.delete(client)
        this.#queues.set(client, queue)
      }
    }
  }
}
