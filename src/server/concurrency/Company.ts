/** How long after its last request a key counts as sending requests. */
const ACTIVE_MILLIS = 1_000

/** The time of an event loop. */
export interface LoopTime {
  /** Milliseconds. */
  readonly now: () => number
  /** Runs a function once, after so many milliseconds. Returns a function that cancels it. */
  readonly after: (millis: number, run: () => void) => () => void
}

/** The time of this process's event loop, not Effect's clock, so that sharing goes on while a test moves that. */
export const processTime: LoopTime = {
  now: () => performance.now(),
  after: (millis, run) => {
    const timer = setTimeout(run, millis)
    return () => clearTimeout(timer)
  }
}

/** Tells whether others send requests at the same time. */
export interface Company {
  /** Notes a request of a key, such as an organization. */
  readonly arrive: (key: string) => void
  /** Whether another key sent a request within the last second. */
  readonly has: (key: string) => boolean
}

/** Makes a {@link Company}. It remembers two keys, however many send requests. */
export const makeCompany = (time: LoopTime = processTime): Company => {
  /** The two keys with the latest requests, the later first. */
  let latest = { key: "", at: Number.NEGATIVE_INFINITY }
  let other = latest
  return {
    arrive: (key) => {
      const at = time.now()
      if (latest.key !== key) other = latest
      latest = { key, at }
    },
    has: (key) => time.now() - (latest.key === key ? other : latest).at < ACTIVE_MILLIS
  }
}

/**
 * Milliseconds that a key rests for each millisecond that it used, while others send requests: 3 leaves them three
 * quarters of the event loop. The loop is one thread, and PostgreSQL works beside it for every request that it starts,
 * so at half of the loop one organization already makes the requests of the others wait.
 */
export const REST_FACTOR = 3

/**
 * When a key may go on that worked until `now` and had to rest until `restsUntil`. Work before the end of a rest is no
 * rest.
 */
export const restAfter = (restsUntil: number, workedMillis: number, now: number): number =>
  Math.max(restsUntil + workedMillis, now) + workedMillis * REST_FACTOR
