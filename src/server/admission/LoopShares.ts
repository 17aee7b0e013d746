import { performance } from "node:perf_hooks"
import { Generations } from "../concurrency/Generations.ts"

/** The time of an event loop. */
export interface LoopTime {
  /** Milliseconds. */
  readonly now: () => number
  /** Milliseconds for which the loop was not idle, since it started. */
  readonly busyMillis: () => number
  /** Runs a function once, after a delay in milliseconds. Returns a function that cancels it. */
  readonly after: (millis: number, run: () => void) => () => void
}

/** The time of this process's event loop, not Effect's clock, so that sharing goes on while a test moves that. */
export const processTime: LoopTime = {
  now: () => performance.now(),
  busyMillis: () => performance.eventLoopUtilization().active,
  after: (millis, run) => {
    const timer = setTimeout(run, millis)
    return () => clearTimeout(timer)
  }
}

/**
 * Utilization of the event loop up to which no key is throttled, and from which throttling is full. The loop is one
 * thread, and PostgreSQL works beside it for every request that it starts, so requests wait for each other long before
 * it is fully used. A process that waits for a processor counts as busy.
 */
const BUSY_UTILIZATION = 0.2
const FULL_UTILIZATION = 0.4

/** Milliseconds of debt for each charged millisecond under full throttling: 3 leaves the others three quarters of the loop. */
const FULL_THROTTLE = 3

/**
 * Use by other keys, in milliseconds per second, below which a key is not throttled for them: fewer than about five
 * requests per second, such as health probes, are no reason to hold back hundreds.
 */
const MIN_OTHERS_MILLIS = 2

/** Time constants of the averages of use and of utilization. */
const USE_MILLIS = 1_000
const UTILIZATION_MILLIS = 200

/** The least time between two measurements of the utilization. */
const SAMPLE_MILLIS = 5

/** The highest debt. Work that takes no turns could otherwise add to it without end. */
const MAX_DEBT_MILLIS = 2_000

/** How long an unused account is kept at least: longer than any debt. */
const KEPT_MILLIS = 2 * MAX_DEBT_MILLIS

/** An average that forgets its past exponentially. */
interface Use {
  millis: number
  at: number
}

interface Account extends Use {
  /** When the debt is paid off. */
  debtUntil: number
}

const decayed = ({ at, millis }: Use, now: number): number => millis * Math.exp((at - now) / USE_MILLIS)

/**
 * The use of the event loop by keys, such as organizations or client addresses, and the debt of keys that use more than
 * their share. A charge becomes a debt only while the loop is contended: it is busy, and other keys use it too. Under
 * full throttling a key then gets a quarter of the loop. Debts count only while the loop is contended, so a replica with
 * little load holds back no request.
 */
export class LoopShares {
  readonly #time: LoopTime
  readonly #accounts = new Generations<string, Account>()
  #rotatedAt: number
  readonly #total: Use
  #utilization = 0
  #sample: { at: number; busy: number }

  constructor(time: LoopTime = processTime) {
    const at = time.now()
    this.#time = time
    this.#rotatedAt = at
    this.#total = { millis: 0, at }
    this.#sample = { at, busy: time.busyMillis() }
  }

  /** Charges a key for work that was done for it. */
  charge(key: string, millis: number): void {
    const now = this.#time.now()
    const account = this.#account(key, now)
    const throttle = this.#throttle(key, now)
    account.millis = decayed(account, now) + millis
    account.at = now
    this.#total.millis = decayed(this.#total, now) + millis
    this.#total.at = now
    if (throttle === 0) return
    // Work before the end of a debt pays nothing off.
    const debtUntil = Math.max(account.debtUntil + millis, now) + millis * throttle
    account.debtUntil = Math.min(debtUntil, now + MAX_DEBT_MILLIS)
  }

  /** Milliseconds until the debt of a key is paid off; 0 while the loop is not contended. */
  debt(key: string): number {
    const now = this.#time.now()
    const debt = (this.#accounts.get(key)?.debtUntil ?? now) - now
    return debt > 0 && this.#throttle(key, now) > 0 ? debt : 0
  }

  /** Whether other keys use the loop too. */
  hasOthers(key: string): boolean {
    return this.#hasOthers(key, this.#time.now())
  }

  /** Whether the loop is busy and other keys use it too. */
  isContended(key: string): boolean {
    return this.#throttle(key, this.#time.now()) > 0
  }

  #hasOthers(key: string, now: number): boolean {
    const own = this.#accounts.get(key)
    return decayed(this.#total, now) - (own === undefined ? 0 : decayed(own, now)) >= MIN_OTHERS_MILLIS
  }

  /** Milliseconds of debt for each charged millisecond. */
  #throttle(key: string, now: number): number {
    const excess = this.#utilizationAt(now) - BUSY_UTILIZATION
    if (excess <= 0 || !this.#hasOthers(key, now)) return 0
    return FULL_THROTTLE * Math.min(1, excess / (FULL_UTILIZATION - BUSY_UTILIZATION))
  }

  #utilizationAt(now: number): number {
    const { at, busy } = this.#sample
    const elapsed = now - at
    if (elapsed >= SAMPLE_MILLIS) {
      this.#sample = { at: now, busy: this.#time.busyMillis() }
      const ratio = Math.min(1, (this.#sample.busy - busy) / elapsed)
      this.#utilization += (ratio - this.#utilization) * (1 - Math.exp(-elapsed / UTILIZATION_MILLIS))
    }
    return this.#utilization
  }

  #account(key: string, now: number): Account {
    if (now - this.#rotatedAt >= KEPT_MILLIS) {
      this.#accounts.rotate()
      this.#rotatedAt = now
    }
    const account = this.#accounts.get(key) ?? { millis: 0, at: now, debtUntil: 0 }
    this.#accounts.set(key, account)
    return account
  }
}
