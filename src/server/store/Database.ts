import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, type Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { uuidV7Hex } from "../../domain/Ids.ts"
import { type ConnectionGroup, groupOf, inGroup, makeConnectionGroup } from "./Database/ConnectionGroup.ts"
import { makeClient } from "./Database/makeClient.ts"
import { limitTransactions } from "./Database/limitTransactions.ts"

/** Connections of the shared pool, including those reserved by transactions and listeners. */
export const MAX_CONNECTIONS = 12

/** Connections of the shared client beside its pool, if that leads through a connection pooler: one for each channel of LISTEN. */
export const LISTEN_CONNECTIONS = 1

/** The longest wait of a statement for another transaction's lock. After it the request is answered with 503. */
const LOCK_TIMEOUT_MILLIS = 2_000

/** Statement timeout. The server then cancels the statement, and the request gets 503. */
const STATEMENT_TIMEOUT_MILLIS = 10_000

/**
 * How long after the statement timeout a silent connection is closed. A service recovers from connections that were
 * lost without a FIN or RST within 15 seconds: the statement timeout, this grace period, and some time to reconnect.
 */
const RESPONSE_MARGIN_MILLIS = 2_000

/** How long a TCP connection may be unused before the operating system checks whether its peer is there. */
const KEEP_ALIVE = "10 seconds"

/**
 * When the server ends the session of a client that is silent: after this time, and this many unanswered probes with
 * this pause between them; in seconds. By default that takes two hours, and every replica that was cut off a few times
 * would leave behind more sessions than `max_connections` allows.
 */
const SERVER_KEEP_ALIVE = { idle: 10, interval: 5, count: 3 }

/** How long a transaction of a dedicated pool may pause between two statements. It computes little meanwhile. */
const DEDICATED_IDLE_TRANSACTION_TIMEOUT_MILLIS = 5_000

/** An unused connection is closed after this time. */
const IDLE_CONNECTION_TIMEOUT = "60 seconds"

/**
 * The largest row that the client accepts. A row with two examples holds two inputs and two answers of 4 MiB each, and
 * a number such as 1e20 takes five times as many bytes in the database as in the request. A larger row closes its
 * connection, together with the statements of other callers that are pipelined on it.
 */
const MAX_MESSAGE_BYTES = 128 * 2 ** 20

/** How to reach the database, and the resources that one process may use there. */
export interface DatabaseOptions {
  /** `postgres://…`; PostgreSQL 15 or newer. */
  readonly url: Redacted.Redacted
  /**
   * The same database without the connection pooler that `url` leads to, such as PgBouncer in transaction mode. LISTEN, dedicated pools and
   * migrations use it. Undefined: `url` leads to the server itself.
   */
  readonly directUrl?: Redacted.Redacted | undefined
  /** Connections of the pool, including those reserved by transactions and listeners. Default 12. */
  readonly maxConnections?: number
  /**
   * Statement timeout in milliseconds. A longer statement is cancelled, and the request gets 503. Default 10,000. A
   * transaction may pause for as long between two statements: if its connection dies silently, the server keeps its row
   * locks until then.
   */
  readonly statementTimeoutMillis?: number
}

/** After how much silence a connection with these settings is closed, in milliseconds. */
export const responseDeadlineMillis = ({ settings }: ConnectionGroup): number =>
  Number(settings["statement_timeout"] ?? STATEMENT_TIMEOUT_MILLIS) + RESPONSE_MARGIN_MILLIS

