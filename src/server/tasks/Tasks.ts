import { Context, Effect, Layer, type Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type DatasetBusy,
  type InvalidSchema,
  type InvalidUrl,
  LimitReached,
  type NotFound,
  ProviderKeyExists,
  TaskInUse
} from "../../api/Problems.ts"
import type { NewTask, TaskChange } from "../../api/Tasks.ts"
import type { Deletion } from "../../domain/deletion/Deletion.ts"
import { isSameJson } from "../../domain/json/CanonicalJson.ts"
import { type OrgId, ReleaseId, TaskId } from "../../domain/Ids.ts"
import {
  withProviderDefaults,
  defaultProvider,
  type NewProvider,
  Provider
} from "../../domain/tasks/Provider.ts"
import { schemaWarnings } from "../../domain/tasks/schemaWarnings.ts"
import type { JsonSchema, SavedTask, Task } from "../../domain/tasks/Task.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { Audit } from "../identity/Audit.ts"
import { atomic } from "../store/transaction.ts"
import { tryAcquireDatasetLock } from "./Datasets/datasetLock.ts"
import { ProviderEgress } from "../egress/Egress.ts"
import { invalidUrl } from "../egress/invalidUrl.ts"
import { Organizations } from "../identity/Organizations.ts"
import { type Page, toPageWithinBytes } from "../store/Pagination.ts"
import { insertProviderKey, upsertProviderKey } from "./Providers/providerKeys.ts"
import { insertRelease } from "./Releases/rows.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { removeTask } from "./Tasks/removeTask.ts"
import {
  countTasks,
  findTask,
  insertTask,
  listTasks,
  type TaskRow,
  toTask,
  updateTask
} from "./Tasks/rows.ts"

/** Tasks of one organization. */
const MAX_TASKS = 10_000

/** A provider in a request that contains its API key. */
type ProviderWithKey = Extract<NewProvider, { readonly kind: "openai" }> & {
  readonly api_key: Redacted.Redacted
}

const isKeyed = (provider: NewProvider | undefined): provider is ProviderWithKey =>
  provider?.kind === "openai" && provider.api_key !== undefined

/** The base URL without trailing slashes, as releases store it. */
const normalizedUrl = ({ base_url }: ProviderWithKey): string => base_url.replace(/\/+$/, "")

const isSameProvider = Schema.toEquivalence(Provider)

/** A compiled schema as JSON, and its digest. */
interface SchemaWithDigest {
  readonly schema: JsonSchema
  readonly digest: string
}

/** The schema after an update. A request that repeats the stored schema, in any key order, does not change it. */
const updatedSchema = (
  stored: SchemaWithDigest,
  requested: SchemaWithDigest | undefined
): SchemaWithDigest =>
  requested === undefined || isSameJson(requested.schema, stored.schema) ? stored : requested

/** Warnings about the schemas of a request. */
const warningsOf = ({ answer_schema, input_schema }: TaskChange): SavedTask["warnings"] => [
  ...(input_schema === undefined ? [] : schemaWarnings(input_schema, "#/input_schema")),
  ...(answer_schema === undefined ? [] : schemaWarnings(answer_schema, "#/answer_schema"))
]

