/**
 * Signals that a session has new events: they wake its streams and the console's inbox, on every replica.
 *
 * ```
 *  SessionEvents.append ──after the commit──▶ publish ─┬─▶ subscribers of this replica
 *                                                      └─▶ NOTIFY, debounced ──LISTEN──▶ subscribers of every replica
 * ```
 *
 * A signal is a hint: subscribers read the events from the database. A lost signal is made up for by their own polls.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, type Duration, Effect, Layer, type Scope } from "effect"
import type { SessionId } from "../../domain/Ids.ts"
import { startWorkers } from "../concurrency/Worker.ts"
import { makePgNotify } from "../store/PgNotify.ts"
import { makeSignalBuffer, parsePayload } from "./SessionSignals/SignalBuffer.ts"

/** A session has events up to this number. */
export interface SessionSignal {
  readonly session_id: SessionId
  readonly newest: number
}

/** Runs synchronously and must not throw. `undefined`: signals may have been lost, because LISTEN has just started or reconnected. */
export type SessionSignalListener = (signals: ReadonlyArray<SessionSignal> | undefined) => void

/** How long signals gather before they are sent with one NOTIFY, while other replicas have streams that wait for them. */
const DEBOUNCE: Duration.Input = "1 millis"

/** The same for a replica that sees no others: one that has just started is seen at its next rebalancing. Each NOTIFY is a transaction. */
const DEBOUNCE_ALONE: Duration.Input = "250 millis"

/** Options of the exchange between replicas. */
export interface SessionSignalOptions {
  /** Whether other replicas are running. Default: always. */
  readonly hasPeers?: () => boolean
}

/** The bus of session signals. */
export class SessionSignals extends Context.Service<
  SessionSignals,
  {
    /** Notifies all subscribers once the caller's transaction has committed. */
    readonly publish: (signals: ReadonlyArray<SessionSignal>) => Effect.Effect<void>
    /** Subscribes until the scope closes. A replica receives its own signals twice: directly, and by NOTIFY. */
    readonly subscribe: (listener: SessionSignalListener) => Effect.Effect<void, never, Scope.Scope>
  }
>()("countersign/server/approvals/SessionSignals") {
  static readonly layer = (
    options: SessionSignalOptions = {}
  ): Layer.Layer<SessionSignals, never, PgClient.PgClient> => Layer.effect(SessionSignals, make(options))
}

const make = Effect.fnUntraced(function* (options: SessionSignalOptions) {
  const { hasPeers = () => true } = options
  const sql = yield* PgClient.PgClient
  const { listen, notifyDebounced } = yield* makePgNotify("countersign_session_events")
  const listeners = new Set<SessionSignalListener>()
  const outgoing = makeSignalBuffer()

  const broadcast: SessionSignalListener = (signals) => {
    for (const listener of listeners) listener(signals)
  }

  yield* startWorkers([
    notifyDebounced(outgoing.due, () => (hasPeers() ? DEBOUNCE : DEBOUNCE_ALONE), outgoing.takePayloads),
    listen((payload) =>
      Effect.sync(() => broadcast(payload === undefined ? undefined : parsePayload(payload)))
    )
  ])

  return SessionSignals.of({
    publish: (signals) =>
      sql.afterCommit(
        Effect.sync(() => {
          broadcast(signals)
          outgoing.add(signals)
        })
      ),
    subscribe: (listener) =>
      Effect.acquireRelease(
        Effect.sync(() => listeners.add(listener)),
        () => Effect.sync(() => listeners.delete(listener))
      )
  })
})