/** A client whose transactions are counted and limited per organization, and whose dead connections are closed. */
const layerLimited = (
  config: PgClient.PgPoolConfig,
  group: ConnectionGroup,
  sharedWith?: SqlClient.SqlClient,
  onClose?: () => void
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError.SqlError> =>
  PgClient.layerFrom(
    Effect.map(makeClient(config, group, responseDeadlineMillis(group), onClose), (client) =>
      inGroup(limitTransactions(client, sharedWith), group)
    )
  )

/** Settings of every session, whether or not a connection pooler shares it between clients. */
const settingsOf = (options: DatabaseOptions): Readonly<Record<string, string>> => {
  const statementTimeout = String(options.statementTimeoutMillis ?? STATEMENT_TIMEOUT_MILLIS)
  return {
    // Every statement uses an index. A plan made while a table was empty must not scan the table once it has grown, until the next
    // ANALYZE: that took seconds. For a statement without an index, the cost penalty alone would start JIT compilation.
    enable_seqscan: "off",
    jit: "off",
    statement_timeout: statementTimeout,
    lock_timeout: String(LOCK_TIMEOUT_MILLIS),
    idle_in_transaction_session_timeout: statementTimeout,
    timezone: "UTC"
  }
}

/**
 * The client that all services share. Statements outside transactions are pipelined over the connections of the pool; a
 * transaction, a stream and a listener each reserve a connection.
 *
 * Through a connection pooler, every statement is parsed each time, because a transaction pooler gives each transaction another session, which
 * does not have the statements that were prepared before. Nor can the sessions have settings of this client: `preparePooler` makes them
 * defaults of the role.
 */
export const layer = (
  options: DatabaseOptions
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError.SqlError> => {
  const settings = settingsOf(options)
  const pool = {
    keepAlive: KEEP_ALIVE,
    // Unique per process: metrics count the process's own connections by it.
    applicationName: `countersign ${uuidV7Hex().slice(-8)}`,
    maxConnections: options.maxConnections ?? MAX_CONNECTIONS,
    connectTimeout: "5 seconds",
    idleTimeout: IDLE_CONNECTION_TIMEOUT,
    multiplex: true,
    // A slow statement delays at most this many others (head-of-line blocking).
    multiplexConcurrency: 16,
    maxMessageSize: MAX_MESSAGE_BYTES
  } satisfies PgClient.PgPoolConfig
  const direct: PgClient.PgPoolConfig = {
    ...pool,
    url: options.directUrl ?? options.url,
    startupParameters: {
      ...settings,
      tcp_keepalives_idle: String(SERVER_KEEP_ALIVE.idle),
      tcp_keepalives_interval: String(SERVER_KEEP_ALIVE.interval),
      tcp_keepalives_count: String(SERVER_KEEP_ALIVE.count)
    }
  }
  const usesPooler = options.directUrl !== undefined
  const pooled: PgClient.PgPoolConfig = {
    ...pool,
    url: options.url,
    // The same for all processes: before a session serves a client with another name, PgBouncer sends a `SET`, and if that has no response,
    // PgBouncer 1.18 keeps the session in its pool forever, also after the client has gone.
    applicationName: "countersign",
    prepare: false,
    // The only setting that every pooler passes on.
    startupParameters: { timezone: "UTC" }
  }
  const shared = usesPooler ? pooled : direct
  return Layer.unwrap(
    Effect.map(makeConnectionGroup({ shared, direct, usesPooler, settings }), (group) =>
      layerLimited(shared, group)
    )
  )
}

/**
 * A second client for the same database with a pool of its own, for background work that must not wait for callers' transactions, nor delay
 * them. Its transactions share the counts and limits of the current client.
 *
 * - It does not pipeline. Pipelining fills the first connection before it uses the next, so a read would wait behind another statement's
 *   commit, and a statement that takes too long could not be cancelled alone.
 * - It has no lock time-out: a statement waits for a row lock until its statement time-out.
 * - Its transactions pause for 5 s at most.
 * - Its connections do not pass the pooler of the current client. `onClose` runs when one of them has closed.
 */
export const layerDedicatedPool = (
  maxConnections: number,
  onClose?: () => void
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError.SqlError, PgClient.PgClient> =>
  Layer.unwrap(
    Effect.map(PgClient.PgClient, (client) => layerDedicatedPoolOf(client, maxConnections, onClose))
  )

const layerDedicatedPoolOf = (client: SqlClient.SqlClient, maxConnections: number, onClose?: () => void) => {
  const group = groupOf(client)
  return layerLimited(
    {
      ...group.direct,
      maxConnections,
      multiplex: false,
      startupParameters: {
        ...group.direct.startupParameters,
        lock_timeout: "0",
        idle_in_transaction_session_timeout: String(DEDICATED_IDLE_TRANSACTION_TIMEOUT_MILLIS)
      }
    },
    group,
    client,
    onClose
  )
}

/** Runs an effect on a connection that does not pass a pooler: the current client's, or one of its own if the current client uses a pooler. */
export const onDirectConnection = <A, E, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError.SqlError, R | SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    groupOf(sql).usesPooler ? Effect.provide(self, layerDedicatedPoolOf(sql, 1)) : self
  )
