/**
 * The rule about ended keys: **a key that was revoked or has expired is refused everywhere, on every replica, within five seconds.**
 * This module states the rule, owns its constants and keeps it:
 *
 * ```
 *  ApiKeys.revoke ──after the commit──▶ publish ─┐  (immediately, on this replica)
 *                                                ├─▶ subscribers: the verified-key cache, streams, waits, console sessions
 *  api_keys ◀──every 4 s, all keys in use── poll ┘  (every replica: revoked, expired and deleted keys, and changed rights)
 * ```
 *
 * - A request verifies its key by the database or by the verified-key cache, which uses an entry for `VERIFIED_KEY_TTL_MILLIS` at most:
 *   for requests the rule holds even while the poll fails.
 * - A request whose body or turn comes later than a second after its key verifies the key again (`CurrentCaller`).
 * - A request of the console reads its session together with its key, and so refuses an ended key immediately.
 * - A stream outlasts the request that opened it: its key is checked by the poll. A poll that fails is repeated every half second, so the
 *   rule holds through one failure. While the database is unreachable a stream stays open, without events, which come from the database
 *   too; it ends with the first poll that succeeds.
 *
 * A key whose rights have changed is treated alike: its open streams end, and are authorized again when they are reopened.
 *
 * Revocations are not sent by NOTIFY. A listener would reserve one of the pool's connections on every replica, and the poll would still
 * be needed: notifications can be lost, and an expiry sends none.
 */
import { Array as Arr, Context, DateTime, Duration, Effect, Layer, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import type { KeyId } from "../../domain/Ids.ts"
import { makeEndWatch } from "../concurrency/EndWatch.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { findEndedKeys } from "./ApiKeys/rows.ts"
import type { KeyRef } from "./KeyRef.ts"

/** The longest time after which an ended key is refused. The other constants of this file follow from it. */
export const REVOCATION_LIMIT_MILLIS = 5_000

/** How long a verified key is used without a query, counted from before the query that verified it. */
export const VERIFIED_KEY_TTL_MILLIS = REVOCATION_LIMIT_MILLIS

/** Pause between two polls. The rest of the limit is for the poll's query, and for one retry if it fails. */
export const REVOCATION_POLL_MILLIS = 4_000

/** How long a poll finds changed rights: over a poll that failed, too. */
const CHANGE_WINDOW = Duration.millis(2 * REVOCATION_LIMIT_MILLIS)

/** Pause after a poll that failed. */
const RETRY_MILLIS = 500

/** Keys that one statement of a poll checks. */
const KEYS_PER_STATEMENT = 10_000

/** A service of this replica that uses keys for longer than one request. */
export interface RevocationSubscriber {
  /** The keys to check at the next poll; a key may occur more than once. */
  readonly keysInUse: () => ReadonlyArray<KeyRef>
  /** Runs synchronously when keys have ended, and must not throw. The set can contain keys that this subscriber does not use. */
  readonly onEnded: (keys: ReadonlySet<KeyId>) => void
}

/** Options of the poll. */
export interface RevocationOptions {
  /** Pause between two polls. Default {@link REVOCATION_POLL_MILLIS}. */
  readonly pollEvery?: Duration.Input
}

/** Notifies subscribers of keys that have ended. */
export class Revocations extends Context.Service<
  Revocations,
  {
    /** Subscribes until the scope closes. */
    readonly subscribe: (subscriber: RevocationSubscriber) => Effect.Effect<void, never, Scope.Scope>
    /** Completes when a key has ended: for a response that is sent for longer than one request takes. */
    readonly awaitEnd: (key: KeyRef) => Effect.Effect<void>
    /** Notifies the subscribers of this replica that a key was revoked. To be called after the commit. */
    readonly publish: (key_id: KeyId) => Effect.Effect<void>
    /** Checks all keys in use and notifies the subscribers of ended keys. Returns their number. */
    readonly poll: Effect.Effect<number>
  }
>()("countersign/server/identity/Revocations") {
  static readonly layer = (
    options: RevocationOptions = {}
  ): Layer.Layer<Revocations, never, SqlClient.SqlClient | StoreClock> =>
    Layer.effect(Revocations, make(options))
}

const make = Effect.fnUntraced(function* (options: RevocationOptions) {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* StoreClock
  const subscribers = new Set<RevocationSubscriber>()
  const watch = makeEndWatch(({ key_id }: KeyRef) => key_id)
  subscribers.add({ keysInUse: watch.refs, onEnded: (keys) => keys.forEach(watch.end) })

  const notify = (keys: ReadonlySet<KeyId>): void => {
    for (const { onEnded } of subscribers) onEnded(keys)
  }

  const keysInUse = (): ReadonlyArray<KeyRef> => {
    const keys = new Map<KeyId, KeyRef>()
    for (const subscriber of subscribers) {
      for (const key of subscriber.keysInUse()) keys.set(key.key_id, key)
    }
    return [...keys.values()]
  }

  const poll = Effect.gen(function* () {
    let ended = 0
    for (const keys of Arr.chunksOf(keysInUse(), KEYS_PER_STATEMENT)) {
      const now = yield* clock.now
      // Since before the last poll, whose keys were others. A reopened stream is authorized again, so ending one once more does no harm.
      const found = yield* findEndedKeys(sql, keys, now, DateTime.subtractDuration(now, CHANGE_WINDOW))
      if (found.length > 0) notify(new Set(found))
      ended += found.length
    }
    return ended
  }).pipe(Effect.orDie)

  yield* startWorkers([
    runWorker({
      name: "key_revocations",
      runOnce: Effect.map(poll, (ended) => ({ counts: { ended } })),
      every: options.pollEvery ?? REVOCATION_POLL_MILLIS,
      retryAfter: RETRY_MILLIS,
      firstRun: "after_pause"
    })
  ])

  return Revocations.of({
    subscribe: (subscriber) =>
      Effect.acquireRelease(
        Effect.sync(() => subscribers.add(subscriber)),
        () => Effect.sync(() => subscribers.delete(subscriber))
      ),
    awaitEnd: watch.awaitEnd,
    publish: (key_id) => Effect.sync(() => notify(new Set([key_id]))),
    poll
  })
})