/** Tasks: a question that an AI answers repeatedly, with its schemas and the working copy of its instructions and provider. */
export class Tasks extends Context.Service<
  Tasks,
  {
    /** Lists tasks, newest first. */
    readonly list: (
      request: PageRequest<TaskId>
    ) => Effect.Effect<Page<Task, TaskId>, never, Authorized<"tasks.read">>
    /** Returns one task with its working copy and its live release. */
    readonly get: (id: TaskId) => Effect.Effect<Task, NotFound, Authorized<"tasks.read">>
    /**
     * Creates the task and its first release, which is live immediately. Warns of keywords of the schemas that have no
     * effect.
     */
    readonly create: (
      input: NewTask
    ) => Effect.Effect<SavedTask, InvalidSchema | InvalidUrl | LimitReached, Authorized<"tasks.write">>
    /**
     * Updates the name and the working copy, which the next comparison uses. The live release does not change. Warns of
     * keywords of new schemas that have no effect.
     */
    readonly update: (
      id: TaskId,
      change: TaskChange
    ) => Effect.Effect<
      SavedTask,
      NotFound | InvalidSchema | InvalidUrl | TaskInUse,
      Authorized<"tasks.write">
    >
    /** Deletes the task at once, and requests the deletion of everything that belongs to it. */
    readonly remove: (
      id: TaskId
    ) => Effect.Effect<Deletion, NotFound | DatasetBusy, Authorized<"data.delete">>
    /** Fails if the base URL of a requested provider is not allowed. `pointer` is the provider's JSON pointer in the request. */
    readonly vetProvider: (
      provider: NewProvider | undefined,
      pointer: string
    ) => Effect.Effect<void, InvalidUrl>
    /**
     * Stores the API key of a requested provider, if it contains one, in the caller's transaction, which has locked the task's row. Fails
     * if the task has a different key for the base URL, because the live release may use that key.
     */
    readonly addKey: (
      org_id: OrgId,
      task_id: TaskId,
      provider: NewProvider | undefined,
      pointer: string,
      now: Timestamp
    ) => Effect.Effect<void, ProviderKeyExists>
  }
