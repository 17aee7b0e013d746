import { Effect, Result, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { canonicalJson } from "../../../domain/json/CanonicalJson.ts"
import { type Example, JsonObject, type NewExample } from "../../../domain/tasks/Dataset.ts"
import { ExampleId, FeedbackId, type OrgId, type TaskId } from "../../../domain/Ids.ts"
import { tokenize } from "../../../domain/tasks/tokenize.ts"
import { textArray } from "../../store/pgArrays.ts"
import { toPageWithinBytes, MAX_PAGE_BYTES } from "../../store/Pagination.ts"
import type { WordCounts } from "../../../domain/tasks/WordCounts.ts"
import { wordKey } from "./wordCounts.ts"
import type { VersionRow } from "./versionRows.ts"

const ExampleRow = Schema.Struct({
  example_id: ExampleId,
  input: JsonObject,
  answer: JsonObject,
  source_feedback_id: Schema.NullOr(FeedbackId),
  /** Examples that are left from here on, as far as the walk looked: one more than the page may hold. */
  found: Schema.Int
})

const decodeExamples = Schema.decodeUnknownEffect(Schema.Array(ExampleRow), { disableChecks: true })

const toExample = (row: typeof ExampleRow.Type): Example => ({
  id: row.example_id,
  input: row.input,
  answer: row.answer,
  source_feedback_id: row.source_feedback_id
})

/** That a row of `dataset_examples` is part of a version of its task. */
export const isInVersion = (sql: SqlClient.SqlClient, version: number) => sql`
  first_version <= ${version}
  AND (until_version IS NULL OR until_version > ${version})
`

/** Where a reading of a version's examples goes on, and how far. */
export interface ExamplesRequest {
  /** The last example that was read; undefined at the beginning. */
  readonly after: ExampleId | undefined
  readonly limit: number
}

/** Some examples of a version, newest first. */
export interface ExamplesPage {
  readonly examples: ReadonlyArray<Example>
  /** Null at the end. */
  readonly next: ExampleId | null
}

/**
 * Reads on in a version: at most `limit` examples and about 8 MiB, one at least. The walk is one of the primary key, which holds all
 * it asks for: it begins at the version's last example, so what later versions added is not seen, and passes over what was replaced.
 */
export const readExamples = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  { after, limit }: ExamplesRequest
) {
  const rows = yield* sql`
    WITH walked AS MATERIALIZED (
      SELECT example_id, bytes
      FROM dataset_examples
      WHERE org_id = ${org_id}
        AND task_id = ${version.task_id}
        AND ${after === undefined ? sql`example_id <= ${version.last_example_id}` : sql`example_id < ${after}`}
        AND ${isInVersion(sql, version.version)}
      ORDER BY example_id DESC
      LIMIT ${limit + 1}::int
    ),
    sized AS (
      SELECT
        example_id,
        sum(bytes) OVER (ORDER BY example_id DESC) AS bytes,
        row_number() OVER (ORDER BY example_id DESC) AS number,
        count(*) OVER ()::int AS found
      FROM walked
    )
    SELECT example_id, input, answer, source_feedback_id, found
    FROM sized
      JOIN dataset_examples example USING (example_id)
    WHERE org_id = ${org_id}
      AND task_id = ${version.task_id}
      AND number <= ${limit}::int
      AND (number = 1 OR sized.bytes <= ${MAX_PAGE_BYTES}::int)
    ORDER BY example_id DESC
  `.pipe(Effect.flatMap(decodeExamples))
  const { items, next_cursor } = toPageWithinBytes(rows, toExample, (row) => row.example_id)
  const page: ExamplesPage = { examples: items, next: next_cursor }
  return page
})

/**
 * What an example is found by when its very input comes again: SHA-256, in hex, of the canonical form of its task and input. The task is
 * in it so that the digest alone finds the example: with the task beside it, the planner of a store without statistics takes the
 * primary key, and walks all of the task's examples.
 */
