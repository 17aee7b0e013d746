import { type Array as Arr, Clock, Effect, type Redacted, Result } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { StoreSettings } from "../../server/config/Settings.ts"
import { ENGINE_CONNECTIONS } from "../../server/delivery/Delivery.ts"
import * as KeyRing from "../../server/secrets/KeyRing.ts"
import { isForbidden, readMasterKey } from "../../server/secrets/MasterKeyFile.ts"
import { findDifference, listUsedKeyIds } from "../../server/secrets/MasterKeys.ts"
import { keyIdOf } from "../../server/secrets/SecretBox/Sealed.ts"
import { sealedColumns } from "../../server/secrets/SecretBox/sealedColumns.ts"
import { countOldSecrets, MAX_COUNTED_SECRETS } from "../../server/secrets/oldSecrets.ts"
import { MAX_CONNECTIONS } from "../../server/store/Database.ts"
import { sessionDifferences } from "../../server/store/Database/preparePooler.ts"
import { hasTables } from "../../server/store/Database/schemaVersion.ts"
import { describeDatabaseError } from "../../server/store/databaseErrors.ts"
import { embeddedServerUrl, embeddedStoreExists, serverLogPath } from "../../server/store/EmbeddedPostgres.ts"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { readServerConnections } from "../../server/store/serverConnections.ts"
import { MAX_COUNTED_APPROVALS, readPendingApprovals } from "../../server/approvals/pendingApprovals.ts"
import { migrations } from "../../server/store/migrations/index.ts"
import { databaseAdvice } from "../errorMessage.ts"
import { failure, type Finding, ok, plural, skipped, warning } from "./Check.ts"
import { formatBytes } from "./machineChecks.ts"

/** The URL of the database, or why there is none to connect to. Starts and creates nothing. */
export const findDatabase = (store: StoreSettings): Effect.Effect<Redacted.Redacted | Finding> => {
  if (store.kind === "external") return Effect.succeed(store.url)
  return Effect.gen(function* () {
    if (!(yield* embeddedStoreExists(store.dataDir))) {
      return skipped(`there is no database in ${store.dataDir} yet; the first start creates it`)
    }
    return yield* embeddedServerUrl(store.dataDir)
  }).pipe(
    Effect.catch(({ phrase }) =>
      Effect.succeed(
        failure(
          phrase,
          "Run the command as root or as the account of the service, or correct COUNTERSIGN_DATA_DIR."
        )
      )
    )
  )
}

/** The oldest supported PostgreSQL. */
const MIN_SERVER_VERSION = 150_000

/** The meaning of a failed connection or statement. */
export const databaseFinding = (store: StoreSettings, error: SqlError.SqlError): Finding => {
  const code = errnoCode(error.reason.cause)
  if (store.kind === "embedded" && (code === "ENOENT" || code === "ECONNREFUSED")) {
    return warning(
      "the service does not run: its embedded PostgreSQL is stopped",
      `Start the service, if it should run; the reason is in its log, or in ${serverLogPath(store.dataDir)}.`
    )
  }
  const advice = databaseAdvice(error)
  return failure(
    describeDatabaseError(error),
    advice === undefined
      ? "Look at the log of PostgreSQL."
      : `${advice.charAt(0).toUpperCase()}${advice.slice(1)}.`
  )
}

/** The server accepts connections and writes. */
export const checkServer = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* sql<{
    readonly version: string
    readonly number: number
    readonly standby: boolean
    readonly readOnly: boolean
  }>`
    SELECT
      current_setting('server_version') AS version,
      current_setting('server_version_num')::int AS number,
      pg_is_in_recovery() AS standby,
      current_setting('transaction_read_only') = 'on' AS "readOnly"
  `
  if (server === undefined) return failure("the server has no version", "Look at the log of PostgreSQL.")
  const version = `PostgreSQL ${server.version}`
  if (server.number < MIN_SERVER_VERSION) {
    return failure(version, "Upgrade to PostgreSQL 15 or newer.")
  }
  if (server.standby || server.readOnly) {
    return failure(
      `${version} is read-only${server.standby ? ": a standby" : ""}`,
      "Set DATABASE_URL to the primary server."
    )
  }
  return ok(`${version} accepts writes`)
})

