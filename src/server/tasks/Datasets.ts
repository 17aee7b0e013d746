import { Context, Effect, Layer, Option, type Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { NewDataset } from "../../api/Datasets.ts"
import { notFound } from "../../api/notFound.ts"
import { DEFAULT_LIMIT, type PageRequest } from "../../api/Pagination.ts"
import {
  type DatasetBaseChanged,
  type LimitReached,
  type DatasetBusy,
  type DatasetInUse,
  InvalidInput,
  InvalidRequest,
  type NotFound
} from "../../api/Problems.ts"
import type { Deletion } from "../../domain/deletion/Deletion.ts"
import type { CreatedDataset, Dataset, Example, NewExample } from "../../domain/tasks/Dataset.ts"
import type { DatasetId, ExampleId, OrgId, TaskId } from "../../domain/Ids.ts"
import type { KnownValues } from "../../domain/redaction/Redaction.ts"
import { makeKeyedSemaphore } from "../admission/KeyedSemaphore.ts"
import { Audit, type Author } from "../identity/Audit.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { atomic, atomicWithoutRetry, isInTransaction } from "../store/transaction.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { KnownSecrets } from "../secrets/KnownSecrets.ts"
import { CompiledSchemas } from "./CompiledSchemas.ts"
import { beginVersion, type DerivedVersion, type NewVersion } from "./Datasets/beginVersion.ts"
import { checkExamples } from "./Datasets/checkExamples.ts"
import { acquireDatasetLock, datasetBusy } from "./Datasets/datasetLock.ts"
import { type ImportedVersion, importLines, type InvalidLine } from "./Datasets/importLines.ts"
import { verifyVersion, type VerifiedVersion } from "./Datasets/verifyVersion.ts"
import { readExamples } from "./Datasets/readExamples.ts"
import { removeVersion } from "./Datasets/removeVersion.ts"
import { redactExamples } from "./Datasets/redactExamples.ts"
import { findVersion, listVersions, toDataset } from "./Datasets/versionRows.ts"
import { findTask, type TaskRow } from "./Tasks/rows.ts"
import { redactionWarning, redactObject } from "./redactJson.ts"
import { requireTask } from "./requireTask.ts"

export type { DerivedVersion, NewVersion } from "./Datasets/beginVersion.ts"

/** Examples per query of an export. */
const EXPORT_BATCH_SIZE = 200

/**
 * The versions of tasks' datasets. A version is immutable, and storing one costs as much as its difference from the previous version. All
 * versions of a task share one table of examples. Each example has the first version that contains it and the first that no longer does.
 */
export class Datasets extends Context.Service<
  Datasets,
  {
    /** Lists the versions of a task's dataset, newest first. */
    readonly list: (
      task_id: TaskId,
      request: PageRequest<DatasetId>
    ) => Effect.Effect<Page<Dataset, DatasetId>, NotFound | InvalidRequest, Authorized<"datasets.read">>
    /** Returns one version: its number, size and digest. */
    readonly get: (id: DatasetId) => Effect.Effect<Dataset, NotFound, Authorized<"datasets.read">>
    /**
     * Deletes a version at once, and requests the deletion of the examples that no other version has. Fails if the live
     * release or a running comparison uses it, or if it is the newest.
     */
    readonly remove: (
      id: DatasetId
    ) => Effect.Effect<Deletion, NotFound | DatasetInUse | DatasetBusy, Authorized<"data.delete">>
    /** Lists the examples of a version, newest first. A page of large examples has fewer than `limit`. */
    readonly examples: (
      id: DatasetId,
      request: PageRequest<ExampleId>
    ) => Effect.Effect<Page<Example, ExampleId>, NotFound, Authorized<"datasets.read">>
    /**
     * Streams the examples of a version that follow `after`, by default all, newest first and without secrets. Reads one page at a time, as
     * the stream is consumed. Dies at the end if the version was deleted meanwhile.
     */
    readonly export: (
      id: DatasetId,
      after?: ExampleId
    ) => Effect.Effect<Stream.Stream<Example>, NotFound, Authorized<"datasets.read">>
    /**
     * Like `export`, for the operator's command line, which has no API key. It cannot decrypt credentials, and removes
     * only other secrets.
     */
    readonly exportFor: (
      org_id: OrgId,
      id: DatasetId,
      after?: ExampleId
    ) => Effect.Effect<Stream.Stream<Example>, NotFound>
    /** Computes the content digest of a version from its examples and tombstones as they are stored, beside the recorded one. */
    readonly verify: (org_id: OrgId, id: DatasetId) => Effect.Effect<VerifiedVersion, NotFound>
    /**
     * Creates the first version from examples, or the next version by removing examples from `base_dataset_id` and adding others; see
     * `derive`. Removes protected values from the examples.
     */
    readonly create: (
      task_id: TaskId,
      input: NewDataset
    ) => Effect.Effect<
      CreatedDataset,
      NotFound | InvalidInput | InvalidRequest | DatasetBaseChanged | DatasetBusy | LimitReached,
      Authorized<"datasets.write">
    >
    /**
     * Creates the task's next version from JSON Lines, one example per line: all lines or none. For the operator's
     * command line, which has no API key and cannot decrypt credentials: it removes only other protected values. The
     * dataset is locked meanwhile. Calls `progress` after each line with the number of lines read.
     */
    readonly importLines: <E>(
      org_id: OrgId,
      task_id: TaskId,
      lines: Stream.Stream<string, E>,
      progress: (read: number) => Effect.Effect<void>
    ) => Effect.Effect<ImportedVersion, NotFound | InvalidLine | E>
    /**
     * Creates the next version from the base and these examples, in the caller's transaction, and locks the dataset until the transaction
     * ends. An example replaces the base's examples with the same input (as JSON, in any key order); otherwise it is added. Of several
     * examples with the same input the last one counts. Fails if `base` is not the task's newest version. The caller has validated the
     * examples against the task's schemas. The stream is consumed in batches, so the examples need not fit into memory together. It must
     * not be empty.
     */
    readonly derive: (
      version: NewVersion,
      examples: Stream.Stream<NewExample>
    ) => Effect.Effect<DerivedVersion, NotFound | DatasetBaseChanged | DatasetBusy>
    /**
     * Runs transactions of this replica that change one dataset one after another. A waiting transaction has no connection and does not
     * count against the organization's concurrent transactions, so the organization's other requests proceed however many wait. Within a
     * transaction, which already has its connection, this does not wait. Fails with `DATASET_BUSY` after five seconds of waiting.
     */
    readonly serialize: (
      org_id: OrgId,
      task_id: TaskId
    ) => <A, E, R>(transaction: Effect.Effect<A, E, R>) => Effect.Effect<A, E | DatasetBusy, R>
  }
>()("countersign/server/tasks/Datasets") {
  static readonly layer = Layer.effect(
    Datasets,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const clock = yield* StoreClock
      const schemas = yield* CompiledSchemas
      const secrets = yield* KnownSecrets
      const usage = yield* StoredUsage
      const semaphore = makeKeyedSemaphore({ permits: 1, onTimeout: datasetBusy })

      const schemaOf = (digest: string, schema: Schema.Json) => schemas.get(digest, Effect.succeed(schema))

      const serialize: Datasets["Service"]["serialize"] = (org_id, task_id) => (transaction) =>
        Effect.flatMap(isInTransaction, (isNested) =>
          isNested ? transaction : semaphore(`${org_id}/${task_id}`)(transaction)
        )

      /** Counts a version as stored once its transaction commits. */
      const countVersion = (org_id: OrgId, { bytes }: DerivedVersion) =>
        sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes })))

      const recordCreated = (author: Author, { added, dataset, removed, replaced }: DerivedVersion) =>
        audit.record(author, "dataset.created", dataset.id, {
          task_id: dataset.task_id,
          version: dataset.version,
          added,
          replaced,
          removed
        })

      const requireVersion = Effect.fnUntraced(function* (org_id: OrgId, id: DatasetId) {
        return (yield* Effect.orDie(findVersion(sql, org_id, id))) ?? (yield* notFound("dataset"))
      })

      /** Rejects a cursor of another task's list, which would otherwise look like an empty last page. */
      const requireCursor = Effect.fnUntraced(function* (org_id: OrgId, task_id: TaskId, cursor: DatasetId) {
        const version = yield* Effect.orDie(findVersion(sql, org_id, cursor))
        if (version?.task_id !== task_id) return yield* invalidCursor
      })

      const exportFor = Effect.fn("Datasets.exportFor")(function* (
        org_id: OrgId,
        id: DatasetId,
        first?: ExampleId
      ) {
        const version = yield* requireVersion(org_id, id)
        const known = yield* secrets.forOrg(org_id)
        const examples = Stream.paginate(
          first,
          Effect.fnUntraced(function* (after: ExampleId | undefined) {
            const page = yield* readExamples(sql, org_id, version, { after, limit: EXPORT_BATCH_SIZE })
            // A worker deletes the examples of a deleted version: what is left must not look like the whole version.
            if (page.next_cursor === null && (yield* findVersion(sql, org_id, id)) === undefined) {
              return yield* Effect.die(new Error(`Dataset version ${id} was deleted during its export`))
            }
            return [page.items, Option.fromNullOr(page.next_cursor)] as const
          }, Effect.orDie)
        )
        return Stream.mapEffect(examples, (example) => redactExample(example, known))
      })

      return Datasets.of({
        serialize,
        verify: Effect.fn("Datasets.verify")(function* (org_id, id) {
          return yield* verifyVersion(sql, org_id, yield* requireVersion(org_id, id))
        }),
        list: Effect.fn("Datasets.list")(function* (task_id, request) {
          const { org_id } = yield* Authorized("datasets.read")
          const rows = yield* Effect.orDie(listVersions(sql, org_id, task_id, request))
          if (rows.length === 0) {
            yield* requireTask(sql, org_id, task_id)
            if (request.cursor !== undefined) yield* requireCursor(org_id, task_id, request.cursor)
          }
          return toPage(request, rows.map(toDataset), (dataset) => dataset.id)
        }),
        get: Effect.fn("Datasets.get")(function* (id) {
          const { org_id } = yield* Authorized("datasets.read")
          return toDataset(yield* requireVersion(org_id, id))
        }),
        remove: Effect.fn("Datasets.remove")(function* (id) {
          const principal = yield* Authorized("data.delete")
          const { task_id } = yield* requireVersion(principal.org_id, id)
          const transaction = atomically(removeVersion({ sql, audit, clock, usage }, principal, task_id, id))
          return yield* serialize(principal.org_id, task_id)(transaction)
        }),
        examples: Effect.fn("Datasets.examples")(function* (id, request) {
          const { org_id } = yield* Authorized("datasets.read")
          const version = yield* requireVersion(org_id, id)
          const limit = request.limit ?? DEFAULT_LIMIT
          return yield* Effect.orDie(readExamples(sql, org_id, version, { after: request.cursor, limit }))
        }),
        export: Effect.fn("Datasets.export")(function* (id, after) {
          const principal = yield* Authorized("datasets.read")
          const { task_id, version } = yield* requireVersion(principal.org_id, id)
          yield* atomically(audit.record(principal, "dataset.exported", id, { task_id, version }))
          return yield* exportFor(principal.org_id, id, after)
        }),
        exportFor,
        create: Effect.fn("Datasets.create")(function* (
          task_id,
          { base_dataset_id, examples = [], remove = [], remove_inputs = [] }
        ) {
          const principal = yield* Authorized("datasets.write")
          const { actor, org_id } = principal
          const removed = remove.length + remove_inputs.length
          if (examples.length + removed === 0) return yield* noChange
          // What removes data needs no room for more.
          if (examples.length > 0) yield* usage.requireCapacity(org_id)
          const now = yield* clock.now
          const known = yield* secrets.forOrg(org_id)
          const prepare = Effect.fnUntraced(function* (task: TaskRow) {
            const inputs = yield* schemaOf(task.input_schema_digest, task.input_schema)
            const answers = yield* schemaOf(task.answer_schema_digest, task.answer_schema)
            yield* checkExamples({ inputs, answers }, examples)
            return yield* redactExamples({ inputs, answers }, examples, known)
          })
          // Before the transaction, so that validating many examples does not extend the time that the dataset is locked.
          const checked = yield* findTask(sql, org_id, task_id)
          const prepared = yield* prepare(checked)
          const transaction = atomically(
            Effect.gen(function* () {
              yield* acquireDatasetLock(sql, org_id, task_id)
              const task = yield* findTask(sql, org_id, task_id)
              // Schemas can change until the task's first run or version, so they may have changed since the check.
              const { examples: stored, warning } =
                task.input_schema_digest === checked.input_schema_digest &&
                task.answer_schema_digest === checked.answer_schema_digest
                  ? prepared
                  : yield* prepare(task)
              const version = yield* beginVersion(sql, {
                org_id,
                task_id,
                base: base_dataset_id ?? null,
                by: actor,
                now
              })
              const missing = removed === 0 ? [] : yield* version.remove(remove, remove_inputs)
              if (missing.length > 0) return yield* notInBase(missing)
              for (const example of stored)
                yield* version.put({ ...example, source_feedback_id: null, origin: "made" })
              const derived = (yield* version.finish) ?? (yield* noExampleLeft)
              yield* countVersion(org_id, derived)
              yield* recordCreated(principal, derived)
              return {
                ...derived.dataset,
                examples_added: derived.added,
                examples_replaced: derived.replaced,
                examples_removed: derived.removed,
                examples_repeated: derived.repeated,
                ...(warning === undefined ? {} : { redaction_warning: warning })
              }
            })
          )
          return yield* serialize(org_id, task_id)(transaction)
        }),
        importLines: Effect.fn("Datasets.importLines")(function* (org_id, task_id, lines, progress) {
          const now = yield* clock.now
          const known = yield* secrets.forOrg(org_id)
          return yield* importLines(sql, { org_id, task_id, now, schemaOf, known }, lines, progress).pipe(
            Effect.tap((derived) => countVersion(org_id, derived)),
            Effect.tap((derived) => recordCreated({ org_id, actor: null }, derived)),
            // The stream of lines can be consumed only once: a second attempt would continue in the middle.
            atomicWithoutRetry(sql)
          )
        }),
        derive: Effect.fn("Datasets.derive")(function* (newVersion, examples) {
          yield* acquireDatasetLock(sql, newVersion.org_id, newVersion.task_id)
          const version = yield* beginVersion(sql, newVersion)
          yield* Stream.runForEach(examples, version.put)
          const derived = yield* finishNonEmpty(version)
          yield* countVersion(newVersion.org_id, derived)
          return derived
        }, dieOnDatabaseError)
      })
    })
  )
}

