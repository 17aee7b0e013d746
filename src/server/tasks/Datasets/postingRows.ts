import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId, TaskId } from "../../../domain/Ids.ts"
import { CHUNK_BYTES, type PostingBuffer, type PostingRun } from "../../../domain/tasks/Postings.ts"
import { byteaArray, int4Array } from "../../store/pgArrays.ts"

/** Runs of postings per statement. */
const BATCH_RUNS = 2_000

/** Bytes of postings per statement. */
const BATCH_BYTES = 2 ** 20

/** Chunks of one word that a look-up reads: the newest. Only a word that alone has too many postings has more. */
const MAX_SCANNED_CHUNKS = 600

/**
 * Appends postings to a task's posting lists, and empties the buffer. A run is added to the word's last chunk if it fits, otherwise it is a
 * new chunk. Returns the number of new chunks. The caller has the dataset lock.
 */
export const appendPostings = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  buffer: PostingBuffer
) {
  let chunks = 0
  let batch: Array<PostingRun> = []
  let bytes = 0
  const write = Effect.suspend(() => {
    const runs = batch
    batch = []
    bytes = 0
    return Effect.map(appendRuns(sql, org_id, task_id, runs), (added) => {
      chunks += added
    })
  })
  for (const run of buffer.drain()) {
    batch.push(run)
    bytes += run.postings.byteLength
    if (batch.length >= BATCH_RUNS || bytes >= BATCH_BYTES) yield* write
  }
  if (batch.length > 0) yield* write
  return chunks
})

const appendRuns = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  runs: ReadonlyArray<PostingRun>
) => {
  const [first] = runs
  // Relative to this statement, which sees the runs of earlier ones. Only the first word can have earlier ones.
  const preceding = (run: PostingRun) =>
    run.word === first?.word ? run.preceding - first.preceding : run.preceding
  return sql<{ readonly added: number }>`
    WITH written AS (
      INSERT INTO dataset_postings (org_id, task_id, word, first_ordinal, earlier, postings)
      SELECT
        ${org_id}, ${task_id}, run.word,
        CASE
          WHEN run.preceding = 0 AND octet_length(last.postings) + octet_length(run.postings) <= ${CHUNK_BYTES}::int
          THEN last.first_ordinal
          ELSE run.first_ordinal
        END,
        coalesce(last.earlier + octet_length(last.postings) / 4, 0) + run.preceding,
        run.postings
      FROM unnest(
        ${int4Array(runs.map(({ word }) => word))}::int[],
        ${int4Array(runs.map(({ firstOrdinal }) => firstOrdinal))}::int[],
        ${int4Array(runs.map(preceding))}::int[],
        ${byteaArray(runs.map(({ postings }) => postings))}::bytea[]
      ) AS run (word, first_ordinal, preceding, postings)
        LEFT JOIN LATERAL (
          SELECT first_ordinal, earlier, postings
          FROM dataset_postings
          WHERE org_id = ${org_id}
            AND task_id = ${task_id}
            AND dataset_postings.word = run.word
          ORDER BY dataset_postings.first_ordinal DESC
          LIMIT 1
        ) AS last ON true
      ON CONFLICT (org_id, task_id, word, first_ordinal) DO UPDATE
      SET postings = dataset_postings.postings || excluded.postings
      -- A row that was inserted and not updated.
      RETURNING xmax = 0 AS is_new
    )
    SELECT count(*) FILTER (WHERE is_new)::int AS added
    FROM written
  `.pipe(Effect.map(([row]) => row?.added ?? 0))
}

/** The last chunk of a word's postings among the inputs up to an ordinal. */
export interface NewestChunk {
  readonly word: number
  /** The ordinal of the chunk's first posting. It never changes. */
  readonly first_ordinal: number
  /** Postings of the word in the chunks before it. */
  readonly earlier: number
  /** The chunk that contains the ordinal, or the last one before it. It may contain higher ordinals. */
  readonly postings: Uint8Array
}

/** Reads the newest chunks of words among the inputs up to `last`: they tell how frequent the words are. Words of later inputs are absent. */
export const readNewestChunks = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  words: ReadonlyArray<number>,
  last: number
) => sql<NewestChunk>`
  SELECT looked_up.word, chunk.first_ordinal, chunk.earlier, chunk.postings
  FROM unnest(${int4Array(words)}::int[]) AS looked_up (word)
    CROSS JOIN LATERAL (
      SELECT first_ordinal, earlier, postings
      FROM dataset_postings
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND dataset_postings.word = looked_up.word
        AND first_ordinal <= ${last}::int
      ORDER BY first_ordinal DESC
      LIMIT 1
    ) AS chunk
`

/** Reads the postings of words before their newest chunks: not all of a word that alone has too many to scan. */
export const readEarlierPostings = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  newest: ReadonlyArray<NewestChunk>
) => sql<{ readonly word: number; readonly bytes: Uint8Array | null }>`
  SELECT scanned.word, (
    SELECT string_agg(chunk.postings, ''::bytea ORDER BY chunk.first_ordinal)
    FROM (
      SELECT first_ordinal, postings
      FROM dataset_postings
      WHERE org_id = ${org_id}
        AND task_id = ${task_id}
        AND dataset_postings.word = scanned.word
        AND dataset_postings.first_ordinal < scanned.first_ordinal
      ORDER BY dataset_postings.first_ordinal DESC
      LIMIT ${MAX_SCANNED_CHUNKS}::int
    ) AS chunk
  ) AS bytes
  FROM unnest(
    ${int4Array(newest.map(({ word }) => word))}::int[],
    ${int4Array(newest.map(({ first_ordinal }) => first_ordinal))}::int[]
  ) AS scanned (word, first_ordinal)
`
