/**
 * A Citus cluster as the database: PostgreSQL with an extension that spreads the rows of organizations over several servers. The service
 * connects to its coordinator only.
 */
import { Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { LOCAL_TABLES, REFERENCE_TABLES } from "./Cluster/tableKinds.ts"

/** The oldest version of the extension that the tests have run on. */
const OLDEST_VERSION = "13.2"

/** The group of the coordinator in the cluster's tables. */
const COORDINATOR_GROUP = 0

/** The table whose placement all distributed tables share, so that an organization's rows stay together when they move. */
const FIRST_TABLE = "agent_sessions"

/** The database is a cluster that cannot be used as it is. */
export class ClusterUnusable extends Schema.TaggedError<ClusterUnusable>()("ClusterUnusable", {
  reason: Schema.String
}) {
  override get message(): string {
    return this.reason
  }
}

/** The database's description of its cluster. */
export interface ClusterFacts {
  /** The version of the extension, such as `13.2-1`. */
  readonly version: string
  /** The group of the node that the connection leads to. */
  readonly group: number
  /** The name by which the other nodes reach the coordinator; null if none was set. */
  readonly host: string | null
  /** The names of the workers. */
  readonly workers: ReadonlyArray<string>
}

const isOlder = (version: string): boolean => {
  const [major = 0, minor = 0] = version.split(/\D/).map(Number)
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_VERSION.split(".").map(Number)
  return major < oldestMajor || (major === oldestMajor && minor < oldestMinor)
}

/** Names that each machine takes for itself. */
const LOOPBACK = /^(localhost|127\..*|::1)$/

/** Why the service cannot use this cluster; undefined if it can. */
export const refusalOf = ({ group, host, version, workers }: ClusterFacts): string | undefined => {
  if (isOlder(version)) {
    return `The database has Citus ${version}, but countersign needs ${OLDEST_VERSION} or newer: update the extension on every node`
  }
  if (group !== COORDINATOR_GROUP) {
    return "DATABASE_URL leads to a worker of a Citus cluster: set it to the address of the cluster's coordinator"
  }
  if (host === null || (LOOPBACK.test(host) && !workers.every((name) => LOOPBACK.test(name)))) {
    return (
      "The nodes of the Citus cluster have no address of its coordinator: run SELECT citus_set_coordinator_host('…') on the coordinator, " +
      "with a name by which the workers reach it"
    )
  }
  return undefined
}

/** The kind of a client's database. It does not change, so each client queries it once. */
const known = new WeakMap<SqlClient.SqlClient, boolean>()

/** Whether the database is a Citus cluster. */
export const isCluster = (sql: SqlClient.SqlClient): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    const isKnown = known.get(sql)
    if (isKnown !== undefined) return Effect.succeed(isKnown)
    return sql`SELECT 1 FROM pg_extension WHERE extname = 'citus'`.pipe(
      Effect.map((rows) => rows.length > 0),
      Effect.tap((clustered) => Effect.sync(() => known.set(sql, clustered))),
      Effect.orDie
    )
  })

/**
 * A lock of rows of an organization, for a transaction that then writes on the strength of it. On a cluster the organization stays on its
 * node until the transaction ends. A row lock would stay behind on the node that an organization leaves. Citus lets no organization leave
 * that the transaction has written to, and an update of no row is such a write.
 */
export const lockOnNode = <A, E, R>(
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  lock: Effect.Effect<A, E, R>
): Effect.Effect<A, E | SqlError.SqlError, R> =>
  Effect.flatMap(isCluster(sql), (clustered) =>
    clustered
      ? Effect.andThen(
          sql`UPDATE agent_sessions SET shared = shared WHERE org_id = ${org_id} AND session_id = ''`,
          lock
        )
      : lock
  )

/** `isCluster` that fails if the service cannot use the cluster as it is. */
export const requireUsableCluster = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  if (!(yield* isCluster(sql))) return false
  const [facts] = yield* sql<ClusterFacts>`
    SELECT
      (SELECT extversion FROM pg_extension WHERE extname = 'citus') AS version,
      (SELECT groupid FROM pg_dist_local_group) AS group,
      (SELECT nodename FROM pg_dist_node WHERE groupid = ${COORDINATOR_GROUP}::int LIMIT 1) AS host,
      ARRAY(SELECT nodename FROM pg_dist_node WHERE groupid <> ${COORDINATOR_GROUP}::int) AS workers
  `
  const reason = facts === undefined ? undefined : refusalOf(facts)
  if (reason !== undefined) return yield* new ClusterUnusable({ reason })
  return true
})

/** Marks of tables in `pg_dist_partition`. A table with a foreign key to a reference table has a row there too, before it is distributed. */
const REFERENCE = "t"
const DISTRIBUTED = "h"

/** Whether the tables are distributed. In a restored dump none is, although it has every migration. */
export const isDistributed = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql`
      SELECT 1
      FROM pg_dist_partition
      WHERE logicalrelid = to_regclass(${FIRST_TABLE}::text) AND partmethod = ${DISTRIBUTED}
    `,
    (rows) => rows.length > 0
  )

/**
 * Distributes the tables that a migration has added, or a restored dump has with their rows; in a transaction. Tables with foreign keys follow
 * the ones that these name.
 */
export const distributeTables = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  // With parallel connections a transaction cannot make reference tables and then tables that refer to them.
  yield* sql`SELECT set_config('citus.multi_shard_modify_mode', 'sequential', true)`
  for (const table of REFERENCE_TABLES) {
    yield* sql`
      SELECT create_reference_table(${table}::text::regclass)
      WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = ${table}::text::regclass AND repmodel = ${REFERENCE})
    `
  }
  const tables = yield* sql<{ readonly name: string }>`
    SELECT c.relname::text AS name
    FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace
      AND c.relkind IN ('r', 'p')
      AND NOT c.relispartition
      AND NOT c.relname = ANY(${[...LOCAL_TABLES, ...REFERENCE_TABLES]}::text[])
      AND NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = c.oid AND p.partmethod = ${DISTRIBUTED})
    ORDER BY
      c.relname <> ${FIRST_TABLE},
      (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f'),
      c.relname
  `
  for (const { name } of tables) {
    yield* sql`
      SELECT create_distributed_table(${name}::text::regclass, 'org_id', colocate_with => ${name === FIRST_TABLE ? "none" : FIRST_TABLE}::text)
    `
  }
  const keyless = yield* sql<{ readonly name: string }>`
    SELECT c.relname::text AS name
    FROM pg_dist_partition p
      JOIN pg_class c ON c.oid = p.logicalrelid
    WHERE p.partmethod = ${DISTRIBUTED}
      AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
  `
  for (const { name } of keyless) yield* identifyRows(sql, name)
  // The rows of a restored dump were copied to the nodes. Citus leaves the originals on the coordinator, where no statement reads them.
  yield* sql`
    SELECT truncate_local_data_after_distributing_table(logicalrelid)
    FROM pg_dist_partition
    WHERE partmethod = ${DISTRIBUTED} AND pg_relation_size(logicalrelid) > 0
  `
})

/** Lets an organization's rows of a table without a primary key move to another node while they are written: whole rows identify them. */
export const identifyRows = (sql: SqlClient.SqlClient, table: string) =>
  sql.unsafe(`ALTER TABLE ${table} REPLICA IDENTITY FULL`)
