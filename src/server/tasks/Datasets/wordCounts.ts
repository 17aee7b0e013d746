import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId, TaskId } from "../../../domain/Ids.ts"
import { hash } from "../../../domain/tasks/tokenize.ts"
import { WordCounts } from "../../../domain/tasks/WordCounts.ts"

/** A word of one task, as the index of all examples holds it: the task's own 32 bits, then the word's. */
export const wordKey = (task_id: TaskId): ((word: number) => bigint) => {
  const task = BigInt(hash(task_id)) << 32n
  return (word) => task | BigInt(word >>> 0)
}

/** The counts of a task's words. The caller holds the task's dataset. */
export const readWordCounts = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  sql<{ readonly counts: Uint8Array }>`
    SELECT counts
    FROM dataset_words
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `.pipe(Effect.map(([row]) => (row === undefined ? WordCounts.empty() : WordCounts.from(row.counts))))

/** Keeps the counts of a task's words. */
export const writeWordCounts = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  counts: WordCounts
) => sql`
  INSERT INTO dataset_words (org_id, task_id, counts)
  VALUES (${org_id}, ${task_id}, ${counts.bytes()})
  ON CONFLICT (org_id, task_id) DO UPDATE
  SET counts = excluded.counts
`
