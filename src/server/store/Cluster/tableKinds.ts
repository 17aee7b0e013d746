/**
 * Where the rows of each table are if the database is a Citus cluster, which spreads organizations over several servers.
 *
 * Every table but the ones listed here is distributed by `org_id`: all rows of an organization are on one node. A statement that names one
 * organization runs there whole, with PostgreSQL's locks and transactions. Primary keys and unique indexes of distributed tables contain
 * `org_id`.
 */

/**
 * Tables that every node has whole, because they are read without an organization: who calls, and for what organization. They are small, and
 * a write to one waits for all nodes. Tables with foreign keys follow the ones that these name.
 */
export const REFERENCE_TABLES: ReadonlyArray<string> = [
  "organizations",
  "api_keys",
  "api_key_uses",
  "people",
  "console_sessions",
  "email_addresses",
  "email_verification_links"
]

/** Tables that only the coordinator has: the replicas' leases, the keys of secrets, used sign-ins, the migrations. */
export const LOCAL_TABLES: ReadonlyArray<string> = [
  "delivery_leases",
  "delivery_owners",
  "delivery_shards",
  "master_keys",
  "schema_migrations",
  "used_sign_ins"
]
