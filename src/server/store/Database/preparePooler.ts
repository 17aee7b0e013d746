/**
 * Sessions behind a connection pooler. A transaction pooler lends each transaction another session, and refuses the settings that a client
 * sends for a session of its own. So the settings become defaults of the role in this database, over a direct connection:
 *
 * ```
 *   direct connection: same server, database and role? ──no──> PoolerMismatch
 *        │ yes
 *   defaults of the role are the settings? ──no──> ALTER ROLE CURRENT_USER IN DATABASE … SET …
 *        │ yes
 *   session of the pooler has the settings? ──no──> end that session, which is older than the defaults, and look at the next one
 *        │ yes                                           │ MAX_SESSIONS have other settings
 *      done                                        PoolerSettings
 * ```
 */
import { PgConnection } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { foldCase } from "../foldCase.ts"
import { groupOf } from "./ConnectionGroup.ts"

/** The key of the advisory lock of changed defaults: "cspo" in ASCII. PostgreSQL rejects one of two concurrent changes of one role. */
const DEFAULTS_LOCK = 0x6373706f

/** Sessions of the pooler that may be older than the defaults of the role: more than a pool usually has. */
const MAX_SESSIONS = 100

const DIRECT_URL = "COUNTERSIGN_DIRECT_DATABASE_URL"

/** Both URLs must lead to one database with one role. */
export class PoolerMismatch extends Schema.TaggedError<PoolerMismatch>()("PoolerMismatch", {
  what: Schema.Literals(["server", "database", "role"])
}) {
  override get message(): string {
    return `DATABASE_URL and COUNTERSIGN_DIRECT_DATABASE_URL lead to different ${this.what}s: set both to one database of one server with one role, the first through the pooler and the second without it`
  }
}

/** Sessions behind the pooler do not have the settings of the role. */
export class PoolerSettings extends Schema.TaggedError<PoolerSettings>()("PoolerSettings", {
  differences: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `the pooler of DATABASE_URL gives its sessions other settings than the defaults of the role (${this.differences.join(", ")}): remove them from the pooler, such as connect_query of PgBouncer, and reconnect its sessions (RECONNECT in its console)`
  }
}

/** A pooler is in front of a database that should be reached directly. */
export class PoolerUndeclared extends Schema.TaggedError<PoolerUndeclared>()("PoolerUndeclared", {
  variable: Schema.Literals(["DATABASE_URL", "COUNTERSIGN_DIRECT_DATABASE_URL"])
}) {
  override get message(): string {
    return this.variable === "DATABASE_URL"
      ? "DATABASE_URL leads through a connection pooler, which ignores the settings of sessions: set COUNTERSIGN_DIRECT_DATABASE_URL to the same database without the pooler"
      : "COUNTERSIGN_DIRECT_DATABASE_URL leads through a connection pooler: set it to the same database without the pooler"
  }
}

/** The address without the pooler cannot be used. */
export class DirectDatabaseFailed extends Schema.TaggedError<DirectDatabaseFailed>()("DirectDatabaseFailed", {
  cause: Schema.Defect()
}) {
  override get message(): string {
    return `cannot use the database of ${DIRECT_URL}`
  }
}

/** A standby, or a database whose transactions are read-only by default. */
export class DatabaseReadOnly extends Schema.TaggedError<DatabaseReadOnly>()("DatabaseReadOnly", {
  isStandby: Schema.Boolean
}) {
  override get message(): string {
    return this.isStandby
      ? "the server of DATABASE_URL is a read-only standby: set DATABASE_URL to the primary server, or to an address that follows it"
      : "the database of DATABASE_URL is read-only (default_transaction_read_only is on): turn that off, or set DATABASE_URL to a database that accepts writes"
  }
}

interface Session {
  readonly settings: ReadonlyMap<string, string>
  readonly server: string
  readonly database: string
  readonly role: string
  readonly standby: boolean
  readonly readOnly: boolean
}

/** The text of one statement, because it also runs on connections that no client has. */
const DESCRIBE = `
  SELECT
    (SELECT json_object_agg(${foldCase("name")}, setting)::text FROM pg_settings WHERE ${foldCase("name")} = ANY($1::text[])) AS settings,
    extract(epoch FROM pg_postmaster_start_time())::text AS server,
    current_database()::text AS database,
    session_user::text AS role,
    pg_is_in_recovery() AS standby,
    current_setting('transaction_read_only') = 'on' AS "readOnly"
`

const decodeSettings = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Record(Schema.String, Schema.String))
)

const describeSession = Effect.fnUntraced(function* (
  connection: PgConnection.PgConnection,
  names: ReadonlyArray<string>
): Effect.fn.Return<Session, SqlError.SqlError> {
  const { rows } = yield* connection.query(DESCRIBE, [names])
  const row = rows[0] ?? {}
  return {
    settings: new Map(Object.entries(decodeSettings(row["settings"]))),
    server: String(row["server"]),
    database: String(row["database"]),
    role: String(row["role"]),
    standby: row["standby"] === true,
    readOnly: row["readOnly"] === true
  }
})

/** The settings that a session lacks, as `statement_timeout is 0, not 10000`. */
const differencesOf = (
  settings: Readonly<Record<string, string>>,
  actual: ReadonlyMap<string, string>
): ReadonlyArray<string> =>
  Object.entries(settings).flatMap(([name, value]) =>
    actual.get(name) === value ? [] : [`${name} is ${actual.get(name) ?? "unset"}, not ${value}`]
  )