/** Removes secrets from an example before it leaves by an export. The stored example does not change. */
const redactExample = Effect.fnUntraced(function* (example: Example, known: KnownValues) {
  const input = yield* redactObject(example.input, known, "#/input")
  const answer = yield* redactObject(example.answer, known, "#/answer")
  const count = input.count + answer.count
  if (count === 0) return example
  const redaction_warning = redactionWarning({ count, pointers: [...input.pointers, ...answer.pointers] })
  return { ...example, input: input.value, answer: answer.value, redaction_warning }
})

const noChange = Effect.fail(
  new InvalidRequest({
    detail: "Send `examples` to add, `remove` or `remove_inputs`.",
    errors: [{ pointer: "#/examples", detail: "is required without remove" }]
  })
)

/** Maximum number of fields that a problem names. */
const MAX_NAMED = 20

const notInBase = (pointers: ReadonlyArray<string>) =>
  Effect.fail(
    new InvalidInput({
      detail: "An example to remove is not in the base version. Nothing was changed.",
      errors: pointers
        .slice(0, MAX_NAMED)
        .map((pointer) => ({ pointer, detail: "is not in the base version" }))
    })
  )

const noExampleLeft = Effect.fail(
  new InvalidInput({
    detail: "A dataset version needs at least one example, and this one would have none.",
    errors: [{ pointer: "#/examples", detail: "is required: every example of the base would be removed" }]
  })
)

/** Finishes a version with at least one example; an empty one is a defect of the caller. */
const finishNonEmpty = Effect.fnUntraced(function* (
  version: Effect.Success<ReturnType<typeof beginVersion>>
) {
  return (yield* version.finish) ?? (yield* Effect.die(new Error("A dataset version needs an example")))
})

const invalidCursor = Effect.fail(
  new InvalidRequest({
    detail: "The cursor does not belong to this list. Send the `next_cursor` of its last page, unchanged.",
    errors: [{ pointer: "#/cursor", detail: "does not belong to this list" }]
  })
)
