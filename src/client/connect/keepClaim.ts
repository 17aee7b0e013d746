import { isTransient, requestedDelay } from "../isTransient.ts"
import { type Clock, systemClock } from "./wait.ts"

/** Renewals of one lease, if none is lost. */
const RENEWALS = 3

/** The longest time that one claim is renewed: a call whose end is never reported must not stay `executing` forever. */
const MAX_KEPT_MILLIS = 24 * 3_600_000

/** Delay before the first retry of a renewal. Each following one doubles up to a tenth of the lease. */
const FIRST_DELAY_MILLIS = 500

/** A claim whose lease is renewed. */
export interface KeptClaim {
  readonly claimed_at: Date
  readonly expires_at: Date
}

/** How a claim is kept. */
export interface ClaimKeeping {
  readonly clock?: Clock | undefined
  /** Renews the claim. One attempt may take `timeout` milliseconds. */
  readonly renew: (lease_seconds: number, timeout: number, signal: AbortSignal) => Promise<unknown>
  /** Called once if the claim cannot be renewed: its outcome is unknown then, or will be. */
  readonly onLost: (error: unknown) => void
}

/**
 * Renews a claim at a third of its lease, until the returned function is called. A renewal that gets no answer is repeated until the lease ends.
 * Only the time of this process counts: its clock may differ from the service's.
 */
export const keepClaim = (
  { claimed_at, expires_at }: KeptClaim,
  { clock = backgroundClock, onLost, renew }: ClaimKeeping
): (() => void) => {
  const stop = new AbortController()
  const { signal } = stop
  const leaseMillis = expires_at.getTime() - claimed_at.getTime()
  const interval = leaseMillis / RENEWALS

  /** Renews once; returns the new end of the lease. */
  const renewBy = async (leaseEnd: number): Promise<number> => {
    for (let attempt = 0; ; attempt++) {
      const sent = clock.now()
      try {
        await renew(leaseMillis / 1_000, Math.min(interval, leaseEnd - sent), signal)
        return sent + leaseMillis
      } catch (error) {
        signal.throwIfAborted()
        const backoff = Math.min(FIRST_DELAY_MILLIS * 2 ** Math.min(attempt, 20), leaseMillis / 10)
        const delay = Math.max(backoff * (0.8 + clock.random() * 0.4), requestedDelay(error))
        if (!isTransient(error) || clock.now() + delay >= leaseEnd) throw error
        await clock.sleep(delay, signal)
      }
    }
  }

  const keep = async (): Promise<void> => {
    const started = clock.now()
    let leaseEnd = started + leaseMillis
    while (clock.now() - started < MAX_KEPT_MILLIS) {
      await clock.sleep(interval, signal)
      leaseEnd = await renewBy(leaseEnd)
    }
    throw new Error("The claim was renewed for 24 hours, and is not renewed longer")
  }

  keep().catch((error: unknown) => {
    if (!signal.aborted) onLost(error)
  })
  return () => stop.abort()
}

/** Renewals alone do not keep a process running. */
const backgroundClock: Clock = {
  ...systemClock,
  sleep: (millis, signal) => systemClock.sleep(millis, signal, { isBackground: true })
}
