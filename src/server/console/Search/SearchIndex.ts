/**
 * The words of approvals and sessions in `search_documents`.
 *
 * Nothing is written while agents work: a search indexes the records since the last one, newest first, and a background fiber the rest. Ids
 * sort by the time of their generation, which is before their commit, so that each range begins a little before the end of the last one.
 */
import { DateTime, Effect, Schema, Semaphore } from "effect"
import type { SqlClient } from "effect/sql"
import { type OrgId, SessionId, uuidTimePrefix } from "../../../domain/Ids.ts"
import { searchWords } from "../../../domain/searchWords.ts"
import { nextTurn } from "../../admission/LoopTurns.ts"
import { logFailure } from "../../observability/DatabaseOutage.ts"
import { textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import { StoreClock } from "../../store/StoreClock.ts"
import { atomic } from "../../store/transaction.ts"

/** The kinds with indexed words. */
export const indexedKinds = ["approval", "session"] as const
export type IndexedKind = (typeof indexedKinds)[number]

/** Records that one transaction indexes. Their texts have at most 2 MB, which are split into words within 30 ms. */
const BATCH_RECORDS = 250

/** Ids that one transaction looks at for records that are not indexed. */
const SCANNED_RECORDS = 4_000

/** Characters of a record's text that are split into words. */
const MAX_TEXT_LENGTH = 8_192

/** Transactions of a kind within a request. The rest is done in the background. */
const BATCHES_PER_SEARCH = 2

/** The most time between the generation of an id and its commit that is expected. */
const COMMIT_SECONDS = 15

/** How long a search relies on the indexing of the last one, in milliseconds: a typing person searches several times a second. */
const FRESH_MILLIS = 1_000

/** Pause between two background batches: other statements come first. */
const BACKGROUND_PAUSE = "20 millis"

/** Organizations that are indexed in the background at once, and the waiting ones. */
const BACKGROUND_ORGANIZATIONS = 1
const MAX_WAITING_ORGANIZATIONS = 1_000

/** The most ranges of a kind. Further ones are joined with the oldest. */
const MAX_RANGES = 8

const prefixes = { approval: "apr", session: "ses" } as const

/** The table of each kind, its id, and the SQL of the text that is searched. */
const sources = {
  approval: {
    table: "approvals",
    id: "approval_id",
    text: `concat_ws(' ', tool, action_class, step_id, left(arguments::text, ${MAX_TEXT_LENGTH}))`
  },
  session: {
    table: "agent_sessions",
    id: "session_id",
    text: `concat_ws(' ', created_by_name, trace_id, left(metadata::text, ${MAX_TEXT_LENGTH}))`
  }
} as const

/** The ids of an indexed kind: from the first, inclusive, to the second, exclusive. */
export const idRange = (kind: IndexedKind): readonly [from: string, before: string] => [
  `${prefixes[kind]}_`,
  `${prefixes[kind]}\``
]

/** The word of an organization as it is indexed. Words contain only letters, marks and digits, so that quotes need no escape. */
export const lexeme = (org_id: OrgId, word: string): string => `'${org_id.slice(-8)}:${word}'`

const Range = Schema.Struct({ before: Schema.String, from: Schema.String })
type Range = typeof Range.Type

const progressRows = rowsOf(Schema.Struct({ indexed_before: Schema.String, ranges: Schema.Array(Range) }))

const scanRows = rowsOf(
  Schema.Struct({
    scanned: Schema.Int,
    last: Schema.NullOr(Schema.String),
    new_ids: Schema.Array(Schema.String)
  })
)

const recordRows = rowsOf(Schema.Struct({ id: Schema.String, session_id: SessionId, text: Schema.String }))

export interface SearchIndex {
  /** Indexes new records of the organization. Returns whether all of them are indexed. */
  readonly catchUp: (org_id: OrgId) => Effect.Effect<boolean>
}

/** Makes the index. Its background fibers end with the scope. */
export const makeSearchIndex = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const atomically = atomic(sql)
  const clock = yield* StoreClock
  const scope = yield* Effect.scope
  const background = yield* Semaphore.make(BACKGROUND_ORGANIZATIONS)
  /** The organizations that are indexed in the background, or wait for it. */
  const waiting = new Set<OrgId>()
  /** When each organization was last fully indexed by this process. */
  const completeAt = new Map<OrgId, number>()

  /** Records of a range, newest first, and the ones without a document yet. */
  const scan = (org_id: OrgId, kind: IndexedKind, { before, from }: Range) => {
    const { id, table } = sources[kind]
    return scanRows.first(sql`
      WITH scanned AS MATERIALIZED (
        SELECT ${sql(id)} AS id
        FROM ${sql(table)}
        WHERE org_id = ${org_id}
          AND ${sql(id)} >= ${from}
          AND ${sql(id)} < ${before}
        ORDER BY ${sql(id)} DESC
        LIMIT ${SCANNED_RECORDS}
      )
      SELECT
        count(*)::int AS scanned,
        min(id) AS last,
        ARRAY(
          SELECT id
          FROM scanned
          WHERE NOT EXISTS (
            SELECT 1
            FROM search_documents
            WHERE org_id = ${org_id}
              AND document_id = id
          )
          ORDER BY id DESC
          LIMIT ${BATCH_RECORDS}
        ) AS new_ids
      FROM scanned
    `)
  }

  const readTexts = (org_id: OrgId, kind: IndexedKind, ids: ReadonlyArray<string>) => {
    const { id, table, text } = sources[kind]
    return recordRows.all(sql`
      SELECT ${sql(id)} AS id, session_id, ${sql.literal(text)} AS text
      FROM ${sql(table)}
      WHERE org_id = ${org_id}
        AND ${sql(id)} = ANY(${textArray(ids)})
    `)
  }

  const insert = (
    org_id: OrgId,
    documents: ReadonlyArray<{ readonly id: string; readonly session_id: SessionId; readonly words: string }>
  ) => sql`
    INSERT INTO search_documents (org_id, document_id, session_id, words)
    SELECT ${org_id}, document.id, document.session_id, document.words::tsvector
    FROM unnest(
        ${textArray(documents.map(({ id }) => id))},
        ${textArray(documents.map(({ session_id }) => session_id))},
        ${textArray(documents.map(({ words }) => words))}
      ) AS document (id, session_id, words)
      -- Not a session that is being deleted. In the order in which deletions lock them.
      JOIN (
        SELECT session_id
        FROM agent_sessions
        WHERE org_id = ${org_id}
          AND session_id = ANY(${textArray(documents.map(({ session_id }) => session_id))})
        ORDER BY session_id
        FOR KEY SHARE
      ) AS session USING (session_id)
    ON CONFLICT (org_id, document_id) DO NOTHING
  `

  /**
   * Indexes the next records of a kind, newest first. `addsRange`: with the records that came since. Returns whether none are left; false, too,
   * while another replica does it.
   */
  const advance = (org_id: OrgId, kind: IndexedKind, addsRange: boolean) =>
    atomically(
      Effect.gen(function* () {
        const [from] = idRange(kind)
        yield* sql`
          INSERT INTO search_progress (org_id, kind, indexed_before, ranges)
          VALUES (${org_id}, ${kind}, ${from}, '[]')
          ON CONFLICT (org_id, kind) DO NOTHING
        `
        const progress = yield* progressRows.first(sql`
          SELECT indexed_before, ranges
          FROM search_progress
          WHERE org_id = ${org_id}
            AND kind = ${kind}
          FOR UPDATE SKIP LOCKED
        `)
        if (progress === undefined) return false
        const now = yield* clock.now
        const { indexed_before, ranges } = addsRange ? withNewRange(kind, progress, now) : progress
        const [range, ...others] = ranges
        if (range === undefined) return true
        const found = yield* scan(org_id, kind, range)
        const newIds = found?.new_ids ?? []
        if (newIds.length > 0) {
          const records = yield* readTexts(org_id, kind, newIds)
          yield* nextTurn
          yield* insert(
            org_id,
            records.map(({ id, session_id, text }) => ({
              id,
              session_id,
              words: searchWords(text, { json: true })
                .map((word) => lexeme(org_id, word))
                .join(" ")
            }))
          )
        }
        const reached =
          newIds.length === BATCH_RECORDS
            ? newIds.at(-1)
            : found?.scanned === SCANNED_RECORDS
              ? found.last
              : undefined
        const rest =
          reached === undefined || reached === null
            ? others
            : [{ before: reached, from: range.from }, ...others]
        yield* sql`
          UPDATE search_progress
          SET
            indexed_before = ${indexed_before},
            ranges = ${JSON.stringify(rest)}::json
          WHERE org_id = ${org_id}
            AND kind = ${kind}
        `
        return rest.length === 0
      })
    )

  const advanceAll = (org_id: OrgId, batches: number, isSearch: boolean) =>
    Effect.map(
      Effect.forEach(indexedKinds, (kind) =>
        Effect.gen(function* () {
          for (let batch = 0; batch < batches; batch++) {
            if (yield* advance(org_id, kind, isSearch && batch === 0)) return true
          }
          return false
        })
      ),
      (complete) => complete.every(Boolean)
    )

  const indexInBackground = (org_id: OrgId) =>
    Effect.gen(function* () {
      while (!(yield* advanceAll(org_id, 1, false))) yield* Effect.sleep(BACKGROUND_PAUSE)
    }).pipe(
      background.withPermits(1),
      Effect.catchCause((cause) => logFailure("Could not index an organization for the search", cause)),
      Effect.ensuring(Effect.sync(() => waiting.delete(org_id))),
      Effect.forkIn(scope)
    )

  const catchUp: SearchIndex["catchUp"] = Effect.fnUntraced(function* (org_id) {
    const startedAt = DateTime.toEpochMillis(yield* clock.now)
    const last = completeAt.get(org_id)
    if (last !== undefined && startedAt >= last && startedAt - last < FRESH_MILLIS) return true
    if (waiting.has(org_id)) return false
    if (yield* advanceAll(org_id, BATCHES_PER_SEARCH, true)) {
      completeAt.delete(org_id)
      completeAt.set(org_id, startedAt)
      if (completeAt.size > MAX_WAITING_ORGANIZATIONS)
        completeAt.delete(completeAt.keys().next().value ?? org_id)
      return true
    }
    if (waiting.size < MAX_WAITING_ORGANIZATIONS) {
      waiting.add(org_id)
      yield* indexInBackground(org_id)
    }
    return false
  })

  const index: SearchIndex = { catchUp }
  return index
})

