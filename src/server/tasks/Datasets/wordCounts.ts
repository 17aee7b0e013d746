import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId, TaskId } from "../../../domain/Ids.ts"
import { hash } from "../../../domain/tasks/tokenize.ts"
import { WordCounts } from "../../../domain/tasks/WordCounts.ts"

/** Makes the keys of a task's words in the word index, which covers all tasks: 32 bits for the task, then 32 bits for the word. */
export const wordKey = (task_id: TaskId): ((word: number) => bigint) => {
  const task = BigInt(hash(task_id)) << 32n
  return (word) => task | BigInt(word >>> 0)
}

/** Reads a task's word counts. The caller has the dataset lock. */
export const readWordCounts = (sql: SqlClient.SqlClient, org_id: OrgId, task_id: TaskId) =>
  sql<{ readonly counts: Uint8Array }>`
    SELECT counts
    FROM dataset_words
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `.pipe(Effect.map(([row]) => (row === undefined ? WordCounts.empty() : WordCounts.from(row.counts))))

/** Upserts a task's word counts. */
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