/** Whether sessions have the settings of the service, which a connection pooler may keep from them. */
export const checkSessions = (store: StoreSettings) =>
  Effect.gen(function* () {
    const hasPooler = store.kind === "external" && store.directUrl !== undefined
    const differences = yield* sessionDifferences
    if (differences.length === 0) {
      return ok(
        hasPooler
          ? "sessions of the connection pooler have the settings of the service"
          : "sessions have the settings of the service"
      )
    }
    return failure(
      `sessions have other settings: ${differences.join(", ")}`,
      hasPooler
        ? "Start the service, or run `countersign migrate`: both set defaults of the role. Then reconnect the sessions of the pooler."
        : "DATABASE_URL leads through a connection pooler: set COUNTERSIGN_DIRECT_DATABASE_URL to the same database without it."
    )
  })

/** The numbers of the applied migrations, and the names of the pending ones; undefined: no tables. */
export const readMigrations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  if (!(yield* hasTables(sql))) return undefined
  const rows = yield* sql<{ readonly id: number }>`SELECT migration_id::int AS id FROM schema_migrations`
  const applied = new Set(rows.map(({ id }) => id))
  const known = new Map(Object.keys(migrations).map((name) => [Number.parseInt(name, 10), name] as const))
  const pending = [...known].flatMap(([id, name]) => (applied.has(id) ? [] : [name])).toSorted()
  return { applied, known, pending }
})

/** Migrations of this version that the database lacks, and migrations that this version does not know. */
export const checkMigrations = Effect.gen(function* () {
  const state = yield* readMigrations
  if (state === undefined) {
    return warning("the database has no tables yet", "Start the service once, or run `countersign migrate`.")
  }
  const { applied, known, pending } = state
  const unknown = [...applied].filter((id) => !known.has(id)).toSorted((a, b) => a - b)
  const version = `schema version ${Math.max(0, ...applied)}`
  if (pending.length > 0) {
    return failure(
      `${version}: ${plural(pending.length, "migration is", "migrations are")} pending (${pending[0]}${pending.length > 1 ? " and later" : ""})`,
      "Run `countersign migrate`, or start this version of the service."
    )
  }
  return unknown.length > 0
    ? warning(
        `${version}: this version does not know ${plural(unknown.length, "migration", "migrations")} (${unknown.join(", ").slice(0, 100)})`,
        "A newer version migrated the database: finish its roll-out, and use its command line."
      )
    : ok(`${version}, all ${known.size} migrations are applied`)
})

/** Differences between this machine's clock and the database's that are worth a look, and that break signatures, in milliseconds. */
const CLOCK_WARNING_MILLIS = 1_000
const CLOCK_FAILURE_MILLIS = 60_000

const CLOCK_SAMPLES = 3

/** The clock of this machine against the database's, by the quickest of a few round trips. */
export const checkClock = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* Clock.Clock
  let best = { roundTrip: Number.POSITIVE_INFINITY, offset: 0 }
  for (let sample = 0; sample < CLOCK_SAMPLES; sample++) {
    const before = clock.currentTimeMillisUnsafe()
    const [row] = yield* sql<{ readonly now: Date }>`SELECT clock_timestamp() AS now`
    const after = clock.currentTimeMillisUnsafe()
    if (row === undefined || after - before >= best.roundTrip) continue
    best = { roundTrip: after - before, offset: (before + after) / 2 - row.now.getTime() }
  }
  const millis = Math.max(0, Math.abs(best.offset) - best.roundTrip / 2)
  const shown =
    millis < CLOCK_WARNING_MILLIS ? `${Math.round(millis)} ms` : `${(millis / 1_000).toFixed(1)} s`
  const summary = `this machine's clock is ${shown} ${best.offset < 0 ? "behind" : "ahead of"} the database's`
  if (millis < CLOCK_WARNING_MILLIS) return ok(`the clocks differ by ${shown}`)
  const advice = "Synchronize the clocks of both machines (NTP)."
  return millis < CLOCK_FAILURE_MILLIS ? warning(summary, advice) : failure(summary, advice)
})

/** Connections that one replica opens at most. */
const REPLICA_CONNECTIONS = MAX_CONNECTIONS + ENGINE_CONNECTIONS

