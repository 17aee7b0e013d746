import { DEFAULT_LEASE_SECONDS } from "../../domain/approvals/leaseSeconds.ts"
import { isTransient, requestedDelay } from "../isTransient.ts"
import { type Clock, systemClock } from "./wait.ts"

/** Renewals of one lease, if none is lost. */
const RENEWALS = 3

/** The longest time that one claim is renewed: a call whose end is never reported must not stay `executing` forever. */
const MAX_KEPT_MILLIS = 24 * 3_600_000

/** Delay before the first retry of a renewal. Each following one doubles up to a tenth of the lease. */
const FIRST_DELAY_MILLIS = 500

/**
 * The lease of a claim, as this process requested it. The members of a claim do not tell it: if a request is repeated, the service returns the
 * claim that the first one got, perhaps renewed meanwhile.
 */
export interface Lease {
  /** The length that was requested. Default: the service's. */
  readonly lease_seconds?: number | undefined
  /** A time before the first request for the claim. Undefined: it may have been sent long ago, by another process. */
  readonly since: number | undefined
}

/** How a claim is kept. */
export interface ClaimKeeping {
  readonly clock: Clock
  /** Renews the claim. One attempt may take `timeout` milliseconds. */
  readonly renew: (lease_seconds: number, timeout: number, signal: AbortSignal) => Promise<unknown>
  /** Called once if the claim cannot be renewed: its outcome is unknown then, or will be. */
  readonly onLost: (error: unknown) => void
}

/**
 * Renews a claim at each third of its lease, until the returned function is called; at once if a third may have passed already. A renewal that
 * gets no answer is repeated until the lease has ended. Only the time of this process counts: its clock may differ from the service's.
 */
export const keepClaim = (
  { lease_seconds = DEFAULT_LEASE_SECONDS, since = -Infinity }: Lease,
  { clock, onLost, renew }: ClaimKeeping
): (() => void) => {
  const stop = new AbortController()
  const { signal } = stop
  const leaseMillis = lease_seconds * 1_000
  const interval = leaseMillis / RENEWALS

  /** Renews once; returns the new end of the lease. */
  const renewBy = async (leaseEnd: number): Promise<number> => {
    for (let attempt = 0; ; attempt++) {
      const sent = clock.now()
      try {
        await renew(lease_seconds, Math.min(interval, leaseEnd - sent), signal)
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
    // The latest end. One that comes earlier is the service's answer.
    let leaseEnd = started + leaseMillis
    let pause = Math.min(interval, since + interval - started)
    while (clock.now() - started < MAX_KEPT_MILLIS) {
      if (pause > 0) await clock.sleep(pause, signal)
      leaseEnd = await renewBy(leaseEnd)
      pause = interval
    }
    throw new Error("The claim was renewed for 24 hours, and is not renewed longer")
  }

  keep().catch((error: unknown) => {
    if (!signal.aborted) onLost(error)
  })
  return () => stop.abort()
}

/** Renewals alone do not keep a process running. */
export const backgroundClock: Clock = {
  ...systemClock,
  sleep: (millis, signal) => systemClock.sleep(millis, signal, { isBackground: true })
}