>()("countersign/server/tasks/Tasks") {
  static readonly layer = Layer.effect(
    Tasks,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const box = yield* SecretBox
      const clock = yield* StoreClock
      const egress = yield* ProviderEgress
      const organizations = yield* Organizations
      const schemas = yield* CompiledSchemas

      const vetProvider = Effect.fn("Tasks.vetProvider")(function* (
        provider: NewProvider | undefined,
        pointer: string
      ) {
        if (provider?.kind !== "openai") return
        yield* Effect.mapError(egress.vet(provider.base_url), invalidUrl(`${pointer}/base_url`))
      })

      const compiled = Effect.fnUntraced(function* (schema: JsonSchema | undefined, at: string) {
        if (schema === undefined) return
        const { digest } = yield* schemas.compile(schema, at)
        return { schema, digest }
      })

      const saveKey = Effect.fn("Tasks.saveKey")(function* (
        org_id: OrgId,
        task_id: TaskId,
        provider: NewProvider | undefined,
        now: Timestamp
      ) {
        if (!isKeyed(provider)) return
        yield* upsertProviderKey(sql, box, org_id, task_id, normalizedUrl(provider), provider.api_key, now)
      }, Effect.orDie)

      const addKey = Effect.fn("Tasks.addKey")(function* (
        org_id: OrgId,
        task_id: TaskId,
        provider: NewProvider | undefined,
        pointer: string,
        now: Timestamp
      ) {
        if (!isKeyed(provider)) return
        const isStored = yield* Effect.orDie(
          insertProviderKey(sql, box, org_id, task_id, normalizedUrl(provider), provider.api_key, now)
        )
        if (isStored) return
        return yield* new ProviderKeyExists({
          detail:
            "The task has a different key for this base URL. Omit `api_key`, or replace the key by a PATCH of the task.",
          errors: [{ pointer: `${pointer}/api_key`, detail: "differs from the task's key for this base URL" }]
        })
      })

      return Tasks.of({
        vetProvider,
        addKey,
        list: Effect.fn("Tasks.list")(function* (request) {
          const { org_id } = yield* Authorized("tasks.read")
          return toPageWithinBytes(yield* listTasks(sql, org_id, request), toTask, (row) => row.task_id)
        }, Effect.orDie),
        get: Effect.fn("Tasks.get")(function* (id) {
          const { org_id } = yield* Authorized("tasks.read")
          return toTask(yield* findTask(sql, org_id, id))
        }),
        create: Effect.fn("Tasks.create")(function* (input) {
          const principal = yield* Authorized("tasks.write")
          const { actor, org_id } = principal
          const inputs = yield* schemas.compile(input.input_schema, "#/input_schema")
          const answers = yield* schemas.compile(input.answer_schema, "#/answer_schema")
          yield* vetProvider(input.provider, "#/provider")
          const now = yield* clock.now
          const row: TaskRow = {
            task_id: yield* TaskId.generate,
            name: input.name,
            instructions: input.instructions ?? "",
            input_schema: input.input_schema,
            answer_schema: input.answer_schema,
            input_schema_digest: inputs.digest,
            answer_schema_digest: answers.digest,
            provider: input.provider === undefined ? defaultProvider : withProviderDefaults(input.provider),
            revision: 1,
            live_release_id: yield* ReleaseId.generate,
            self_review: input.self_review ?? true,
            review_share: input.review_share ?? 0,
            dataset_id: null,
            first_run_at: null,
            created_at: now,
            created_by_id: actor.id,
            created_by_name: actor.name,
            provider_key_set: isKeyed(input.provider)
          }
          return yield* atomically(
            Effect.gen(function* () {
              // Serializes creations of the organization, so that concurrent ones cannot exceed the limit.
              yield* organizations.lockForUpdate(org_id)
              if ((yield* countTasks(sql, org_id)) >= MAX_TASKS) {
                return yield* new LimitReached({
                  detail: `An organization can have at most ${MAX_TASKS} tasks.`
                })
              }
              yield* insertTask(sql, org_id, row)
              yield* insertRelease(sql, org_id, {
                id: row.live_release_id,
                task_id: row.task_id,
                instructions: row.instructions,
                provider: row.provider,
                dataset_id: null,
                comparison_id: null,
                restored_release_id: null,
                created_at: now,
                created_by: actor
              })
              yield* saveKey(org_id, row.task_id, input.provider, now)
              yield* audit.record(principal, "task.created", row.task_id, { name: row.name })
              return { ...toTask(row), warnings: warningsOf(input) }
            })
          )
        }),
        remove: Effect.fn("Tasks.remove")(function* (id) {
          const principal = yield* Authorized("data.delete")
          return yield* atomically(removeTask({ sql, audit, clock }, principal, id))
        }),
        update: Effect.fn("Tasks.update")(function* (id, change) {
          const principal = yield* Authorized("tasks.write")
          const { org_id } = principal
          const { answer_schema, input_schema, provider } = change
          const inputs = yield* compiled(input_schema, "#/input_schema")
          const answers = yield* compiled(answer_schema, "#/answer_schema")
          yield* vetProvider(provider, "#/provider")
          const now = yield* clock.now
          return yield* atomically(
            Effect.gen(function* () {
              const row = yield* findTask(sql, org_id, id, "FOR NO KEY UPDATE")
              const input = updatedSchema(
                { schema: row.input_schema, digest: row.input_schema_digest },
                inputs
              )
              const answer = updatedSchema(
                { schema: row.answer_schema, digest: row.answer_schema_digest },
                answers
              )
              const hasNewSchema =
                input.digest !== row.input_schema_digest || answer.digest !== row.answer_schema_digest
              if (hasNewSchema && (row.first_run_at !== null || row.dataset_id !== null)) {
                return yield* new TaskInUse({
                  detail:
                    "Schemas cannot change once a task has runs or a dataset. Create a new task instead."
                })
              }
              if (hasNewSchema && !(yield* tryAcquireDatasetLock(sql, org_id, id))) {
                return yield* new TaskInUse({
                  detail:
                    "The task's first dataset version is being created, so its schemas cannot change. Retry only if creating that version fails."
                })
              }
              const copy = {
                instructions: change.instructions ?? row.instructions,
                provider: provider === undefined ? row.provider : withProviderDefaults(provider)
              }
              const isSame =
                copy.instructions === row.instructions && isSameProvider(copy.provider, row.provider)
              yield* updateTask(sql, org_id, {
                ...row,
                ...copy,
                name: change.name ?? row.name,
                self_review: change.self_review ?? row.self_review,
                review_share: change.review_share ?? row.review_share,
                input_schema: input.schema,
                answer_schema: answer.schema,
                input_schema_digest: input.digest,
                answer_schema_digest: answer.digest,
                revision: isSame ? row.revision : row.revision + 1
              })
              yield* saveKey(org_id, id, provider, now)
              // Only the names of the changed fields: instructions may be long, and a key is secret.
              yield* audit.record(principal, "task.updated", id, { changed: Object.keys(change) })
              return { ...toTask(yield* findTask(sql, org_id, id)), warnings: warningsOf(change) }
            })
          )
        })
      })
    })
  )
}
