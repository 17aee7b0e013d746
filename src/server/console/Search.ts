import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import {
  RESULTS_OF_ALL,
  RESULTS_OF_ONE,
  type SearchGroup,
  type SearchKind,
  type SearchResults,
  WORD_KINDS
} from "../../api/console/Search.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { searchWords } from "../../domain/searchWords.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { containsText } from "../store/foldCase.ts"
import { rowsOf } from "../store/rows.ts"
import { findById } from "./Search/findById.ts"
import { kindScopes, readRecords } from "./Search/records.ts"
import { idRange, type IndexedKind, lexeme, makeSearchIndex } from "./Search/SearchIndex.ts"

/** Words of a query that are searched for. */
const MAX_QUERY_WORDS = 8

/** Records with all words that one request sorts. With more, the newest records are read one by one, which finds some soon. */
const MAX_MATCHES = 10_000

/** The newest records that a request reads one by one. */
const MAX_READ = 20_000

/** The newest tasks, endpoints and keys whose names one request reads. */
const MAX_NAMES = 5_000

/** How long the search of one kind may take: its statement is cancelled after it. */
const TIMEOUT = "2 seconds"

/** What to search for. */
interface SearchQuery {
  readonly text: string
  readonly kind?: SearchKind
  readonly cursor?: string
}

/** One search over the records of an organization. */
export class Search extends Context.Service<
  Search,
  {
    /** Finds records that the principal may read: by id, else by words. */
    readonly find: (principal: Principal, query: SearchQuery) => Effect.Effect<SearchResults>
  }
>()("countersign/server/console/Search") {
  static readonly layer = Layer.effect(
    Search,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const index = yield* makeSearchIndex(sql)

      /** The ids of the matching documents of a kind, newest first, and where to go on. */
      const matchDocuments = Effect.fnUntraced(function* (
        org_id: OrgId,
        kind: IndexedKind,
        words: ReadonlyArray<string>,
        limit: number,
        cursor: string | undefined
      ) {
        const [from, end] = idRange(kind)
        const before = cursor !== undefined && cursor > from && cursor < end ? cursor : end
        const query = words.map((word) => `${lexeme(org_id, word)}${word.length > 1 ? ":*" : ""}`).join(" & ")
        const documents = sql`
          FROM search_documents
          WHERE org_id = ${org_id}
            AND document_id >= ${from}
            AND document_id < ${before}`
        const matched = yield* matchRows.first(sql`
          WITH matched AS MATERIALIZED (
            SELECT document_id
            ${documents}
              AND words @@ ${query}::tsquery
            LIMIT ${MAX_MATCHES + 1}
          )
          SELECT
            count(*)::int AS found,
            ARRAY(SELECT document_id FROM matched ORDER BY document_id DESC LIMIT ${limit + 1}) AS ids,
            NULL::text AS last
          FROM matched
        `)
        const found =
          matched !== undefined && matched.found <= MAX_MATCHES
            ? matched
            : yield* matchRows.first(sql`
                WITH newest AS MATERIALIZED (
                  SELECT document_id, words @@ ${query}::tsquery AS matches
                  ${documents}
                  ORDER BY document_id DESC
                  LIMIT ${MAX_READ}
                )
                SELECT
                  count(*)::int AS found,
                  ARRAY(SELECT document_id FROM newest WHERE matches ORDER BY document_id DESC LIMIT ${limit + 1}) AS ids,
                  CASE WHEN count(*) = ${MAX_READ} THEN min(document_id) END AS last
                FROM newest
              `)
        const ids = found?.ids ?? []
        return {
          ids: ids.slice(0, limit),
          next_cursor: ids.length > limit ? (ids[limit - 1] ?? null) : (found?.last ?? null)
        }
      })

      /** The ids of the records whose name has all words, newest first. */
      const matchNames = Effect.fnUntraced(function* (
        org_id: OrgId,
        kind: "task" | "endpoint" | "key",
        words: ReadonlyArray<string>,
        limit: number,
        cursor: string | undefined
      ) {
        const { id, name, table } = names[kind]
        const rows = yield* idRows.all(sql`
          SELECT id
          FROM (
            SELECT ${sql.literal(id)} AS id, ${sql.literal(name)} AS name
            FROM ${sql(table)}
            WHERE org_id = ${org_id}
              ${cursor === undefined ? sql.literal("") : sql`AND ${sql.literal(id)} < ${cursor}`}
            ORDER BY ${sql.literal(id)} DESC
            LIMIT ${MAX_NAMES}
          ) AS newest
          WHERE ${sql.and(words.map((word) => containsText(sql, "name", word)))}
          ORDER BY id DESC
          LIMIT ${limit + 1}
        `)
        const ids = rows.map((row) => row.id)
        return {
          ids: ids.slice(0, limit),
          next_cursor: ids.length > limit ? (ids[limit - 1] ?? null) : null
        }
      })

      const findByWords = Effect.fnUntraced(function* (
        { org_id, scopes }: Principal,
        { cursor, kind, text }: SearchQuery
      ) {
        const words = searchWords(text).slice(0, MAX_QUERY_WORDS)
        const kinds = WORD_KINDS.filter(
          (one) => (kind === undefined || one === kind) && scopes.has(kindScopes[one])
        )
        if (words.length === 0 || kinds.length === 0) return { groups: [], incomplete: false }
        const limit = kind === undefined ? RESULTS_OF_ALL : RESULTS_OF_ONE
        const isIndexed =
          kinds.includes("approval") || kinds.includes("session") ? yield* index.catchUp(org_id) : true
        const groups = yield* Effect.forEach(kinds, (one) =>
          Effect.gen(function* () {
            const { ids, next_cursor } =
              one === "approval" || one === "session"
                ? yield* matchDocuments(org_id, one, words, limit, cursor)
                : yield* matchNames(org_id, one, words, limit, cursor)
            const results = ids.length === 0 ? [] : yield* readRecords(sql, org_id, one, ids)
            const group: SearchGroup = { kind: one, results, next_cursor }
            return group
          }).pipe(Effect.timeoutOption(TIMEOUT))
        )
        const inTime = groups.flatMap(Option.toArray)
        return {
          groups: inTime.filter(({ next_cursor, results }) => results.length > 0 || next_cursor !== null),
          incomplete: !isIndexed || inTime.length < kinds.length
        }
      })

      return Search.of({
        find: Effect.fn("Search.find")(function* (principal, query) {
          const byId = yield* findById(sql, principal, query.text)
          if (byId.length > 0) {
            return {
              groups: byId.filter(({ kind }) => query.kind === undefined || kind === query.kind),
              incomplete: false
            }
          }
          return yield* findByWords(principal, query)
        }, dieOnDatabaseError)
      })
    })
  )
}

/** The tables of records that are found by their names. */
const names = {
  task: { table: "tasks", id: "task_id", name: "name" },
  endpoint: {
    table: "notification_endpoints",
    id: "endpoint_id",
    name: "concat_ws(' ', description, url_hint)"
  },
  key: { table: "api_keys", id: "key_id", name: "concat_ws(' ', name, email)" }
} as const

const idRows = rowsOf(Schema.Struct({ id: Schema.String }))

const matchRows = rowsOf(
  Schema.Struct({
    found: Schema.Int,
    ids: Schema.Array(Schema.String),
    last: Schema.NullOr(Schema.String)
  })
)
