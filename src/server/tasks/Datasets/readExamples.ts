import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type Example, ExampleOrigin, JsonObject } from "../../../domain/tasks/Dataset.ts"
import { ExampleId, FeedbackId, type OrgId } from "../../../domain/Ids.ts"
import { type HoldOut, noHoldOut } from "../../../domain/tasks/HoldOut.ts"
import { pageWithinBytes, toPageWithinBytes } from "../../store/Pagination.ts"
import { rowsOf } from "../../store/rows.ts"
import { isInVersion } from "./exampleRows.ts"
import { isCompared } from "./heldOut.ts"
import type { VersionRow } from "./versionRows.ts"

const ExampleRow = Schema.Struct({
  example_id: ExampleId,
  input: JsonObject,
  answer: JsonObject,
  source_feedback_id: Schema.NullOr(FeedbackId),
  origin: ExampleOrigin,
  /** Remaining examples, counted up to one more than the page size. */
  found: Schema.Int
})

const exampleRows = rowsOf(ExampleRow)

const toExample = (row: typeof ExampleRow.Type): Example => ({
  id: row.example_id,
  input: row.input,
  answer: row.answer,
  source_feedback_id: row.source_feedback_id,
  origin: row.origin
})

/** The start and the size of a page of examples. */
export interface ExamplesRequest {
  /** The last example of the previous page; `undefined` for the first page. */
  readonly after: ExampleId | undefined
  readonly limit: number
  /** Only the examples that a comparison with this hold-out answers. Default: all. */
  readonly holdOut?: HoldOut
}

/**
 * Reads a page of a version's examples, newest first: at least one, at most `limit`, and about 256 KiB. Scans the primary
 * key backwards from the version's last example, which is an index-only scan: it never sees examples of later versions,
 * and skips replaced ones.
 */
export const readExamples = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  { after, holdOut = noHoldOut, limit }: ExamplesRequest
) {
  const { ctes, isOnPage } = pageWithinBytes(sql, {
    table: "dataset_examples",
    id: "example_id",
    bytes: "bytes",
    where: sql`
      org_id = ${org_id}
        AND task_id = ${version.task_id}
        AND example_id <= ${version.last_example_id}
        AND ${isInVersion(sql, version.version)}
        AND ${isCompared(sql, holdOut)}
    `,
    request: { limit, ...(after !== undefined && { cursor: after }) }
  })
  const rows = yield* exampleRows.all(sql`
    ${ctes}
    SELECT example_id, input, answer, source_feedback_id, origin, found
    FROM sized
      JOIN dataset_examples USING (example_id)
    WHERE org_id = ${org_id}
      AND task_id = ${version.task_id}
      AND ${isOnPage}
    ORDER BY example_id DESC
  `)
  return toPageWithinBytes(rows, toExample, (row) => row.example_id)
})