/** Adds the range of the records that came since. */
const withNewRange = (
  kind: IndexedKind,
  { indexed_before, ranges }: { readonly indexed_before: string; readonly ranges: ReadonlyArray<Range> },
  now: DateTime.Utc
): { readonly indexed_before: string; readonly ranges: ReadonlyArray<Range> } => {
  const prefix = prefixes[kind]
  // A second ahead: clocks of replicas differ.
  const before = `${prefix}_${uuidTimePrefix(DateTime.add(now, { seconds: 1 }))}`
  if (before === indexed_before) return { indexed_before, ranges }
  // If the database's clock was set back, the ids that follow are among those of the last range.
  const [earlier, later] = before < indexed_before ? [before, indexed_before] : [indexed_before, before]
  const millis = Number.parseInt(earlier.slice(prefix.length + 1), 16)
  const from = Number.isNaN(millis)
    ? earlier
    : `${prefix}_${uuidTimePrefix(DateTime.subtract(DateTime.makeUnsafe(millis), { seconds: COMMIT_SECONDS }))}`
  const newest = [{ before: later, from }, ...ranges]
  const [first, ...others] = newest.slice(MAX_RANGES - 1)
  const oldest = others.at(-1)
  return {
    indexed_before: before,
    ranges:
      first === undefined || oldest === undefined
        ? newest
        : [...newest.slice(0, MAX_RANGES - 1), { before: first.before, from: oldest.from }]
  }
}
