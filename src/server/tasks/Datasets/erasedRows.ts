import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { lockOnNode } from "../../store/Cluster.ts"
import { contentHash } from "../../../domain/tasks/ContentDigest.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { EndUser } from "../../../domain/tasks/EndUser.ts"
import { withoutOrdinals } from "../../../domain/tasks/Postings.ts"
import { tokensFromBytes } from "../../../domain/tasks/tokenize.ts"
import { ExampleId, type FeedbackId, type OrgId, type TaskId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { chunksByBytes } from "../../concurrency/chunksByBytes.ts"
import { rowBytes } from "../../identity/StoredUsage.ts"
import { byteaArray, int4Array, textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import { digestMember } from "./exampleRows.ts"

/** Words per statement that removes postings. */
const BATCH_WORDS = 2_000

const FoundExample = Schema.Struct({
  example_id: ExampleId,
  bytes: Schema.Int,
  /** The number of the input in the dataset. */
  ordinal: Schema.Int,
  tokens: Schema.Uint8Array
})
export type FoundExample = typeof FoundExample.Type

const foundRows = rowsOf(FoundExample)

/**
 * Finds the examples of a task that corrections became. A promotion records its version with the correction, so only the
 * examples that this version added are searched. The number of a version that was deleted is in its deletion.
 */
export const findPromoted = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  feedback: ReadonlyArray<FeedbackId>
) =>
  foundRows.all(sql`
    WITH promoted AS MATERIALIZED (
      SELECT
        feedback_id,
        coalesce(
          (SELECT version FROM datasets WHERE datasets.org_id = feedback.org_id AND datasets.dataset_id = feedback.dataset_id),
          (SELECT version FROM deletions WHERE deletions.org_id = feedback.org_id AND deletions.target_id = feedback.dataset_id)
        ) AS version
      FROM feedback
      WHERE org_id = ${org_id}
        AND feedback_id = ANY(${textArray(feedback)})
        AND dataset_id IS NOT NULL
    )
    SELECT example_id, bytes, ordinal, tokens
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND first_version = ANY(ARRAY(SELECT DISTINCT version FROM promoted))
      AND source_feedback_id = ANY(ARRAY(SELECT feedback_id FROM promoted))
    ORDER BY example_id
  `)

/** Finds the examples whose feedback or runs retention has deleted, by the digest of a data subject. */
export const findOfSubject = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  digest: Uint8Array,
  limit: number
) =>
  foundRows.all(sql`
    SELECT example_id, bytes, ordinal, tokens
    FROM example_subjects
      JOIN dataset_examples USING (org_id, task_id, example_id)
    WHERE org_id = ${org_id}
      AND digest = ${digest}
      AND task_id = ${task_id}
    ORDER BY example_id
    LIMIT ${limit}
  `)

/**
 * The digest of an end user in `example_subjects`. None of a member of metadata is the same: `=` is followed by JSON
 * there, which does not begin like a pseudonym.
 */
export const digestOfEndUser = (end_user: EndUser): Uint8Array =>
  createHash("sha256").update(`end_user=${end_user}`).digest()

/**
 * Keeps by what members of its metadata, and by which end user, an erasure finds the examples of a correction, before its
 * run or the feedback is deleted.
 */
export const keepSubjects = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  feedback: ReadonlyArray<FeedbackId>
) => sql`
  INSERT INTO example_subjects (org_id, digest, task_id, example_id)
  SELECT DISTINCT
    example.org_id, sha256(convert_to(subject.text, 'UTF8')), example.task_id, example.example_id
  FROM feedback
    JOIN runs USING (org_id, trace_id)
    CROSS JOIN LATERAL (
      SELECT coalesce(
        (SELECT version FROM datasets WHERE datasets.org_id = feedback.org_id AND datasets.dataset_id = feedback.dataset_id),
        (SELECT version FROM deletions WHERE deletions.org_id = feedback.org_id AND deletions.target_id = feedback.dataset_id)
      ) AS version
    ) AS promotion
    JOIN dataset_examples AS example
      ON example.org_id = feedback.org_id
      AND example.task_id = feedback.task_id
      AND example.first_version = promotion.version
      AND example.source_feedback_id = feedback.feedback_id
    CROSS JOIN LATERAL (
      SELECT key || '=' || value::text
      FROM json_each(runs.metadata)
      WHERE json_typeof(value) IN ('string', 'number', 'boolean')
      UNION ALL
      SELECT 'end_user=' || feedback.end_user
      WHERE feedback.end_user IS NOT NULL
    ) AS subject (text)
  WHERE feedback.org_id = ${org_id}
    AND feedback.feedback_id = ANY(${textArray(feedback)})
    AND feedback.dataset_id IS NOT NULL
  ON CONFLICT DO NOTHING
`