/** Connections to the server against the strictest limit that applies to the role of the service, and running replicas. */
export const checkConnections = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const row = yield* readServerConnections(sql)
  if (row === undefined) return failure("the server shows no connections", "Look at the log of PostgreSQL.")
  const { limit, used } = row
  const summary = `${used} of ${limit} connections are used`
  return limit - used < REPLICA_CONNECTIONS
    ? warning(
        `${summary}; a replica opens up to ${REPLICA_CONNECTIONS}`,
        "Raise max_connections of the server (or the limit of the role or database), or run fewer replicas."
      )
    : ok(summary)
})

/** The replicas that have sent a heartbeat. */
export const checkReplicas = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly running: number }>`
    SELECT count(*)::int AS running
    FROM delivery_owners
    WHERE lease_until > clock_timestamp()
  `
  const running = row?.running ?? 0
  return running === 0
    ? warning("no replica of the service runs", "Start the service, if it should run.")
    : ok(plural(running, "replica runs", "replicas run"))
})

/** Age at which transactions of the oldest table approach the wraparound, at which PostgreSQL stops accepting writes. */
const OLD_XID_AGE = 1_000_000_000

/** How long a transaction may run until it is worth a look: a migration waits for it, and vacuum keeps rows that it may see. */
const LONG_TRANSACTION_SECONDS = 300

/** The longest application name that a summary shows. */
const MAX_APPLICATION_LENGTH = 40

/** The size of the database, and what keeps it from being vacuumed. */
export const checkSize = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly bytes: number; readonly age: number }>`
    SELECT
      pg_database_size(current_database())::float8 AS bytes,
      (SELECT age(datfrozenxid)::int FROM pg_database WHERE datname = current_database()) AS age
  `
  if (row === undefined) return failure("the server shows no size", "Look at the log of PostgreSQL.")
  const summary = `the database has ${formatBytes(row.bytes)}`
  if (row.age > OLD_XID_AGE) {
    return failure(
      `${summary}, and its oldest transaction id is ${row.age} transactions old`,
      "Find out why autovacuum does not freeze the tables: at 2,000,000,000 PostgreSQL accepts no more writes."
    )
  }
  const long = yield* sql<{ readonly pid: number; readonly application: string; readonly seconds: number }>`
    SELECT pid, coalesce(application_name, '') AS application,
      extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds
    FROM pg_stat_activity
    WHERE datname = current_database()
      AND backend_type = 'client backend'
      AND pid <> pg_backend_pid()
      AND xact_start < clock_timestamp() - make_interval(secs => ${LONG_TRANSACTION_SECONDS})
    ORDER BY xact_start
  `
  if (long.length === 0) return ok(summary)
  const named = long.slice(0, MAX_NAMED).map(({ application, pid, seconds }) => {
    const name = application === "" ? "no application name" : application.slice(0, MAX_APPLICATION_LENGTH)
    return `pid ${pid} (${name}) for ${plural(Math.floor(seconds / 60), "minute", "minutes")}`
  })
  const others = long.length - named.length
  return warning(
    `${summary}, and ${plural(long.length, "transaction runs", "transactions run")}: ${named.join(", ")}${others > 0 ? `, and ${others} more` : ""}`,
    "End it with SELECT pg_terminate_backend(pid) if nobody needs it: a migration would wait for it, and so does vacuum."
  )
})

/** The configured master keys; undefined: the embedded database has no key yet. */
const masterKeysOf = Effect.fnUntraced(function* (store: StoreSettings) {
  if (store.masterKeys !== undefined) return store.masterKeys
  const key = store.kind === "embedded" ? yield* readMasterKey(store.dataDir) : undefined
  return key === undefined ? undefined : ([key] satisfies Arr.NonEmptyReadonlyArray<Redacted.Redacted>)
})

/** The most keys or transactions that a summary names. */
const MAX_NAMED = 3

/** The most late deliveries that are counted. */
const MAX_COUNTED = 1_000

