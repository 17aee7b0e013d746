import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import {
  MAX_CONCURRENT_TRIES,
  MAX_MESSAGE_TEXT,
  type PlaygroundAnswer,
  type PlaygroundRequest
} from "../../api/console/Playground.ts"
import { notFound } from "../../api/notFound.ts"
import { InvalidInput, type NotFound, RateLimited } from "../../api/Problems.ts"
import { describeFirst } from "../../domain/describeIssue.ts"
import { type DatasetId, ExampleId, type OrgId, type TaskId } from "../../domain/Ids.ts"
import { redactFaults } from "../../domain/redaction/Redaction/redactFaults.ts"
import { JsonObject } from "../../domain/tasks/Dataset.ts"
import { costOf } from "../../domain/tasks/Provider.ts"
import { monotonicNow } from "../concurrency/monotonicMillis.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { findVersion } from "./Datasets/versionRows.ts"
import { Providers } from "./Providers.ts"
import { findRelease } from "./Releases/rows.ts"
import { findTask } from "./Tasks/rows.ts"

/** The stored size above which an example is not returned. */
const MAX_EXAMPLE_BYTES = 16 * 1024

/** Answers inputs with releases and working copies, to try them. Nothing is logged and no figure of runs counts it. */
export class Playground extends Context.Service<
  Playground,
  {
    /**
     * Answers an input with a release of the task, or with its working copy. A failure of the provider is an answer, too. Inputs beyond the
     * organization's limit of concurrent ones are refused.
     */
    readonly answer: (
      task_id: TaskId,
      request: PlaygroundRequest
    ) => Effect.Effect<PlaygroundAnswer, NotFound | InvalidInput | RateLimited, Authorized<"tasks.write">>
  }
>()("countersign/server/tasks/Playground") {
  static readonly layer = Layer.effect(
    Playground,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const schemas = yield* CompiledSchemas
      const providers = yield* Providers
      const trying = new Map<OrgId, number>()

      /** Counts an input that waits for a provider: each may take two minutes. */
      const withSlot =
        (org_id: OrgId) =>
        <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | RateLimited, R> =>
          Effect.uninterruptibleMask((restore): Effect.Effect<A, E | RateLimited, R> => {
            const count = trying.get(org_id) ?? 0
            if (count >= MAX_CONCURRENT_TRIES) {
              return Effect.fail(
                new RateLimited({
                  detail: `The organization tries ${MAX_CONCURRENT_TRIES} inputs on this replica, which is the limit. Wait for one to end.`,
                  retry_after_seconds: 1
                })
              )
            }
            trying.set(org_id, count + 1)
            return Effect.ensuring(
              restore(self),
              Effect.sync(() => {
                const left = (trying.get(org_id) ?? 1) - 1
                if (left === 0) trying.delete(org_id)
                else trying.set(org_id, left)
              })
            )
          })

      /** The instructions, provider and dataset version that answer. */
      const readSide = Effect.fnUntraced(function* (
        org_id: OrgId,
        task_id: TaskId,
        { dataset_id: chosen, release_id }: PlaygroundRequest
      ) {
        const task = yield* findTask(sql, org_id, task_id)
        const release =
          release_id === undefined ? task : yield* Effect.orDie(findRelease(sql, org_id, release_id))
        if (release?.task_id !== task_id) return yield* notFound("release", "#/release_id")
        const { instructions, provider } = release
        const dataset_id = chosen === undefined ? release.dataset_id : chosen
        if (dataset_id === null) return { task, instructions, provider, version: undefined }
        const version = yield* Effect.orDie(findVersion(sql, org_id, dataset_id))
        // A release keeps the name of a version that was deleted: the provider then says so.
        if (version?.task_id !== task_id && chosen !== undefined) {
          return yield* notFound("dataset", "#/dataset_id")
        }
        return { task, instructions, provider, version: version ?? { dataset_id, version: null } }
      })

      return Playground.of({
        answer: Effect.fn("Playground.answer")(function* (task_id, request) {
          const { org_id, scopes } = yield* Authorized("tasks.write")
          const { input } = request
          return yield* Effect.gen(function* () {
            const { instructions, provider, task, version } = yield* readSide(org_id, task_id, request)
            const inputs = yield* Effect.orDie(schemas.compile(task.input_schema))
            const errors = redactFaults(inputs.check(input, "#/input"))
            if (errors.length > 0) {
              return yield* new InvalidInput({
                detail: `The input does not match the task's input schema: ${describeFirst(errors)}`,
                errors
              })
            }
            const answers = yield* Effect.orDie(schemas.compile(task.answer_schema))
            const start = yield* monotonicNow
            const outcome = yield* providers
              .answer({
                org_id,
                task_id,
                provider,
                instructions,
                dataset_id: version?.dataset_id ?? null,
                input,
                answer: { compiled: answers, schema: Effect.succeed(task.answer_schema) }
              })
              .pipe(
                Effect.map((answered) => ({ ...answered, failure: null })),
                Effect.catchTag("NoAnswer", ({ calls, detail, examples, usage }) =>
                  Effect.succeed({ answer: null, failure: detail, calls, examples, usage })
                )
              )
            const duration_ms = Math.round((yield* monotonicNow) - start)
            const showsExamples = scopes.has("datasets.read")
            const contents =
              showsExamples && version !== undefined
                ? yield* readContents(
                    sql,
                    org_id,
                    task_id,
                    version.dataset_id,
                    outcome.examples.map(({ id }) => id)
                  )
                : new Map<ExampleId, ExampleContent>()
            const messages = outcome.calls[0]?.messages
            return {
              provider,
              dataset_version: version?.version ?? null,
              answer: outcome.answer,
              failure: outcome.failure,
              examples: outcome.examples.map((example) => ({
                ...example,
                content: contents.get(example.id) ?? null
              })),
              prompt:
                messages === undefined || !showsExamples
                  ? null
                  : messages.map(({ content, role }) => ({
                      role,
                      text: content.slice(0, MAX_MESSAGE_TEXT),
                      omitted: Math.max(0, content.length - MAX_MESSAGE_TEXT)
                    })),
              calls: outcome.calls.length,
              usage: outcome.usage,
              cost: costOf(provider, outcome.usage),
              duration_ms
            }
          }).pipe(withSlot(org_id))
        }, dieOnDatabaseError)
      })
    })
  )
}

const ExampleContent = Schema.Struct({ input: JsonObject, answer: JsonObject })
type ExampleContent = typeof ExampleContent.Type

const contentRows = rowsOf(Schema.Struct({ example_id: ExampleId, ...ExampleContent.fields }))

/** Reads the content of examples of a version. */
const readContents = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  task_id: TaskId,
  dataset_id: DatasetId,
  ids: ReadonlyArray<ExampleId>
) =>
  ids.length === 0
    ? Effect.succeed(new Map<ExampleId, ExampleContent>())
    : Effect.map(
        contentRows.all(sql`
          SELECT example_id, input, answer
          FROM dataset_examples
          WHERE org_id = ${org_id}
            AND task_id = ${task_id}
            AND example_id = ANY(${textArray(ids)})
            AND bytes <= ${MAX_EXAMPLE_BYTES}::int
            AND EXISTS (SELECT 1 FROM datasets WHERE datasets.org_id = ${org_id} AND datasets.dataset_id = ${dataset_id})
        `),
        (rows) => new Map(rows.map(({ example_id, ...content }) => [example_id, content]))
      )