export const inputDigest = (task_id: TaskId, input: JsonObject): string =>
  createHash("sha256")
    .update(Result.getOrThrow(canonicalJson([task_id, input])))
    .digest("hex")

/** An example on its way into a version, with what is made of it. */
export interface PreparedExample {
  readonly example: NewExample
  readonly input: string
  readonly answer: string
  readonly digest: string
}

const SameInput = Schema.Struct({
  example_id: ExampleId,
  digest: Schema.String,
  bytes: Schema.Int,
  /** The words that lead to it, as the store writes an array. */
  rare_tokens: Schema.String,
  ended: Schema.Boolean
})

const decodeSame = Schema.decodeUnknownEffect(Schema.Array(SameInput), { disableChecks: true })

/**
 * The examples with one of these inputs, by their digests, in the newest version there is; `version` is the one after it. Those that it
 * has ended by now are among them.
 */
export const findSameInputs = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: number,
  digests: ReadonlyArray<string>
) =>
  sql`
    SELECT example_id, encode(input_digest, 'hex') AS digest, bytes, rare_tokens::text, until_version IS NOT NULL AS ended
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND input_digest = ANY(ARRAY(SELECT decode(digest, 'hex') FROM unnest(${textArray(digests)}) AS digest))
      AND first_version < ${version}
      AND (until_version IS NULL OR until_version = ${version})
  `.pipe(Effect.flatMap(decodeSame))

const Content = Schema.Struct({ input: JsonObject, answer: JsonObject })

const decodeContents = Schema.decodeUnknownEffect(Schema.Array(Content), { disableChecks: true })

/** What examples say, in no order. Callers see to it that it is not too much together. */
export const readContents = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  ids: ReadonlyArray<ExampleId>
) =>
  sql`
    SELECT input, answer
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND example_id = ANY(${textArray(ids)})
  `.pipe(Effect.flatMap(decodeContents))

/** Ends examples: they are part of no version from this one on. */
export const endExamples = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  version: number,
  ids: ReadonlyArray<ExampleId>
) =>
  ids.length === 0
    ? Effect.void
    : sql`
        UPDATE dataset_examples
        SET until_version = ${version}
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
          AND example_id = ANY(${textArray(ids)})
      `

/**
 * Writes examples that are part of the versions from this one on; answers with the last id. One that takes another's place is found by
 * the words of that one, of `inherited` by the digest of the input; any other by those of its words that `counts` still takes.
 */
export const insertExamples = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  version: number,
  placed: ReadonlyArray<PreparedExample>,
  inherited: ReadonlyMap<string, string>,
  counts: WordCounts
) {
  const ids = yield* Effect.replicateEffect(ExampleId.generate, placed.length)
  const tokens = placed.map(({ example }) => tokenize(example.input))
  const key = wordKey(task_id)
  const rareTokens = placed.map(
    ({ digest }, index) =>
      inherited.get(digest) ??
      `{${(tokens[index] ?? [])
        .filter((word) => counts.tryCount(word))
        .map(key)
        .join(",")}}`
  )
  yield* sql`
    INSERT INTO dataset_examples (
      org_id, task_id, example_id, first_version, input, answer, bytes, input_digest, source_feedback_id, tokens, rare_tokens
    )
    SELECT
      ${org_id}, ${task_id}, example_id, ${version}, input::json, answer::json, octet_length(input) + octet_length(answer),
      decode(digest, 'hex'), source_feedback_id, tokens::int[], rare_tokens::bigint[]
    FROM unnest(
      ${textArray(ids)},
      ${textArray(placed.map(({ input }) => input))},
      ${textArray(placed.map(({ answer }) => answer))},
      ${textArray(placed.map(({ digest }) => digest))},
      ${textArray(placed.map(({ example }) => example.source_feedback_id))},
      ${textArray(tokens.map((list) => `{${list.join(",")}}`))},
      ${textArray(rareTokens)}
    ) AS placed (example_id, input, answer, digest, source_feedback_id, tokens, rare_tokens)
  `
  return ids.reduce((last, id) => (id > last ? id : last))
})
