import { type Array as Arr, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ExampleId, OrgId } from "../../../domain/Ids.ts"
import { textArray } from "../../store/pgArrays.ts"
import { countOf } from "../../store/rows.ts"
import { inputDigest, isInVersion } from "./exampleRows.ts"
import { readExamples } from "./readExamples.ts"
import type { VersionRow } from "./versionRows.ts"

/** Examples of a benchmark whose inputs are looked up by one statement. */
const OVERLAP_BATCH = 500

/** Counts the inputs of a benchmark that versions of a task's dataset have. Reads each example of the benchmark, at most `MAX_BENCHMARK`. */
export const countOverlap = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  benchmark: VersionRow,
  versions: Arr.NonEmptyReadonlyArray<VersionRow>
) {
  const { task_id } = versions[0]
  let overlap = 0
  let after: ExampleId | undefined
  do {
    const { items, next_cursor } = yield* readExamples(sql, org_id, benchmark, {
      after,
      limit: OVERLAP_BATCH
    })
    overlap += yield* countOf(sql`
      SELECT count(*)::int AS count
      FROM unnest(${textArray(items.map(({ input }) => inputDigest(task_id, input)))}) AS searched (digest)
        CROSS JOIN LATERAL (
          SELECT 1
          FROM dataset_examples
          WHERE org_id = ${org_id}
            AND input_digest = decode(searched.digest, 'hex')
            AND (${sql.or(versions.map(({ version }) => isInVersion(sql, version)))})
          LIMIT 1
        ) AS same
    `)
    after = next_cursor ?? undefined
  } while (after !== undefined)
  return overlap
})