const contentRows = rowsOf(Schema.Struct({ example_id: ExampleId, input: JsonObject, answer: JsonObject }))

/** Results of examples that one transaction deletes: examples of a task with many comparisons have millions. */
const MAX_RESULTS = 20_000

/**
 * Deletes results of examples before these are erased, up to a number of them, so that no transaction is long. Returns the
 * counted size of the deleted rows, and whether none are left. If some are, the caller's transaction ends here, and the
 * next one continues.
 */
export const deleteResultsAhead = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  examples: ReadonlyArray<Pick<FoundExample, "example_id">>
) {
  if (examples.length === 0) return { bytes: 0, isOver: true }
  const ids = examples.map(({ example_id }) => example_id)
  let bytes = 0
  for (let deleted = 0; deleted < MAX_RESULTS; deleted += RESULTS_PER_STATEMENT) {
    const results = yield* deleteResultsOf(sql, org_id, ids)
    bytes += results.bytes + results.deleted * rowBytes.result
    if (results.found < RESULTS_PER_STATEMENT) return { bytes, isOver: true }
  }
  return { bytes, isOver: false }
})

/**
 * Erases examples from all versions of a task's dataset: deletes them, what comparisons answered to their inputs, and
 * their words in the search index. A tombstone of each remains, with its part of the content digests of its
 * versions. The caller's transaction has the dataset lock, and has deleted their results by `deleteResultsAhead`, except
 * some that were recorded since. Returns the counted size of the deleted rows.
 *
 * The counts of words in later chunks of the index still include a removed posting: they only weigh the words.
 */
export const eraseExamples = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  examples: ReadonlyArray<FoundExample>,
  now: Timestamp
) {
  let freed = 0
  for (const chunk of chunksByBytes(examples)) {
    const rows = yield* lockOnNode(
      sql,
      org_id,
      contentRows.all(sql`
      SELECT example_id, input, answer
      FROM dataset_examples
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND example_id = ANY(${textArray(chunk.map(({ example_id }) => example_id))})
      FOR UPDATE
    `)
    )
    yield* sql`
      INSERT INTO erased_examples (org_id, task_id, example_id, first_version, until_version, content_hash, erased_at)
      SELECT ${org_id}, ${task_id}, example_id, first_version, until_version, content_hash, ${toDate(now)}
      FROM unnest(
        ${textArray(rows.map(({ example_id }) => example_id))}::text[],
        ${byteaArray(rows.map(({ answer, input }) => contentHash(digestMember(input, answer))))}::bytea[]
      ) AS erased (example_id, content_hash)
        JOIN dataset_examples USING (example_id)
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
    `
    const ids = rows.map(({ example_id }) => example_id)
    yield* countErased(sql, org_id, task_id, ids)
    freed += yield* deleteExamples(sql, org_id, task_id, ids)
  }
  return freed + (yield* removePostings(sql, org_id, task_id, examples))
})

/** Moves erased examples from `example_count` to `examples_erased`, in each version that had them. */
const countErased = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  ids: ReadonlyArray<ExampleId>
) => sql`
  UPDATE datasets
  SET example_count = example_count - erased.examples, examples_erased = examples_erased + erased.examples
  FROM (
    SELECT version, count(*)::int AS examples
    FROM erased_examples
      JOIN datasets USING (org_id, task_id)
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND example_id = ANY(${textArray(ids)})
      AND first_version <= version
      AND (until_version IS NULL OR until_version > version)
    GROUP BY version
  ) AS erased
  WHERE datasets.org_id = ${org_id}
    AND datasets.task_id = ${task_id}
    AND datasets.version = erased.version
`