/** Whether every stored secret can be unsealed, and how many were sealed with an older key. Changes nothing, unlike the check of `serve`. */
export const checkKeys = (store: StoreSettings) =>
  Effect.gen(function* () {
    const texts = yield* Effect.result(masterKeysOf(store))
    if (Result.isFailure(texts)) {
      // The service read the file before it changed from root to its own account.
      if (isForbidden(texts.failure)) return skipped(texts.failure.message)
      return failure(texts.failure.message, "Correct the file, as the account of the service.")
    }
    if (texts.success === undefined) {
      return skipped("there is no master key yet; the first start creates it")
    }
    const parsed = KeyRing.fromTexts(texts.success)
    if (Result.isFailure(parsed)) return failure(parsed.failure.message, "Correct COUNTERSIGN_MASTER_KEY.")
    const { byId, primary } = parsed.success
    const sql = yield* SqlClient.SqlClient
    if (!(yield* hasTables(sql))) return skipped("the database has no tables yet")
    const unreadable: Array<string> = []
    const missing = new Set<string>()
    let old = 0
    for (const sealed of sealedColumns) {
      const count = yield* countOldSecrets(sql, sealed, { primary, keys: [...byId.values()] })
      old += count.old
      for (const hex of count.foreign) {
        unreadable.push(`${sealed.table}.${sealed.column}`)
        missing.add(keyIdOf(Buffer.from(hex, "hex")) ?? "unknown: damaged values")
      }
    }
    if (unreadable.length > 0) {
      return failure(
        `secrets in ${[...new Set(unreadable)].join(", ")} were sealed with a key that is not configured (${[...missing].slice(0, MAX_NAMED).join(", ")})`,
        "Add the key after the first one in COUNTERSIGN_MASTER_KEY, or restore the file master-key of the data directory."
      )
    }
    const differs = findDifference([primary.id, ...byId.keys()], yield* listUsedKeyIds)
    if (differs !== undefined) {
      return failure(
        `the database was first used with master key ${differs.key_id}, but ${primary.id} is configured`,
        "Set COUNTERSIGN_MASTER_KEY to that key, or list it after the new one; `countersign config --check` says what to do if it is lost."
      )
    }
    const ring = `${byId.size} ${byId.size === 1 ? "key" : "keys"} (${primary.id} seals)`
    return old > 0
      ? warning(
          `${ring}; ${old >= MAX_COUNTED_SECRETS ? "at least " : ""}${plural(old, "secret is", "secrets are")} still sealed with an older key`,
          "Run `countersign keys rotate-master`, then remove the older keys."
        )
      : ok(`${ring}; every secret is sealed with it`)
  })

/** How long a due delivery may wait, in seconds. An idle service sends it at once. */
const LATE_SECONDS = 300

/** Deliveries that have been due for minutes, although their destination is not in cooldown. */
export const checkDeliveries = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly late: number; readonly seconds: number }>`
    SELECT count(*)::int AS late, coalesce(max(seconds), 0)::float8 AS seconds
    FROM (
      SELECT extract(epoch FROM clock_timestamp() - q.due_at) AS seconds
      FROM delivery_queue q
      LEFT JOIN delivery_destinations h ON h.org_id = q.org_id AND h.destination_id = q.destination_id
      WHERE q.due_at < clock_timestamp() - make_interval(secs => ${LATE_SECONDS})
        AND (h.cooldown_until IS NULL OR h.cooldown_until < clock_timestamp())
      LIMIT ${MAX_COUNTED}
    ) late
  `
  const { late, seconds } = row ?? { late: 0, seconds: 0 }
  return late === 0
    ? ok("no delivery is late")
    : warning(
        `${late >= MAX_COUNTED ? "at least " : ""}${plural(late, "delivery has", "deliveries have")} been due for up to ${plural(Math.floor(seconds / 60), "minute", "minutes")}`,
        "Start the service if it does not run; else look in its log and metrics for slow destinations, or for a database or processor at its limit."
      )
})

/** How long a destination may deliver nothing although spans wait, in seconds. */
const STUCK_SECONDS = 3_600

