import {
  chargeTokens,
  type RateLimit,
  type RateLimitResult,
  reserveToken,
  takeToken
} from "../../domain/identity/RateLimit.ts"
import { Generations } from "../concurrency/Generations.ts"

/** Names of one generation. Beyond it, the names that were not used for longest get full buckets early. */
const MAX_NAMES = 100_000

/** Token buckets of one rate limit, by name. Times are milliseconds of a monotonic clock. */
export interface TokenBuckets {
  /** Takes a token if there is one. */
  readonly take: (name: string, now: number) => RateLimitResult
  /**
   * Takes the next token, also if it is not there yet, and returns the wait for it. Undefined: the wait is longer than `maxWaitMillis`, and
   * nothing is taken.
   */
  readonly reserve: (name: string, now: number, maxWaitMillis: number) => number | undefined
  /** Takes tokens, also more than there are; a negative number gives tokens back. */
  readonly charge: (name: string, count: number, now: number) => void
}

/**
 * The only store of token buckets, in two generations: those used in the current window, and those used in the previous one. A name in
 * neither has been idle long enough for a full bucket, unless it owes more than a window's tokens: such names are kept until these are
 * paid for. Nothing needs a sweep, and memory is bounded by the requests of two windows. Effect's `RateLimiter` never evicts a bucket from
 * its memory store, so the flood that it limits would fill the memory.
 */
export const makeTokenBuckets = (limit: RateLimit): TokenBuckets => {
  const buckets = new Generations<string, number>()
  let windowStart = Number.NEGATIVE_INFINITY
  /** Names that owe more than their bucket holds, with the time when it is full again. */
  const debts = new Map<string, number>()

  const fullAtOf = (name: string, now: number): number => {
    const age = now - windowStart
    if (age >= limit.windowMillis || buckets.size >= MAX_NAMES + debts.size) {
      buckets.rotate()
      if (age >= 2 * limit.windowMillis) buckets.rotate()
      windowStart = now
      for (const [debtor, fullAt] of debts) {
        if (fullAt <= now + limit.windowMillis) debts.delete(debtor)
        buckets.set(debtor, fullAt)
      }
    }
    return buckets.get(name) ?? now
  }

  const store = (name: string, fullAt: number, now: number): void => {
    buckets.set(name, fullAt)
    if (fullAt > now + limit.windowMillis) debts.set(name, fullAt)
    else debts.delete(name)
  }

  return {
    take: (name, now) => {
      const taken = takeToken(limit, fullAtOf(name, now), now)
      store(name, taken.fullAt, now)
      return taken
    },
    reserve: (name, now, maxWaitMillis) => {
      const { fullAt, waitMillis } = reserveToken(limit, fullAtOf(name, now), now)
      if (waitMillis > maxWaitMillis) return undefined
      store(name, fullAt, now)
      return waitMillis
    },
    charge: (name, count, now) => store(name, chargeTokens(limit, fullAtOf(name, now), now, count), now)
  }
}