/**
 * Deletes examples with the digests of their data subjects, and then their results in all comparisons: a comparison
 * that is recording results locks their examples, so none is recorded after this. Returns the counted size of the deleted
 * rows.
 */
export const deleteExamples = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  ids: ReadonlyArray<ExampleId>
) {
  const examples = yield* sizeRows.all(sql`
    DELETE FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND example_id = ANY(${textArray(ids)})
    RETURNING bytes
  `)
  yield* sql`
    DELETE FROM example_subjects
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND example_id = ANY(${textArray(ids)})
  `
  let freed = sizeOf(examples, rowBytes.example)
  let found: number
  do {
    const results = yield* deleteResultsOf(sql, org_id, ids)
    freed += results.bytes + results.deleted * rowBytes.result
    found = results.found
  } while (found === RESULTS_PER_STATEMENT)
  return freed
})

const sizeRows = rowsOf(Schema.Struct({ bytes: Schema.Int }))

/** The counted size of rows with this overhead. */
const sizeOf = (rows: ReadonlyArray<{ readonly bytes: number }>, overhead: number) =>
  rows.reduce((sum, { bytes }) => sum + bytes + overhead, 0)

/**
 * Results that one statement deletes. Examples of a task with many comparisons have millions: one statement for all would
 * exceed its timeout, each time that the deletion is repeated.
 */
const RESULTS_PER_STATEMENT = 5_000

/**
 * Deletes some results of examples, which never change. Each example is looked up by itself, because the planner would
 * rather read the whole table for many at a time. Returns how many it found and deleted: another transaction may delete
 * some of them first.
 */
const deleteResultsOf = (sql: SqlClient.SqlClient, org_id: OrgId, ids: ReadonlyArray<ExampleId>) =>
  sql<{ readonly found: number; readonly deleted: number; readonly bytes: number }>`
    WITH found AS MATERIALIZED (
      SELECT result.row_id
      FROM unnest(${textArray(ids)}::text[]) AS deleted (example_id)
        CROSS JOIN LATERAL (
          SELECT ctid AS row_id
          FROM comparison_results
          WHERE org_id = ${org_id}
            AND comparison_results.example_id = deleted.example_id
          LIMIT ${RESULTS_PER_STATEMENT}
        ) AS result
      LIMIT ${RESULTS_PER_STATEMENT}
    ), deletion AS (
      DELETE FROM comparison_results
      WHERE org_id = ${org_id}
        AND ctid = ANY(ARRAY(SELECT row_id FROM found))
      RETURNING octet_length(candidate::text) + octet_length(live::text) AS bytes
    )
    SELECT
      (SELECT count(*)::int FROM found) AS found,
      count(*)::int AS deleted,
      coalesce(sum(bytes), 0)::float8 AS bytes
    FROM deletion
  `.pipe(Effect.map(([row]) => row ?? { found: 0, deleted: 0, bytes: 0 }))

const chunkRows = rowsOf(
  Schema.Struct({
    word: Schema.Int,
    first_ordinal: Schema.Int,
    ordinal: Schema.Int,
    postings: Schema.Uint8Array
  })
)

const ordinalRows = rowsOf(Schema.Struct({ ordinal: Schema.Int }))

/**
 * Removes the postings of examples that were deleted, by (task, word), unless another example has the same input. The
 * caller has the dataset lock. Returns the counted size of the removed rows.
 */
export const removePostings = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  examples: ReadonlyArray<Pick<FoundExample, "ordinal" | "tokens">>
) {
  const byOrdinal = new Map(examples.map(({ ordinal, tokens }) => [ordinal, tokens]))
  const kept = yield* ordinalRows.all(sql`
    SELECT DISTINCT ordinal
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
      AND ordinal = ANY(${int4Array([...byOrdinal.keys()])}::int[])
  `)
  for (const { ordinal } of kept) byOrdinal.delete(ordinal)
  const postings = [...byOrdinal].flatMap(([ordinal, tokens]) =>
    Array.from(tokensFromBytes(tokens), (word) => ({ ordinal, word }))
  )
  let freed = 0
  for (let start = 0; start < postings.length; start += BATCH_WORDS) {
    freed += yield* removeBatch(sql, org_id, task_id, postings.slice(start, start + BATCH_WORDS))
  }
  return freed
})

