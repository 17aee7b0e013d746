import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { SessionId } from "../../domain/Ids.ts"
import { afterCommit } from "../store/Database/transaction.ts"

/** That a session has events up to this number. */
export interface SessionSignal {
  readonly session_id: SessionId
  readonly newest: number
}

/** Is told of events that were committed through a client. It must not throw, and returns at once. */
export type SignalListener = (signals: ReadonlyArray<SessionSignal>) => void

/**
 * Who records events and who streams them meet at the client they share: two services in one process, each on a client of its own,
 * do not hear each other here, as two processes would not.
 */
const listeners = new WeakMap<SqlClient.SqlClient, Set<SignalListener>>()

/** Tells the listeners of this client, once the transaction at hand has committed. */
export const signalEvents = (
  sql: SqlClient.SqlClient,
  signals: ReadonlyArray<SessionSignal>
): Effect.Effect<void> =>
  afterCommit(
    Effect.sync(() => {
      for (const listener of listeners.get(sql) ?? []) listener(signals)
    })
  )

/** Listens until the scope closes. */
export const listenToSignals = (sql: SqlClient.SqlClient, listener: SignalListener) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const known = listeners.get(sql) ?? new Set()
      listeners.set(sql, known.add(listener))
    }),
    () => Effect.sync(() => listeners.get(sql)?.delete(listener))
  )
