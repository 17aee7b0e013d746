import type { PgConnection } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import type { OrgId } from "../../../src/domain/Ids.ts"

/** A table whose rows grow in number for as long as an organization uses the service. */
interface GrowingTable {
  readonly name: string
  /** The rows that are copied. Default: all. */
  readonly where?: string
  /** Most copies, where the service limits the rows of this kind. */
  readonly atMost?: number
  /** Values of columns in copy `n`, other than those that follow from the column's type. */
  readonly columns?: Readonly<Record<string, string>>
}

const digestOf = (column: string) => `sha256(convert_to(encode(${column}, 'hex') || n, 'UTF8'))`

/** Copies of records that an organization makes by hand. */
const BY_HAND = 100_000

/** The fewest rows of a growing table after `multiplyRows`. */
export const fewestRows = (count: number): number => Math.min(count, 9_900)

/** The tables that grow. The others are limited, such as API keys, or have a row a day, such as the counters. */
const growing: ReadonlyArray<GrowingTable> = [
  { name: "agent_sessions", columns: { closed_at: "coalesce(closed_at, created_at) - n * interval '1 ms'" } },
  { name: "session_events" },
  { name: "search_documents" },
  { name: "governed_steps", where: "decision <> 'pending'" },
  { name: "governed_steps", where: "decision = 'pending'", atMost: 1_000 },
  { name: "approvals", where: "status <> 'pending'" },
  { name: "approvals", where: "status = 'pending'", atMost: 1_000 },
  { name: "approval_messages" },
  { name: "reviewer_answers" },
  { name: "approval_events" },
  { name: "grants", atMost: BY_HAND, columns: { ended_at: "created_at", end_reason: "'revoked'" } },
  // As many as an organization may have.
  { name: "budget_counters", atMost: 99_000, columns: { counter: "counter || n" } },
  { name: "coding_calls", atMost: BY_HAND },
  { name: "runs" },
  { name: "run_metadata" },
  { name: "run_reviews" },
  { name: "feedback", where: "status <> 'staged'" },
  {
    name: "feedback",
    where: "status = 'staged'",
    // With the originals, as many as a task may have.
    atMost: 9_990,
    columns: { input_digest: `encode(${digestOf("decode(input_digest, 'hex')")}, 'hex')` }
  },
  {
    name: "dataset_examples",
    columns: { input_digest: digestOf("input_digest"), ordinal: "ordinal + n * 10" }
  },
  { name: "comparisons", atMost: BY_HAND },
  { name: "comparison_results", atMost: BY_HAND },
  { name: "releases", atMost: BY_HAND },
  { name: "deletions", atMost: BY_HAND, where: "target_id IS NULL" },
  { name: "audit_log" },
  { name: "audit_chain", columns: { position: "position + n * 10000::bigint" } },
  { name: "deliveries", where: "status <> 'pending'" },
  { name: "delivery_attempts", columns: { started_at: "started_at - n * interval '1 us'" } },
  // The queue of an organization is limited.
  { name: "telemetry_batches", atMost: 9_900 },
  { name: "idempotency_keys", columns: { key: "key || n" } }
]

/** Names of the tables that grow. */
export const growingTables: ReadonlySet<string> = new Set(growing.map(({ name }) => name))

/** Prefixes of the ids that differ in each copy. The copies have the organization, keys, tasks, endpoints and destinations of the original. */
const COPIED = [
  "ses",
  "apr",
  "evt",
  "grt",
  "run",
  "fbk",
  "exm",
  "cmp",
  "rel",
  "del",
  "aud",
  "ndl",
  "tdl",
  "clm",
  "rva"
]

/** `id` of copy `n`: created so many milliseconds earlier. */
export const idOfCopy = (id: string, n: number): string =>
  COPIED.includes(id.slice(0, 3))
    ? id.slice(0, 4) +
      (Number.parseInt(id.slice(4, 16), 16) - n).toString(16).padStart(12, "0") +
      id.slice(16)
    : id

const idInSql = (column: string) => `
  CASE WHEN left(${column}, 4) = ANY ('{${COPIED.map((prefix) => `${prefix}_`).join(",")}}')
    THEN left(${column}, 4) || lpad(to_hex(('x' || substr(${column}, 5, 12))::bit(48)::bigint - n), 12, '0') || substr(${column}, 17)
    ELSE ${column}
  END`

const Columns = Schema.Array(Schema.Struct({ name: Schema.String, type: Schema.String }))

/** The value of a column in copy `n`. */
const valueOf = (name: string, type: string): string => {
  const column = `"${name}"`
  if (name === "trace_id") return `md5(${column} || n)`
  if (type === "timestamp with time zone") return `${column} - n * interval '1 ms'`
  return type === "text" && name.endsWith("_id") ? idInSql(column) : column
}

/**
 * Copies the rows of an organization until it has about `count` of each kind, one millisecond apart, older than the originals. Rows that refer to each
 * other in the originals do so in each copy.
 */
export const multiplyRows = Effect.fnUntraced(function* (
  connection: PgConnection.PgConnection,
  org_id: OrgId,
  count: number
) {
  // Without triggers: the copies of audit entries have a chain of their own.
  yield* connection.query("SET session_replication_role = replica")
  for (const { atMost = count, columns = {}, name, where = "true" } of growing) {
    const described = yield* connection.query(
      `SELECT attname::text AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
       WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
      [name]
    )
    const all = Schema.decodeUnknownSync(Columns)(described.rows)
    const values = all.map((column) => columns[column.name] ?? valueOf(column.name, column.type))
    yield* connection.query(
      `INSERT INTO ${name} (${all.map((column) => `"${column.name}"`).join(", ")})
       SELECT ${values.join(", ")}
       FROM (SELECT * FROM ${name} WHERE org_id = $1 AND ${where}) AS originals,
         generate_series(1, (SELECT least($2::int, $3::int) / greatest(count(*), 1) FROM ${name} WHERE org_id = $1 AND ${where})::int) AS n`,
      [org_id, count, atMost]
    )
  }
  yield* connection.query("VACUUM (ANALYZE)")
})