const removeBatch = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  postings: ReadonlyArray<{ readonly ordinal: number; readonly word: number }>
) {
  const rows = yield* chunkRows.all(sql`
    SELECT removed.word, chunk.first_ordinal, removed.ordinal, chunk.postings
    FROM unnest(
      ${int4Array(postings.map(({ word }) => word))}::int[],
      ${int4Array(postings.map(({ ordinal }) => ordinal))}::int[]
    ) AS removed (word, ordinal)
      CROSS JOIN LATERAL (
        SELECT first_ordinal, postings
        FROM dataset_postings
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
          AND dataset_postings.word = removed.word
          AND first_ordinal <= removed.ordinal
        ORDER BY first_ordinal DESC
        LIMIT 1
      ) AS chunk
  `)
  const chunks = new Map<
    string,
    { word: number; first: number; postings: Uint8Array; ordinals: Set<number> }
  >()
  for (const { first_ordinal, ordinal, postings, word } of rows) {
    const key = `${word}/${first_ordinal}`
    const chunk = chunks.get(key)
    if (chunk === undefined) {
      chunks.set(key, { word, first: first_ordinal, postings, ordinals: new Set([ordinal]) })
    } else chunk.ordinals.add(ordinal)
  }
  const left = [...chunks.values()].map(({ first, ordinals, postings, word }) => ({
    word,
    first,
    postings: withoutOrdinals(postings, ordinals),
    before: postings.length
  }))
  const empty = left.filter((chunk) => chunk.postings.length === 0)
  const changed = left.filter((chunk) => chunk.postings.length > 0)
  if (empty.length > 0) {
    yield* sql`
      DELETE FROM dataset_postings
      USING unnest(
        ${int4Array(empty.map(({ word }) => word))}::int[],
        ${int4Array(empty.map(({ first }) => first))}::int[]
      ) AS chunk (word, first_ordinal)
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND dataset_postings.word = chunk.word
        AND dataset_postings.first_ordinal = chunk.first_ordinal
    `
  }
  if (changed.length > 0) {
    yield* sql`
      UPDATE dataset_postings
      SET postings = chunk.postings
      FROM unnest(
        ${int4Array(changed.map(({ word }) => word))}::int[],
        ${int4Array(changed.map(({ first }) => first))}::int[],
        ${byteaArray(changed.map(({ postings }) => postings))}::bytea[]
      ) AS chunk (word, first_ordinal, postings)
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND dataset_postings.word = chunk.word
        AND dataset_postings.first_ordinal = chunk.first_ordinal
    `
  }
  const removed = left.reduce((sum, { before, postings: { length } }) => sum + before - length, 0)
  return removed + empty.length * rowBytes.posting_list
})

const Tombstone = Schema.Struct({ example_id: ExampleId, content_hash: Schema.Uint8Array })

const tombstoneRows = rowsOf(Tombstone)

/** Tombstones that one statement ends, each with a hash of 2,048 bytes. */
const TOMBSTONES_PER_STATEMENT = 500

/**
 * Ends the erased examples of the newest version, because the version that is being created has none of them. Passes on
 * their hashes a page at a time: an erasure can leave a million of them.
 */
export const endErased = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  version: number,
  onEnded: (hashes: ReadonlyArray<Uint8Array>) => void
) {
  let after: string | undefined = ""
  while (after !== undefined) {
    const page: ReadonlyArray<typeof Tombstone.Type> = yield* tombstoneRows.all(sql`
      WITH page AS MATERIALIZED (
        SELECT example_id
        FROM erased_examples
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
          AND until_version IS NULL
          AND example_id > ${after}
        ORDER BY example_id
        LIMIT ${TOMBSTONES_PER_STATEMENT}
      ), ended AS (
        UPDATE erased_examples
        SET until_version = ${version}
        FROM page
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
          AND erased_examples.example_id = page.example_id
        RETURNING erased_examples.example_id, content_hash
      )
      SELECT example_id, content_hash
      FROM ended
      ORDER BY example_id
    `)
    onEnded(page.map(({ content_hash }) => content_hash))
    after = page.length < TOMBSTONES_PER_STATEMENT ? undefined : page.at(-1)?.example_id
  }
})
