import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, type Redacted } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { uuidV7Hex } from "../../domain/Ids.ts"
import { countTogether } from "./Database/transaction.ts"

/** Connections of the callers' pool, transactions and listeners included. */
export const MAX_CONNECTIONS = 12

/** The longest that a statement waits for what another transaction holds; then the request is answered 503. */
const LOCK_TIMEOUT_MILLIS = 2_000

/** After which a connection that nobody uses is closed. */
const IDLE_CONNECTION_TIMEOUT = "60 seconds"

/**
 * The largest row that is read. Two examples side by side have an input and an answer of 4 MiB each, and numbers such as 1e20 are five
 * times as long in the store as they were sent. A row that is larger ends its connection, with the statements of others on it.
 */
const MAX_MESSAGE_BYTES = 128 * 2 ** 20

/** How to reach the store, and how much of it one process may take. */
export interface DatabaseOptions {
  /** `postgres://…`; PostgreSQL 15 or newer. */
  readonly url: Redacted.Redacted
  /** Connections of the pool, transactions and listeners included. Default 12. */
  readonly maxConnections?: number
  /** Longest statement, in milliseconds; a longer one is cancelled and answered 503. Default 15,000. */
  readonly statementTimeoutMillis?: number
}

/**
 * The client every service shares. Statements outside transactions are pipelined over the pool's connections;
 * a transaction, a stream and a listener each reserve one.
 */
export const layer = (
  options: DatabaseOptions
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError.SqlError> =>
  PgClient.layer({
    url: options.url,
    // Of its own in each process: metrics tell its connections from those of others by it.
    applicationName: `countersign ${uuidV7Hex().slice(-8)}`,
    maxConnections: options.maxConnections ?? MAX_CONNECTIONS,
    connectTimeout: "5 seconds",
    idleTimeout: IDLE_CONNECTION_TIMEOUT,
    multiplex: true,
    // A statement that is slow holds up at most these many others.
    multiplexConcurrency: 16,
    maxMessageSize: MAX_MESSAGE_BYTES,
    startupParameters: {
      // Every statement here goes by an index. A plan that was made while a table was empty must not read it whole once it has
      // grown, until the next ANALYZE: that has cost seconds. Where no index fits, the penalty alone would have JIT compile.
      enable_seqscan: "off",
      jit: "off",
      statement_timeout: String(options.statementTimeoutMillis ?? 15_000),
      lock_timeout: String(LOCK_TIMEOUT_MILLIS),
      idle_in_transaction_session_timeout: "30000",
      timezone: "UTC"
    }
  })

/**
 * A second client for the same store with `maxConnections` connections of its own, for work that must neither wait for callers'
 * transactions nor delay them. Each carries one statement at a time. Sharing them, the pool would put statements on the first one until it
 * is full, and a read would wait there for the commit before it; nor could a statement that takes too long be cancelled. A row that is held
 * is waited for as long as any statement may take. Its transactions are counted with those of the client at hand.
 */
export const layerDedicatedPool = (
  maxConnections: number
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError.SqlError, PgClient.PgClient> =>
  Layer.unwrap(
    Effect.map(PgClient.PgClient, (client) =>
      PgClient.layer({
        ...client.config,
        idleTimeout: IDLE_CONNECTION_TIMEOUT,
        maxConnections,
        multiplex: false,
        startupParameters: { ...client.config.startupParameters, lock_timeout: "0" }
      }).pipe(
        Layer.tap((beside) =>
          Effect.sync(() => countTogether(client, Context.get(beside, PgClient.PgClient)))
        )
      )
    )
  )
