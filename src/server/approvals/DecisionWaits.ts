import { Context, Deferred, Effect, Layer, Option } from "effect"
import { Authorized } from "../../api/Authorization.ts"
import type { GovernedStep } from "../../domain/approvals/AgentSession.ts"
import type { KeyId, OrgId, SessionId } from "../../domain/Ids.ts"
import { KeyedBudget } from "../admission/KeyedBudget.ts"
import { monotonicNow } from "../concurrency/monotonicMillis.ts"
import type { KeyRef } from "../identity/KeyRef.ts"
import { Revocations } from "../identity/Revocations.ts"
import { CurrentRequestFacts } from "../observability/RequestFacts.ts"
import { type SessionSignal, SessionSignals } from "./SessionSignals.ts"

/** When a waiting request first asks again without a signal, in milliseconds: for an event between its first answer and its wait. */
const FIRST_RECHECK_MILLIS = 5_000

/** How often it asks again from then on, in milliseconds, because a signal can be lost. */
const RECHECK_MILLIS = 30_000

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

/** Limits of the requests that wait. A request holds one connection of its client. */
const WAIT_LIMITS: DecisionWaitLimits = { total: 10_000, perOrganization: 2_000 }

/** Requests that wait for the decisions and messages of people, woken by the events of their sessions, without a connection to the database. */
export class DecisionWaits extends Context.Service<
  DecisionWaits,
  {
    /**
     * Asks again until a step is decided, or a reviewer has sent a message after `after_message`, or `seconds` are over, and returns the last
     * answer. It is pending also if too many requests wait, the key has ended, or the service stops. Default: after the messages of `answer`,
     * so that an agent that repeats the request waits for each message once.
     */
    readonly untilDecided: <E, R>(
      answer: GovernedStep,
      session_id: SessionId,
      { after_message, seconds }: { readonly seconds: number; readonly after_message?: number | undefined },
      ask: Effect.Effect<GovernedStep, E, R>
    ) => Effect.Effect<GovernedStep, E, R | Authorized<"sessions.write">>
    /** The number of requests of this replica that wait. */
    readonly waiting: Effect.Effect<number>
    /** Ends every wait, and later ones when they begin. */
    readonly endAll: Effect.Effect<void>
  }
>()("countersign/server/approvals/DecisionWaits") {
  static readonly layer = (
    limits: DecisionWaitLimits = WAIT_LIMITS
  ): Layer.Layer<DecisionWaits, never, SessionSignals | Revocations> =>
    Layer.effect(
      DecisionWaits,
      Effect.gen(function* () {
        const signals = yield* SessionSignals
        const waits = makeDecisionWaits(limits, signals.announce)
        yield* signals.subscribe({ onSignals: waits.signal, isFollowing: () => waits.size() > 0 })
        yield* (yield* Revocations).subscribe({ keysInUse: waits.keysInUse, onEnded: waits.endKeys })
        return DecisionWaits.of({
          untilDecided: Effect.fnUntraced(function* (
            answer,
            session_id,
            { after_message = newestMessage(answer), seconds },
            ask
          ) {
            const { actor, org_id } = yield* Authorized("sessions.write")
            const until = (yield* monotonicNow) + seconds * 1_000
            const facts = yield* CurrentRequestFacts
            let current = answer
            let recheck = FIRST_RECHECK_MILLIS
            while (current.decision === "pending" && newestMessage(current) <= after_message) {
              const left = until - (yield* monotonicNow)
              if (left <= 0) break
              if (facts !== undefined) facts.waits = true
              const key = { org_id, key_id: actor.id }
              const woken = yield* waits.next(key, session_id, Math.min(left, recheck))
              // At the end of its time nothing has changed, unless a signal was lost: the client's next request makes up for that.
              if (woken !== "changed" && (woken !== "unsignalled" || left <= recheck)) break
              current = yield* ask
              recheck = RECHECK_MILLIS
            }
            return current
          }),
          waiting: Effect.sync(waits.size),
          endAll: Effect.sync(waits.endAll)
        })
      })
    )

  /** Ends the waits when its scope closes, before the server drains its open requests: see `SessionStream.layerEndOnShutdown`. */
  static readonly layerEndOnShutdown: Layer.Layer<never, never, DecisionWaits> = Layer.effectDiscard(
    Effect.flatMap(DecisionWaits, ({ endAll }) => Effect.addFinalizer(() => endAll))
  )
}

/** The number of the last message that an answer has; 0: none. */
const newestMessage = ({ messages }: GovernedStep): number => messages?.at(-1)?.number ?? 0

/** The waits of `DecisionWaits`, without the sources of their signals. */
export interface Waits {
  /**
   * Waits until the session has new events: `changed`. `unsignalled`: none were signalled in this time. `full`: too many requests wait.
   * `ended`: the key has ended, or the service stops. Events that came before the call are missed, so ask again after a few seconds.
   */
  readonly next: (
    key: KeyRef,
    session_id: SessionId,
    millis: number
  ) => Effect.Effect<"changed" | "unsignalled" | "ended" | "full">
  readonly signal: (signals: ReadonlyArray<SessionSignal> | undefined) => void
  readonly keysInUse: () => ReadonlyArray<KeyRef>
  readonly endKeys: (keys: ReadonlySet<KeyId>) => void
  /** Ends every wait, and later ones when they begin. */
  readonly endAll: () => void
  readonly size: () => number
}

/** Creates the waits. Plain and synchronous, except the wait itself. `onWait` runs when a wait was added. */
export const makeDecisionWaits = (limits: DecisionWaitLimits, onWait: () => void): Waits => {
  const bySession = new Map<SessionId, Set<Wait>>()
  const slots = new KeyedBudget<OrgId>({ total: limits.total, perKey: limits.perOrganization })
  let isStopping = false

  const add = (wait: Wait) => {
    slots.take(wait.key.org_id)
    const others = bySession.get(wait.session_id)
    if (others === undefined) bySession.set(wait.session_id, new Set([wait]))
    else others.add(wait)
    onWait()
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
              Option.getOrElse(() => "unsignalled" as const)
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