/**
 * Fails if the service cannot run on the database of the current client: it is read-only, or a connection pooler is in the way. Changes
 * nothing.
 */
export const requireUsableDatabase = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { direct, settings, usesPooler } = groupOf(sql)
  const session = yield* connected(direct, (connection) =>
    describeSession(connection, Object.keys(settings))
  ).pipe(
    Effect.mapError((error) => {
      if (!usesPooler) return error
      return isRefusedParameter(error)
        ? new PoolerUndeclared({ variable: DIRECT_URL })
        : new DirectDatabaseFailed({ cause: error })
    })
  )
  if (session.standby || session.readOnly) return yield* new DatabaseReadOnly({ isStandby: session.standby })
  if (differencesOf(settings, session.settings).length > 0) {
    return yield* new PoolerUndeclared({
      variable: usesPooler ? DIRECT_URL : "DATABASE_URL"
    })
  }
})

/** The settings that a session of the current client lacks, such as `statement_timeout is 0, not 10000`. Changes nothing. */
export const sessionDifferences = Effect.gen(function* () {
  const { settings, shared } = groupOf(yield* SqlClient.SqlClient)
  const { settings: actual } = yield* connected(shared, (connection) =>
    describeSession(connection, Object.keys(settings))
  )
  return differencesOf(settings, actual)
})

/** Whether a pooler refused to connect because it does not pass on a setting of the session. */
export const isRefusedParameter = (error: SqlError.SqlError): boolean =>
  error.reason.cause instanceof Error && /unsupported startup parameter/i.test(error.reason.cause.message)

/** Gives the sessions of the current client's pooler their settings. Does nothing without a pooler. */
export const preparePooler = Effect.gen(function* () {
  const { direct, settings, shared, usesPooler } = groupOf(yield* SqlClient.SqlClient)
  if (!usesPooler) return
  const names = Object.keys(settings)
  const behindPooler = connected(shared, (connection) => describeSession(connection, names))
  const own = yield* connected(direct, (connection) => describeSession(connection, names))
  const first = yield* behindPooler
  for (const what of ["server", "database", "role"] as const) {
    if (own[what] !== first[what]) return yield* new PoolerMismatch({ what })
  }
  // The operator may have given the pooler the settings, for a role that other applications use as well.
  if (differencesOf(settings, first.settings).length === 0) return
  if (yield* connected(direct, (connection) => setDefaults(connection, own.database, settings))) {
    yield* Effect.logInfo(
      `Set defaults of the role ${own.role} in the database ${own.database} for sessions behind the pooler: ${names.join(", ")}`
    )
  }
  let differences: ReadonlyArray<string> = []
  for (let sessions = 0; sessions < MAX_SESSIONS; sessions++) {
    differences = yield* connected(shared, (connection) => endIfDifferent(connection, settings))
    if (differences.length === 0) return
  }
  return yield* new PoolerSettings({ differences })
})

/** Runs `use` on a connection of its own, which is closed afterwards. */
const connected = <A, E>(
  config: PgConnection.Config,
  use: (connection: PgConnection.PgConnection) => Effect.Effect<A, E>
): Effect.Effect<A, E | SqlError.SqlError> =>
  Effect.scoped(Effect.flatMap(PgConnection.make({ ...config, multiplex: false }), use))

/** Sets the defaults of the connection's role that differ. Returns whether any did. */
const setDefaults = Effect.fnUntraced(function* (
  connection: PgConnection.PgConnection,
  database: string,
  settings: Readonly<Record<string, string>>
): Effect.fn.Return<boolean, SqlError.SqlError> {
  yield* connection.query("BEGIN")
  yield* connection.query("SELECT pg_advisory_xact_lock($1::bigint)", [DEFAULTS_LOCK])
  const { rows } = yield* connection.query(`
    SELECT ${foldCase("split_part(entry, '=', 1)")} AS name, substr(entry, strpos(entry, '=') + 1) AS value
    FROM pg_db_role_setting, unnest(setconfig) AS entry
    WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND setrole = (SELECT oid FROM pg_roles WHERE rolname = session_user)
  `)
  const current = new Map(rows.map((row) => [String(row["name"]), String(row["value"])]))
  const missing = Object.entries(settings).filter(([name, value]) => current.get(name) !== value)
  for (const [name, value] of missing) {
    yield* connection.query(
      `ALTER ROLE SESSION_USER IN DATABASE "${database.replaceAll('"', '""')}" SET ${name} TO '${value}'`
    )
  }
  yield* connection.query("COMMIT")
  return missing.length > 0
})

/**
 * The differences of the session that the pooler lends to this transaction. If there are any, the session ends, and the pooler opens a new
 * one with the defaults of the role. No other client uses the session meanwhile.
 */
const endIfDifferent = Effect.fnUntraced(function* (
  connection: PgConnection.PgConnection,
  settings: Readonly<Record<string, string>>
): Effect.fn.Return<ReadonlyArray<string>, SqlError.SqlError> {
  yield* connection.query("BEGIN")
  const session = yield* describeSession(connection, Object.keys(settings))
  const differences = differencesOf(settings, session.settings)
  yield* differences.length === 0
    ? connection.query("COMMIT")
    : Effect.exit(connection.query("SELECT pg_terminate_backend(pg_backend_pid())"))
  return differences
})
