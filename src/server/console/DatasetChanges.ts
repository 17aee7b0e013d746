import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { type DatasetChange, type DatasetChanges as Changes, MOST_CHANGES } from "../../api/Console.ts"
import { NotFound } from "../../api/Problems.ts"
import { type Example, ExampleOrigin, JsonObject } from "../../domain/tasks/Dataset.ts"
import { type DatasetId, ExampleId, FeedbackId, type OrgId } from "../../domain/Ids.ts"
import { rowsOf } from "../store/rows.ts"

/** The most bytes of examples in one response. The first difference is always included, even if it is larger. */
const MAX_BYTES = 8 * 1024 * 1024

/** The differences between two versions of a task's dataset, for the console's comparison of versions. */
export class DatasetChanges extends Context.Service<
  DatasetChanges,
  {
    /**
     * The examples added, replaced and removed from version `since` to version `id`. Both must belong to one task, and `since` must not
     * be the newer one.
     */
    readonly between: (
      id: DatasetId,
      since: DatasetId
    ) => Effect.Effect<Changes, NotFound, Authorized<"datasets.read">>
  }
>()("countersign/server/console/DatasetChanges") {
  static readonly layer = Layer.effect(
    DatasetChanges,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient

      const findVersions = Effect.fnUntraced(function* (org_id: OrgId, id: DatasetId, since: DatasetId) {
        return yield* versionRows.first(sql`
          SELECT newer.task_id, older.version AS "from", newer.version AS "to"
          FROM datasets AS newer
            JOIN datasets AS older ON older.org_id = newer.org_id AND older.task_id = newer.task_id
          WHERE newer.org_id = ${org_id}
            AND newer.dataset_id = ${id}
            AND older.dataset_id = ${since}
            AND older.version <= newer.version
        `)
      }, Effect.orDie)

      return DatasetChanges.of({
        between: Effect.fn("DatasetChanges.between")(function* (id, since) {
          const { org_id } = yield* Authorized("datasets.read")
          const range = yield* findVersions(org_id, id, since)
          if (range === undefined) return yield* versionsNotFound
          const { from, task_id, to } = range
          // An example belongs to the versions from `first_version` up to, but not including, `until_version`. An added and a removed
          // example with the same input digest form a replacement. `added_examples` and `removed_examples` are materialized so that each uses its own index: otherwise the planner scans all
          // examples of the organization in the order of their inputs.
          const rows = yield* changeRows
            .all(
              sql`
            WITH added_examples AS MATERIALIZED (
              SELECT example_id, input_digest, bytes
              FROM dataset_examples
              WHERE org_id = ${org_id}
                AND task_id = ${task_id}
                AND first_version > ${from}::int
                AND first_version <= ${to}::int
                AND (until_version IS NULL OR until_version > ${to}::int)
            ), removed_examples AS MATERIALIZED (
              SELECT example_id, input_digest, bytes
              FROM dataset_examples
              WHERE org_id = ${org_id}
                AND task_id = ${task_id}
                AND first_version <= ${from}::int
                AND until_version > ${from}::int
                AND until_version <= ${to}::int
            ), paired AS (
              SELECT added_examples.example_id AS after_id, removed_examples.example_id AS before_id,
                coalesce(added_examples.bytes, 0) + coalesce(removed_examples.bytes, 0) AS bytes
              FROM added_examples
                FULL JOIN removed_examples USING (input_digest)
            ), counted AS (
              SELECT after_id, before_id,
                count(*) FILTER (WHERE before_id IS NULL) OVER ()::int AS added,
                count(*) FILTER (WHERE before_id IS NOT NULL AND after_id IS NOT NULL) OVER ()::int AS replaced,
                count(*) FILTER (WHERE after_id IS NULL) OVER ()::int AS removed,
                row_number() OVER (ORDER BY coalesce(after_id, before_id) DESC) AS number,
                sum(bytes) OVER (ORDER BY coalesce(after_id, before_id) DESC) AS bytes_so_far,
                coalesce(after_id, before_id) AS place
              FROM paired
            ), shown AS MATERIALIZED (
              SELECT *
              FROM counted
              WHERE number = 1 OR bytes_so_far <= ${MAX_BYTES}
              ORDER BY place DESC
              LIMIT ${MOST_CHANGES}
            )
            SELECT added, replaced, removed,
              after.example_id AS after_id, after.input AS after_input, after.answer AS after_answer,
              after.source_feedback_id AS after_source, after.origin AS after_origin,
              before.example_id AS before_id, before.input AS before_input, before.answer AS before_answer,
              before.source_feedback_id AS before_source, before.origin AS before_origin
            FROM shown
              LEFT JOIN dataset_examples AS after
                ON after.org_id = ${org_id} AND after.task_id = ${task_id} AND after.example_id = shown.after_id
              LEFT JOIN dataset_examples AS before
                ON before.org_id = ${org_id} AND before.task_id = ${task_id} AND before.example_id = shown.before_id
            ORDER BY shown.place DESC
          `
            )
            .pipe(Effect.orDie)
          const [first] = rows
          return {
            added: first?.added ?? 0,
            replaced: first?.replaced ?? 0,
            removed: first?.removed ?? 0,
            changes: rows.map(toChange)
          }
        })
      })
    })
  )
}

const versionsNotFound = Effect.fail(
  new NotFound({
    detail: "`id` and `since` are not two versions of the same task's dataset, with `since` the older one."
  })
)

const versionRows = rowsOf(Schema.Struct({ task_id: Schema.String, from: Schema.Int, to: Schema.Int }))

const ChangeRow = Schema.Struct({
  added: Schema.Int,
  replaced: Schema.Int,
  removed: Schema.Int,
  after_id: Schema.NullOr(ExampleId),
  after_input: Schema.NullOr(JsonObject),
  after_answer: Schema.NullOr(JsonObject),
  after_source: Schema.NullOr(FeedbackId),
  after_origin: Schema.NullOr(ExampleOrigin),
  before_id: Schema.NullOr(ExampleId),
  before_input: Schema.NullOr(JsonObject),
  before_answer: Schema.NullOr(JsonObject),
  before_source: Schema.NullOr(FeedbackId),
  before_origin: Schema.NullOr(ExampleOrigin)
})

const changeRows = rowsOf(ChangeRow)

const toChange = (row: typeof ChangeRow.Type): DatasetChange => ({
  after: toExample(row.after_id, row.after_input, row.after_answer, row.after_source, row.after_origin),
  before: toExample(row.before_id, row.before_input, row.before_answer, row.before_source, row.before_origin)
})

const toExample = (
  id: Example["id"] | null,
  input: JsonObject | null,
  answer: JsonObject | null,
  source_feedback_id: Example["source_feedback_id"],
  origin: ExampleOrigin | null
): Example | null =>
  id === null || input === null || answer === null || origin === null
    ? null
    : { id, input, answer, source_feedback_id, origin }
