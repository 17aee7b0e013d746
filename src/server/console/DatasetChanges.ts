import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { type DatasetChange, type DatasetChanges as Changes, MOST_CHANGES } from "../../api/Console.ts"
import { NotFound } from "../../api/Problems.ts"
import { type Example, JsonObject } from "../../domain/tasks/Dataset.ts"
import { type DatasetId, ExampleId, FeedbackId, type OrgId } from "../../domain/Ids.ts"

/** The bytes of examples that one answer shows, unless the first difference alone has more. */
const MAX_BYTES = 8 * 1024 * 1024

/** How two versions of a task's dataset differ: for the console, which shows them side by side. */
export class DatasetChanges extends Context.Service<
  DatasetChanges,
  {
    /** What `id` has that `since` has not, and the other way round. Both are versions of one task, `since` the older. */
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

      const versions = Effect.fnUntraced(function* (org_id: OrgId, id: DatasetId, since: DatasetId) {
        const rows = yield* sql`
          SELECT newer.task_id, older.version AS "from", newer.version AS "to"
          FROM datasets AS newer
            JOIN datasets AS older ON older.org_id = newer.org_id AND older.task_id = newer.task_id
          WHERE newer.org_id = ${org_id}
            AND newer.dataset_id = ${id}
            AND older.dataset_id = ${since}
            AND older.version <= newer.version
        `.pipe(Effect.flatMap(decodeVersions))
        return rows[0]
      }, Effect.orDie)

      return DatasetChanges.of({
        between: Effect.fn("DatasetChanges.between")(function* (id, since) {
          const { org_id } = yield* Authorized("datasets.read")
          const known = yield* versions(org_id, id, since)
          if (known === undefined) return yield* noSuchVersions
          const { from, task_id, to } = known
          // An example is part of the versions from `first_version` up to, not including, `until_version`: those of one version and
          // not of the other. One with the very input of another stands for it; of several with one input, the first for the first, and so on. What
          // came and what went are found by an index each, and only then put side by side: the planner would rather walk all the
          // organization's examples in the order of their inputs.
          const rows = yield* sql`
            WITH came AS MATERIALIZED (
              SELECT example_id, input_digest, bytes,
                row_number() OVER (PARTITION BY input_digest ORDER BY example_id) AS nth
              FROM dataset_examples
              WHERE org_id = ${org_id}
                AND task_id = ${task_id}
                AND first_version > ${from}::int
                AND first_version <= ${to}::int
                AND (until_version IS NULL OR until_version > ${to}::int)
            ), went AS MATERIALIZED (
              SELECT example_id, input_digest, bytes,
                row_number() OVER (PARTITION BY input_digest ORDER BY example_id) AS nth
              FROM dataset_examples
              WHERE org_id = ${org_id}
                AND task_id = ${task_id}
                AND first_version <= ${from}::int
                AND until_version > ${from}::int
                AND until_version <= ${to}::int
            ), paired AS (
              SELECT came.example_id AS after_id, went.example_id AS before_id,
                coalesce(came.bytes, 0) + coalesce(went.bytes, 0) AS bytes
              FROM came
                FULL JOIN went USING (input_digest, nth)
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
              after.source_feedback_id AS after_source,
              before.example_id AS before_id, before.input AS before_input, before.answer AS before_answer,
              before.source_feedback_id AS before_source
            FROM shown
              LEFT JOIN dataset_examples AS after
                ON after.org_id = ${org_id} AND after.task_id = ${task_id} AND after.example_id = shown.after_id
              LEFT JOIN dataset_examples AS before
                ON before.org_id = ${org_id} AND before.task_id = ${task_id} AND before.example_id = shown.before_id
            ORDER BY shown.place DESC
          `.pipe(Effect.flatMap(decodeRows), Effect.orDie)
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

const noSuchVersions = Effect.fail(
  new NotFound({ detail: "No such two versions of one task's dataset exist in this organization" })
)

const decodeVersions = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ task_id: Schema.String, from: Schema.Int, to: Schema.Int }))
)

const ChangeRow = Schema.Struct({
  added: Schema.Int,
  replaced: Schema.Int,
  removed: Schema.Int,
  after_id: Schema.NullOr(ExampleId),
  after_input: Schema.NullOr(JsonObject),
  after_answer: Schema.NullOr(JsonObject),
  after_source: Schema.NullOr(FeedbackId),
  before_id: Schema.NullOr(ExampleId),
  before_input: Schema.NullOr(JsonObject),
  before_answer: Schema.NullOr(JsonObject),
  before_source: Schema.NullOr(FeedbackId)
})

const decodeRows = Schema.decodeUnknownEffect(Schema.Array(ChangeRow), { disableChecks: true })

const toChange = (row: typeof ChangeRow.Type): DatasetChange => ({
  after: exampleOf(row.after_id, row.after_input, row.after_answer, row.after_source),
  before: exampleOf(row.before_id, row.before_input, row.before_answer, row.before_source)
})

const exampleOf = (
  id: Example["id"] | null,
  input: JsonObject | null,
  answer: JsonObject | null,
  source_feedback_id: Example["source_feedback_id"]
): Example | null =>
  id === null || input === null || answer === null ? null : { id, input, answer, source_feedback_id }
