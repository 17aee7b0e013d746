import { Context, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import {
  type DatasetBusy,
  InsufficientScope,
  InvalidHeaders,
  type InvalidInstructions,
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
import type { AuditAction } from "../../domain/identity/AuditEntry.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { type OrgId, ReleaseId, TaskId } from "../../domain/Ids.ts"
import {
  withProviderDefaults,
  defaultProvider,
  type NewProvider,
  Provider
} from "../../domain/tasks/Provider.ts"
import { checkProviderHeaders } from "../../domain/tasks/checkProviderHeaders.ts"
import { schemaWarnings } from "../../domain/tasks/schemaWarnings.ts"
import type { JsonSchema, Release, SavedTask, Task } from "../../domain/tasks/Task.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { Audit } from "../identity/Audit.ts"
import { atomic } from "../store/transaction.ts"
import { tryAcquireDatasetLock } from "./Datasets/datasetLock.ts"
import { ProviderEgress } from "../egress/Egress.ts"
import { invalidUrl } from "../egress/invalidUrl.ts"
import { Organizations } from "../identity/Organizations.ts"
import { type Page, toPageWithinBytes } from "../store/Pagination.ts"
import { insertProviderKey, upsertProviderKey } from "./Providers/providerKeys.ts"
import { checkInstructions } from "./checkInstructions.ts"
import { insertRelease } from "./Releases/rows.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { removeTask } from "./Tasks/removeTask.ts"
import {
  countTasks,
  findTask,
  insertTask,
  isReviewer,
  listTasks,
  type TaskRow,
  toTask,
  updateTask
} from "./Tasks/rows.ts"

/** Tasks of one organization. */
const MAX_TASKS = 10_000

/** The model provider of a request, as it is stored, and its credentials. */
const modelOf = (requested: NewProvider | undefined) => {
  if (requested === undefined || requested.kind === "examples") return undefined
  const provider = withProviderDefaults(requested)
  if (provider.kind === "examples") return undefined
  const { api_key, headers } = requested
  return { provider, credentials: { api_key, headers } }
}

const isWithCredentials = (requested: NewProvider | undefined): boolean => {
  const credentials = modelOf(requested)?.credentials
  return credentials?.api_key !== undefined || credentials?.headers !== undefined
}

/** Another key or header can lead to another model behind the same URL, which has not been measured. */
const needsRulesWrite = Effect.fail(
  new InsufficientScope({
    detail:
      "The credentials of a reviewer model's task can lead to another model, so setting them needs the scope rules.write too.",
    required_scope: "rules.write"
  })
)

const isSameProvider = Schema.toEquivalence(Provider)

/** A compiled schema as JSON, and its digest. */
interface SchemaWithDigest {
  readonly schema: JsonSchema
  readonly digest: string
}

/** The schema after an update. A request that repeats the stored schema, in any key order, does not change it. */
const updatedSchema = (stored: SchemaWithDigest, requested: SchemaWithDigest | undefined): SchemaWithDigest =>
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
    ) => Effect.Effect<
      SavedTask,
      InvalidSchema | InvalidInstructions | InvalidUrl | InvalidHeaders | LimitReached,
      Authorized<"tasks.write">
    >
    /** `create` for a caller that records another action: a task of a fixed kind. */
    readonly createAs: (
      principal: Principal,
      input: NewTask,
      action: AuditAction
    ) => Effect.Effect<
      SavedTask,
      InvalidSchema | InvalidInstructions | InvalidUrl | InvalidHeaders | LimitReached
    >
    /**
     * Updates the name and the working copy, which the next comparison uses. The live release does not change. Warns of
     * keywords of new schemas that have no effect. Credentials of a reviewer model, which its live release uses at once, need `rules.write`.
     */
    readonly update: (
      id: TaskId,
      change: TaskChange
    ) => Effect.Effect<
      SavedTask,
      | NotFound
      | InvalidSchema
      | InvalidInstructions
      | InvalidUrl
      | InvalidHeaders
      | TaskInUse
      | InsufficientScope,
      Authorized<"tasks.write">
    >
    /** Deletes the task at once, and requests the deletion of everything that belongs to it. */
    readonly remove: (
      id: TaskId
    ) => Effect.Effect<Deletion, NotFound | DatasetBusy, Authorized<"data.delete">>
    /** Fails if the base URL or a header of a requested provider is not allowed. `pointer` is the provider's JSON pointer in the request. */
    readonly vetProvider: (
      provider: NewProvider | undefined,
      pointer: string
    ) => Effect.Effect<void, InvalidUrl | InvalidHeaders>
    /**
     * Stores the API key and headers of a requested provider, if it contains any, in the caller's transaction, which has locked the task's
     * row. Fails if the task has different ones for the base URL, because the live release may use them. Those of a reviewer model need
     * `rules.write`, as by `update`.
     */
    readonly addKey: (
      principal: Principal,
      task_id: TaskId,
      provider: NewProvider | undefined,
      pointer: string,
      now: Timestamp
    ) => Effect.Effect<void, ProviderKeyExists | InsufficientScope>
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
        const model = modelOf(provider)
        if (model === undefined) return
        const { headers = {} } = model.credentials
        const faults = checkProviderHeaders(
          Object.entries(headers).map(([name, value]) => [name, Redacted.value(value)])
        )
        const [fault] = faults
        if (fault !== undefined) {
          return yield* new InvalidHeaders({
            detail: fault.detail,
            errors: faults.map((one) => ({ pointer: pointer + one.pointer.slice(1), detail: one.detail }))
          })
        }
        yield* Effect.mapError(egress.vet(model.provider.base_url), invalidUrl(`${pointer}/base_url`))
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
        const model = modelOf(provider)
        if (model === undefined) return
        const { base_url } = model.provider
        yield* upsertProviderKey(sql, box, org_id, task_id, base_url, model.credentials, now)
      }, Effect.orDie)

      const addKey = Effect.fn("Tasks.addKey")(function* (
        { org_id, scopes }: Principal,
        task_id: TaskId,
        provider: NewProvider | undefined,
        pointer: string,
        now: Timestamp
      ) {
        const model = modelOf(provider)
        if (model === undefined) return
        if (
          isWithCredentials(provider) &&
          !scopes.has("rules.write") &&
          (yield* isReviewer(sql, org_id, task_id))
        )
          return yield* needsRulesWrite
        const { base_url } = model.provider
        const different = yield* Effect.orDie(
          insertProviderKey(sql, box, org_id, task_id, base_url, model.credentials, now)
        )
        const [first] = different
        if (first === undefined) return
        return yield* new ProviderKeyExists({
          detail:
            first === "api_key"
              ? "The task has a different key for this base URL. Omit `api_key`, or replace the key by a PATCH of the task."
              : "The task has different headers for this base URL. Omit `headers`, or replace them by a PATCH of the task.",
          errors: different.map((name) => ({
            pointer: `${pointer}/${name}`,
            detail: "differs from what the task has for this base URL"
          }))
        })
      })

      const createAs: Tasks["Service"]["createAs"] = Effect.fn("Tasks.createAs")(
        function* (principal, input, action) {
          const { actor, org_id } = principal
          const inputs = yield* schemas.compile(input.input_schema, "#/input_schema")
          const answers = yield* schemas.compile(input.answer_schema, "#/answer_schema")
          yield* checkInstructions(input.instructions, input.input_schema, "#/instructions")
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
            canary_release_id: null,
            self_review: input.self_review ?? true,
            review_share: input.review_share ?? 0,
            dataset_id: null,
            first_run_at: null,
            created_at: now,
            created_by_id: actor.id,
            created_by_name: actor.name,
            provider_key_set: modelOf(input.provider)?.credentials.api_key !== undefined,
            provider_headers_set: Object.keys(modelOf(input.provider)?.credentials.headers ?? {}).length > 0
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
              const first: Omit<Release, "number"> = {
                id: row.live_release_id,
                task_id: row.task_id,
                instructions: row.instructions,
                provider: row.provider,
                dataset_id: null,
                comparison_id: null,
                restored_release_id: null,
                created_at: now,
                created_by: actor
              }
              yield* insertRelease(sql, org_id, first, null)
              yield* saveKey(org_id, row.task_id, input.provider, now)
              yield* audit.record(principal, action, row.task_id)
              return { ...toTask(row), warnings: warningsOf(input) }
            })
          )
        }
      )

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
        createAs,
        create: Effect.fn("Tasks.create")(function* (input) {
          return yield* createAs(yield* Authorized("tasks.write"), input, "task.created")
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
              const hasNewCredentials = isWithCredentials(provider)
              const decidesSteps = (hasNewSchema || hasNewCredentials) && (yield* isReviewer(sql, org_id, id))
              if (decidesSteps && hasNewCredentials && !principal.scopes.has("rules.write"))
                return yield* needsRulesWrite
              if (decidesSteps && hasNewSchema) {
                return yield* new TaskInUse({
                  detail: "The schemas of a reviewer model's task are fixed. Change its instructions instead."
                })
              }
              if (hasNewSchema && !(yield* tryAcquireDatasetLock(sql, org_id, id))) {
                return yield* new TaskInUse({
                  detail:
                    "The task's first dataset version is being created, so its schemas cannot change. Retry only if creating that version fails."
                })
              }
              if (change.instructions !== undefined || input.digest !== row.input_schema_digest) {
                const at = change.instructions === undefined ? "#/input_schema" : "#/instructions"
                yield* checkInstructions(change.instructions ?? row.instructions, input.schema, at)
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
