import { Deferred, Effect, Option } from "effect"
import type { KeyId, OrgId, SessionId } from "../../../domain/Ids.ts"
import { KeyedBudget } from "../../admission/KeyedBudget.ts"
import type { KeyRef } from "../../identity/KeyRef.ts"
import type { SessionSignal } from "../SessionSignals.ts"

/** Limits of the waits. */
export interface DecisionWaitLimits {
  /** Requests of this replica that wait. */
  readonly total: number
  /** Waits of one organization. */
  readonly perOrganization: number
}

/** A request that waits for a decision. It holds its connection to the client, and none to the database. */
interface Wait {
  readonly key: KeyRef
  readonly session_id: SessionId
  /** `changed`: the session has new events. `ended`: the request is to be answered now. */
  readonly woken: Deferred.Deferred<"changed" | "ended">
}

/** The requests of this replica that wait for decisions. */
export interface DecisionWaits {
  /**
   * Waits until the session has new events, or this time is over: `changed`. `full`: too many requests wait. `ended`: the key has ended, or
   * the service stops. Events that came before the call are missed, so wait for a few seconds and ask again.
   */
  readonly next: (
    key: KeyRef,
    session_id: SessionId,
    millis: number
  ) => Effect.Effect<"changed" | "ended" | "full">
  readonly signal: (signals: ReadonlyArray<SessionSignal> | undefined) => void
  readonly keysInUse: () => ReadonlyArray<KeyRef>
  readonly endKeys: (keys: ReadonlySet<KeyId>) => void
  /** Ends every wait, and later ones when they begin. */
  readonly endAll: () => void
  readonly size: () => number
}

/** Creates the waits. Plain and synchronous, except the wait itself. */
export const makeDecisionWaits = (limits: DecisionWaitLimits): DecisionWaits => {
  const bySession = new Map<SessionId, Set<Wait>>()
  const slots = new KeyedBudget<OrgId>({ total: limits.total, perKey: limits.perOrganization })
  let isStopping = false

  const add = (wait: Wait) => {
    slots.take(wait.key.org_id)
    const others = bySession.get(wait.session_id)
    if (others === undefined) bySession.set(wait.session_id, new Set([wait]))
    else others.add(wait)
  }

  const remove = (wait: Wait) => {
    slots.giveBack(wait.key.org_id)
    const others = bySession.get(wait.session_id)
    others?.delete(wait)
    if (others?.size === 0) bySession.delete(wait.session_id)
  }

  const waits = function* (): Generator<Wait> {
    for (const ofSession of bySession.values()) yield* ofSession
  }

  const wake = (wait: Wait, reason: "changed" | "ended") =>
    Deferred.doneUnsafe(wait.woken, Effect.succeed(reason))

  return {
    next: (key, session_id, millis) =>
      Effect.suspend(() => {
        if (isStopping) return Effect.succeed("ended" as const)
        if (!slots.fits(key.org_id)) return Effect.succeed("full" as const)
        const wait: Wait = { key, session_id, woken: Deferred.makeUnsafe() }
        return Effect.acquireUseRelease(
          Effect.sync(() => add(wait)),
          () =>
            Effect.map(
              Effect.timeoutOption(Deferred.await(wait.woken), millis),
              Option.getOrElse(() => "changed" as const)
            ),
          () => Effect.sync(() => remove(wait))
        )
      }),
    signal: (signals) => {
      if (signals === undefined) for (const wait of waits()) wake(wait, "changed")
      else
        for (const { session_id } of signals)
          for (const wait of bySession.get(session_id) ?? []) wake(wait, "changed")
    },
    keysInUse: () => Array.from(waits(), ({ key }) => key),
    endKeys: (keys) => {
      for (const wait of waits()) if (keys.has(wait.key.key_id)) wake(wait, "ended")
    },
    endAll: () => {
      isStopping = true
      for (const wait of waits()) wake(wait, "ended")
    },
    size: () => slots.inUse
  }
}
