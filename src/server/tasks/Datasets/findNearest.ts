import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { ExampleId, type OrgId } from "../../../domain/Ids.ts"
import { tokenize } from "../../../domain/tasks/tokenize.ts"
import { int4Array, int8Array } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import { inputDigest, isInVersion } from "./exampleRows.ts"
import { wordKey } from "./wordCounts.ts"
import type { VersionRow } from "./versionRows.ts"

/** Words of an input that are looked up. A word leads to at most 200 current examples, so a look-up reads at most 13,000. */
const MAX_LOOKUP_WORDS = 64

const nearestRows = rowsOf(Schema.Struct({ example_id: ExampleId, answer: JsonObject }))

/**
 * Finds the example of a version that is nearest to an input: the one with exactly this input; else the one with the highest token overlap
 * (Jaccard index: shared tokens divided by the tokens of either); else, if no word leads to an example, the newest. Of equally near
 * examples the newest wins. Returns `undefined` for an empty version.
 *
 * The word index lists at most the first 200 examples of a task per word, so work and memory are bounded for a dataset of any size. A
 * nearer example is missed only if each word that it shares with the input occurs in 200 earlier examples.
 */
export const findNearest = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  input: JsonObject
) {
  const same = yield* nearestRows.first(sql`
    SELECT example_id, answer
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND input_digest = decode(${inputDigest(version.task_id, input)}, 'hex')
      AND ${isInVersion(sql, version.version)}
    ORDER BY example_id DESC
    LIMIT 1
  `)
  if (same !== undefined) return same
  const tokens = tokenize(input)
  const overlapping = tokens.length === 0 ? undefined : yield* findOverlapping(sql, org_id, version, tokens)
  if (overlapping !== undefined) return overlapping
  return yield* nearestRows.first(sql`
    SELECT example_id, answer
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${version.task_id}
      AND example_id <= ${version.last_example_id}
      AND ${isInVersion(sql, version.version)}
    ORDER BY example_id DESC
    LIMIT 1
  `)
})

/**
 * The innermost query has the word index as its only condition; with more conditions the planner may scan all of the task's examples
 * instead. Because the index covers all organizations, the next step immediately filters by organization, task and version.
 */
const findOverlapping = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  tokens: ReadonlyArray<number>
) => {
  const key = wordKey(version.task_id)
  const keys = int8Array(tokens.slice(0, MAX_LOOKUP_WORDS).map(key))
  return nearestRows.first(sql`
    WITH found AS MATERIALIZED (
      SELECT org_id, task_id, example_id, first_version, until_version, tokens
      FROM dataset_examples
      WHERE rare_tokens && ${keys}
    ),
    -- Materialized, so that each overlap is counted once and not at each use of the column. The input's tokens are a subquery, which is
    -- hashed in every plan; an array would be searched linearly for each token in a generic plan.
    overlap AS MATERIALIZED (
      SELECT
        example_id,
        cardinality(tokens) AS own,
        (SELECT count(*) FROM unnest(tokens) AS token WHERE token IN (SELECT unnest(${int4Array(tokens)}::int[]))) AS shared
      FROM found
      WHERE org_id = ${org_id}
        AND task_id = ${version.task_id}
        AND ${isInVersion(sql, version.version)}
    ),
    nearest AS MATERIALIZED (
      SELECT example_id
      FROM overlap
      ORDER BY shared::float8 / (own + ${tokens.length}::int - shared) DESC, example_id DESC
      LIMIT 1
    )
    SELECT example_id, answer
    FROM nearest
      JOIN dataset_examples USING (example_id)
    WHERE org_id = ${org_id}
      AND task_id = ${version.task_id}
  `)
}
