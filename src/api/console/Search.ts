import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Timestamp } from "../../domain/Time.ts"
import { Authentication } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { RateLimited } from "../Problems.ts"

/** The longest text to search for, in characters. */
export const MAX_SEARCH_LENGTH = 200

/** Results of one kind among all kinds, and on a page of one kind. */
export const RESULTS_OF_ALL = 5
export const RESULTS_OF_ONE = 20

/** The kinds of records that a search finds. */
export const SearchKind = Schema.Literals([
  "approval",
  "session",
  "task",
  "run",
  "feedback",
  "dataset",
  "comparison",
  "release",
  "grant",
  "endpoint",
  "delivery",
  "key"
])
export type SearchKind = typeof SearchKind.Type

/** The kinds that words find. The others are found by their ids. */
export const WORD_KINDS = [
  "approval",
  "session",
  "task",
  "endpoint",
  "key"
] as const satisfies ReadonlyArray<SearchKind>

/** A record that was found. */
export const SearchResult = Schema.Struct({
  kind: SearchKind,
  id: Schema.String,
  /** The console's page of the record, without `/console`. */
  page: Schema.String,
  /** The name of the record, and more about it; texts of agents and users, possibly empty. */
  title: Schema.String,
  detail: Schema.String,
  /** A short state, such as `pending`; empty if the kind has none. */
  status: Schema.String,
  created_at: Schema.NullOr(Timestamp)
}).annotate({ identifier: "SearchResult" })
export type SearchResult = typeof SearchResult.Type

/** The results of one kind, newest first. */
export const SearchGroup = Schema.Struct({
  kind: SearchKind,
  results: Schema.Array(SearchResult),
  /** Where to go on. Not null, too, if no result was found among the records that one request examines. */
  next_cursor: Schema.NullOr(Schema.String)
}).annotate({ identifier: "SearchGroup" })
export type SearchGroup = typeof SearchGroup.Type

export const SearchResults = Schema.Struct({
  groups: Schema.Array(SearchGroup),
  /** Whether records are missing, because they are being indexed or the search took too long. */
  incomplete: Schema.Boolean
}).annotate({ identifier: "SearchResults" })
export type SearchResults = typeof SearchResults.Type

/** One search over everything that the signed-in key can read. Other records count as absent. */
export class ConsoleSearchApi extends HttpApiGroup.make("search")
  .add(
    HttpApiEndpoint.get("find", "/", {
      query: {
        /** An id or the start of one, a trace id, or words. A word of at least two characters is found by its start, too. */
        text: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_SEARCH_LENGTH)),
        kind: Schema.optionalKey(SearchKind),
        /** The `next_cursor` of a group, with its `kind`. */
        cursor: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^[a-z]{3}_[0-9a-f]{1,32}$/u)))
      },
      success: SearchResults,
      error: RateLimited
    })
  )
  .prefix("/console/find")
  .middleware(RequestBody)
  .middleware(Authentication) {}
