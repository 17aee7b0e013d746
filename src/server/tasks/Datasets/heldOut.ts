import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { OrgId } from "../../../domain/Ids.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { HoldOut, TrainTestSplit } from "../../../domain/tasks/HoldOut.ts"
import { inputDigest, isInVersion } from "./exampleRows.ts"
import type { VersionRow } from "./versionRows.ts"
import { countOf } from "../../store/rows.ts"

/** The condition that a row of `dataset_examples` may be seen by what answers this input. */
export const isVisible = (
  sql: SqlClient.SqlClient,
  { task_id }: VersionRow,
  input: JsonObject,
  holdOut: HoldOut
): Statement.Fragment => {
  switch (holdOut.kind) {
    case "none":
    // None of its inputs is in the versions of the sides.
    case "benchmark":
      return sql.literal("true")
    case "leave_one_out":
      return sql`input_digest <> decode(${inputDigest(task_id, input)}, 'hex')`
    case "split":
      return sql`NOT (${isInTestPart(sql, holdOut)})`
  }
}

/** The condition that a row of `dataset_examples` is compared. */
export const isCompared = (sql: SqlClient.SqlClient, holdOut: HoldOut): Statement.Fragment =>
  holdOut.kind === "split" ? isInTestPart(sql, holdOut) : sql.literal("true")

/** The condition that an input is in the test part: four bytes of its digest with the seed are below the share. */
const isInTestPart = (sql: SqlClient.SqlClient, { seed, test_share }: TrainTestSplit) => sql`
  substr(sha256(input_digest || decode(${hex(seed)}, 'hex')), 1, 4) < decode(${hex(Math.round(test_share * 2 ** 32))}, 'hex')
`

const hex = (fourBytes: number): string => fourBytes.toString(16).padStart(8, "0")

/** Counts the examples of a version that a comparison answers. Reads each example of the version for a split. */
export const countCompared = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  holdOut: HoldOut
) =>
  holdOut.kind !== "split"
    ? Effect.succeed(version.example_count)
    : countOf(sql`
        SELECT count(*)::int AS count
        FROM dataset_examples
        WHERE org_id = ${org_id}
          AND task_id = ${version.task_id}
          AND example_id <= ${version.last_example_id}
          AND ${isInVersion(sql, version.version)}
          AND ${isInTestPart(sql, holdOut)}
      `)
