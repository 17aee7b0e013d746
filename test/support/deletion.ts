import { Effect } from "effect"
import type { DatasetId, DeletionId, OrgId, TaskId } from "../../src/domain/Ids.ts"
import { ContentDigest } from "../../src/domain/tasks/ContentDigest.ts"
import type { ClientCalls } from "../../src/client/Client.ts"
import { digestMember } from "../../src/server/tasks/Datasets/exampleRows.ts"
import { SqlClient } from "effect/sql"
import { eventually } from "./eventually.ts"

/** Waits until a deletion is completed, and returns it. */
export const completed = (admin: ClientCalls, id: DeletionId) =>
  eventually(admin.deletions.get({ params: { id } }), ({ status }) => status === "completed")

/** The inputs of all examples of a version. */
export const inputsOf = (admin: ClientCalls, id: DatasetId) =>
  Effect.map(admin.datasets.listExamples({ params: { id }, query: { limit: 100 } }), ({ examples }) =>
    examples.map(({ input }) => input["text"]).toSorted()
  )

/** The content digest of a version as its examples and its tombstones give it. */
export const recomputedDigest = Effect.fnUntraced(function* (admin: ClientCalls, id: DatasetId) {
  const sql = yield* SqlClient.SqlClient
  const version = yield* admin.datasets.get({ params: { id } })
  const { examples } = yield* admin.datasets.listExamples({ params: { id }, query: { limit: 100 } })
  const content = ContentDigest.empty()
  for (const { answer, input } of examples) content.add(digestMember(input, answer))
  const erased = yield* sql<{ readonly content_hash: Uint8Array }>`
    SELECT content_hash
    FROM erased_examples
    WHERE task_id = ${version.task_id}
      AND first_version <= ${version.version}
      AND (until_version IS NULL OR until_version > ${version.version})
  `
  for (const { content_hash } of erased) content.addErased(content_hash)
  return content.digest()
})

/** Counts the rows of each table that belong to a task. */
export const rowsOfTask = Effect.fnUntraced(function* (task_id: TaskId) {
  const sql = yield* SqlClient.SqlClient
  const tables = [
    "tasks",
    "runs",
    "run_metadata",
    "run_reviews",
    "feedback",
    "feedback_counts",
    "datasets",
    "dataset_examples",
    "dataset_postings",
    "erased_examples",
    "comparisons",
    "releases",
    "provider_keys"
  ]
  const counts = yield* Effect.forEach(tables, (table) =>
    Effect.map(
      sql<{
        readonly count: number
      }>`SELECT count(*)::int AS count FROM ${sql(table)} WHERE task_id = ${task_id}`,
      ([row]) => [table, row?.count ?? 0] as const
    )
  )
  return Object.fromEntries(counts.filter(([, count]) => count > 0))
})

/** The id of the only organization with this name. */
export const orgIdOf = (name: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ readonly org_id: OrgId }>`SELECT org_id FROM organizations WHERE name = ${name}`,
      ([row]) => row?.org_id ?? ""
    )
  )