/** Organizations' collectors: only their number, and how many take nothing. */
export const checkCollectors = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly all: number; readonly cooling: number; readonly stuck: number }>`
    SELECT
      count(*)::int AS all,
      count(*) FILTER (WHERE h.cooldown_until > clock_timestamp())::int AS cooling,
      count(*) FILTER (
        WHERE d.waiting_spans > 0
          AND coalesce(d.last_delivered_at, d.created_at) < clock_timestamp() - make_interval(secs => ${STUCK_SECONDS})
      )::int AS stuck
    FROM telemetry_destinations d
    LEFT JOIN delivery_destinations h ON h.org_id = d.org_id AND h.destination_id = d.destination_id
  `
  const { all, cooling, stuck } = row ?? { all: 0, cooling: 0, stuck: 0 }
  if (all === 0) return skipped("no organization exports spans")
  return cooling + stuck === 0
    ? ok(plural(all, "organization exports", "organizations export") + " spans")
    : warning(
        `${plural(all, "organization exports", "organizations export")} spans; ${plural(cooling, "collector is", "collectors are")} in cooldown, ${stuck} took nothing for an hour although spans wait`,
        "Their organizations see the reason at their telemetry destination; check the machine's outgoing connections if it is most of them."
      )
})

/** How long an approval may wait until it is worth a look, in seconds. */
const OLD_APPROVAL_SECONDS = 86_400

/** The day of the counts tables that a time is in. */
const yesterday = "(clock_timestamp() AT TIME ZONE 'UTC')::date - 1"

/** Pending approvals, and approvals of today and yesterday that timed out. The counts are read organization by organization, by their index. */
export const checkApprovals = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { pending, seconds } = yield* readPendingApprovals(sql, sql.literal("clock_timestamp()"))
  const [row] = yield* sql<{ readonly undecided: number; readonly decided: number }>`
    SELECT
      coalesce(sum(closed) FILTER (WHERE outcome = 'timeout'), 0)::int AS undecided,
      coalesce(sum(closed) FILTER (WHERE outcome IN ('approved', 'rejected')), 0)::int AS decided
    FROM organizations o
    CROSS JOIN LATERAL (
      SELECT outcome, closed
      FROM approval_counts c
      WHERE c.org_id = o.org_id
        AND c.day >= ${sql.literal(yesterday)}
    ) AS counts
  `
  const { decided, undecided } = row ?? { decided: 0, undecided: 0 }
  const waiting =
    `${pending >= MAX_COUNTED_APPROVALS ? "at least " : ""}${plural(pending, "approval waits", "approvals wait")}` +
    (pending === 0 ? "" : `, the oldest for ${plural(Math.floor(seconds / 60), "minute", "minutes")}`)
  const summary = `${waiting}; since yesterday people decided ${decided}, and ${undecided} ran out undecided`
  return undecided > decided || seconds > OLD_APPROVAL_SECONDS
    ? warning(
        summary,
        "See who may decide and how they are notified: the console's inbox, the email addresses of reviewers, and the webhook endpoints."
      )
    : ok(summary)
})

/** Organizations' webhook endpoints: only their number, and how many get nothing; and the deliveries that failed for good. */
export const checkEndpoints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{
    readonly all: number
    readonly cooling: number
    readonly gone: number
  }>`
    SELECT
      count(*)::int AS all,
      count(*) FILTER (WHERE p.active AND h.cooldown_round > 0)::int AS cooling,
      count(*) FILTER (WHERE NOT p.active AND p.disabled_by_delivery IS NOT NULL)::int AS gone
    FROM notification_endpoints p
    LEFT JOIN delivery_destinations h ON h.org_id = p.org_id AND h.destination_id = p.endpoint_id
  `
  const [counted] = yield* sql<{ readonly failed: number }>`
    SELECT coalesce(sum(counts.failed), 0)::int AS failed
    FROM organizations o
    CROSS JOIN LATERAL (
      SELECT c.failed
      FROM delivery_counts c
      WHERE c.org_id = o.org_id
        AND c.day >= ${sql.literal(yesterday)}
        AND c.destination_id LIKE 'nep\_%'
    ) AS counts
  `
  const { all, cooling, gone } = row ?? { all: 0, cooling: 0, gone: 0 }
  const failed = counted?.failed ?? 0
  if (all === 0) return skipped("no organization has a webhook endpoint")
  const endpoints = plural(all, "webhook endpoint", "webhook endpoints")
  return cooling + gone + failed === 0
    ? ok(`${endpoints}; none fails, and no delivery has failed since yesterday`)
    : warning(
        `${endpoints}: ${cooling} in cooldown, ${gone} disabled by 410 Gone; ${plural(failed, "delivery", "deliveries")} of yesterday and today failed for good`,
        "The log names them (destination_id), and their organizations see the reason; check this machine's outgoing connections if it is most of them. Failed deliveries can be replayed."
      )
})
