import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { notFound } from "../../../api/notFound.ts"
import { DatasetBaseChanged } from "../../../api/Problems.ts"
import { ContentDigest } from "../../../domain/tasks/ContentDigest.ts"
import type { Dataset, JsonObject, NewExample } from "../../../domain/tasks/Dataset.ts"
import {
  DatasetId,
  type ExampleId,
  type FeedbackId,
  type OrgId,
  ReleaseId,
  type TaskId
} from "../../../domain/Ids.ts"
import type { Actor } from "../../../domain/identity/Principal.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { POSTING_BYTES, PostingBuffer } from "../../../domain/tasks/Postings.ts"
import { tokenize } from "../../../domain/tasks/tokenize.ts"
import { chunksByBytes } from "../../concurrency/chunksByBytes.ts"
import { rowBytes } from "../../identity/StoredUsage.ts"
import { rowsOf } from "../../store/rows.ts"
import {
  deleteInserted,
  digestMember,
  endExamples,
  findByIds,
  findSameInputs,
  inputDigest,
  insertExamples,
  type PreparedExample,
  readContents,
  type SameInputRow
} from "./exampleRows.ts"
import { endErased } from "./erasedRows.ts"
import { appendPostings } from "./postingRows.ts"
import { getContentState, getVersion, insertVersion, toDataset, type VersionRow } from "./versionRows.ts"

/** The dataset version to create. */
export interface NewVersion {
  readonly org_id: OrgId
  readonly task_id: TaskId
  /** The version that the change is based on; null for the task's first version. */
  readonly base: DatasetId | null
  readonly by: Actor
  readonly now: Timestamp
}

/** A version that was created, and its difference from the base. */
export interface DerivedVersion {
  readonly dataset: Dataset
  /** Examples whose input the base does not have. */
  readonly added: number
  /** Examples that replaced the base's example with the same input. */
  readonly replaced: number
  /** Examples of the base that were removed and not replaced. */
  readonly removed: number
  /** Examples that a later one with the same input took the place of, so that the version does not contain them. */
  readonly repeated: number
  /** The feedback that those examples were made from. */
  readonly superseded: ReadonlyArray<FeedbackId>
  /** Approximate size of the written examples. */
  readonly bytes: number
}

/** Examples, and characters of them, per batch of statements. A PostgreSQL protocol message of the client is limited to 16 MiB. */
const BATCH_EXAMPLES = 500
const BATCH_CHARACTERS = 2 ** 21

/** Characters of examples that are prepared before other requests of the process get a turn: some milliseconds of work. */
const STEP_CHARACTERS = 2 ** 17

/** Postings to collect before they are written, 8 bytes each: the more, the fewer rows are updated. */
const BUFFERED_POSTINGS = 2 ** 19

const taskRows = rowsOf(
  Schema.Struct({
    dataset_id: Schema.NullOr(DatasetId),
    dataset_version: Schema.Int,
    live_release_id: ReleaseId
  })
)

/**
 * Begins a version of a task's dataset in the caller's transaction, which has the dataset lock. Updates the task's row last, so that no
 * other transaction waits for the row while the examples are written. Fails with `DATASET_BASE_CHANGED` if `base` is not the newest
 * version.
 */
export const beginVersion = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, newVersion: NewVersion) {
  const { base, by, now, org_id, task_id } = newVersion
  const task = yield* taskRows.first(sql`
    SELECT dataset_id, dataset_version, live_release_id
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `)
  if (task === undefined) return yield* notFound("task")
  if (task.dataset_id !== base) {
    return yield* new DatasetBaseChanged({
      detail:
        "A newer version of the dataset exists. Review it, then send the change again with it as the base.",
      current_dataset_id: task.dataset_id
    })
  }
  const baseVersion = base === null ? undefined : yield* getVersion(sql, org_id, base)
  const content =
    base === null ? ContentDigest.empty() : ContentDigest.from(yield* getContentState(sql, org_id, base))
  const version = task.dataset_version + 1
  // Erased examples of the base are not in this version.
  if (base !== null) {
    yield* endErased(sql, org_id, task_id, version, (hashes) => {
      for (const hash of hashes) content.removeErased(hash)
    })
  }
  let count = baseVersion?.example_count ?? 0
  let last: ExampleId | undefined = baseVersion?.last_example_id
  let added = 0
  let replaced = 0
  let lastOrdinal = baseVersion?.last_ordinal ?? 0
  const postings = new PostingBuffer()
  // By the digest of the input: one example per input.
  let batch = new Map<string, PreparedExample>()
  let characters = 0
  let charactersOfStep = 0
  let bytes: number = rowBytes.version
  let repeated = 0
  const superseded: Array<FeedbackId> = []
  /** How many examples with an input were removed, by its digest, unless it was put again. */
  const removed = new Map<string, number>()

  const writePostings = Effect.gen(function* () {
    const written = postings.size * POSTING_BYTES
    const chunks = yield* appendPostings(sql, org_id, task_id, postings)
    bytes += written + chunks * rowBytes.posting_list
  })

  const supersede = (feedback: FeedbackId | null) => {
    repeated++
    if (feedback !== null) superseded.push(feedback)
  }

  /** Takes examples out of the content digest, in chunks, because corrections of a few bytes may replace examples of megabytes. */
  const subtract = Effect.fnUntraced(function* (rows: ReadonlyArray<SameInputRow>) {
    for (const chunk of chunksByBytes(rows)) {
      for (const old of yield* readContents(sql, org_id, task_id, idsOf(chunk)))
        content.remove(digestMember(old.input, old.answer))
    }
    count -= rows.length
  })

  const end = Effect.fnUntraced(function* (rows: ReadonlyArray<SameInputRow>) {
    yield* subtract(rows)
    yield* endExamples(sql, org_id, task_id, version, idsOf(rows))
  })

  const writeBatch = Effect.gen(function* () {
    if (batch.size === 0) return
    const examples = [...batch.values()]
    const digests = [...batch.keys()]
    batch = new Map()
    characters = 0
    // The first batch of a first version has nothing to replace.
    const sameInputs =
      base === null && last === undefined ? [] : yield* findSameInputs(sql, org_id, version, digests)
    // Examples of earlier batches of this version, whose inputs are counted already.
    const earlier = sameInputs.filter(({ inserted }) => inserted)
    yield* subtract(earlier)
    yield* deleteInserted(sql, org_id, task_id, version, idsOf(earlier))
    for (const row of earlier) {
      supersede(row.source_feedback_id)
      bytes -= rowBytes.example + row.bytes
    }
    yield* end(sameInputs.filter(({ ended, inserted }) => !ended && !inserted))
    for (const { example } of examples) content.add(digestMember(example.input, example.answer))
    const ordinals = new Map(sameInputs.map(({ digest, ordinal }) => [digest, ordinal]))
    const counted = new Set(earlier.map(({ digest }) => digest))
    for (const digest of digests) {
      if (counted.has(digest)) continue
      if (ordinals.has(digest)) replaced++
      else added++
      removed.delete(digest)
    }
    count += examples.length
    const numbered = examples.map((prepared) => {
      const inherited = ordinals.get(prepared.digest)
      if (inherited !== undefined) return { ...prepared, ordinal: inherited }
      const ordinal = ++lastOrdinal
      postings.add(prepared.tokens, ordinal)
      return { ...prepared, ordinal }
    })
    const newest = yield* insertExamples(sql, org_id, task_id, version, numbered)
    if (postings.size >= BUFFERED_POSTINGS) yield* writePostings
    if (last === undefined || newest > last) last = newest
  })

  return {
    /**
     * Removes the base's examples with these ids and inputs. Returns the pointers of the ids and inputs that the base does not have. Call it before the
     * first `put`.
     */
    remove: Effect.fnUntraced(function* (ids: ReadonlyArray<ExampleId>, inputs: ReadonlyArray<JsonObject>) {
      const digests = inputs.map((input) => inputDigest(task_id, input))
      const rows = [
        ...(yield* findByIds(sql, org_id, task_id, version, ids)),
        ...(yield* findSameInputs(sql, org_id, version, digests))
      ]
      const found = new Set<string>(rows.flatMap(({ digest, example_id }) => [digest, example_id]))
      // Selected by its id and by its input, an example is one row.
      const distinct = [...new Map(rows.map((row) => [row.example_id, row])).values()]
      for (const { digest } of distinct) removed.set(digest, (removed.get(digest) ?? 0) + 1)
      yield* end(distinct)
      const missing = (keys: ReadonlyArray<string>, list: string) =>
        keys.flatMap((key, index) => (found.has(key) ? [] : [`#/${list}/${index}`]))
      return [...missing(ids, "remove"), ...missing(digests, "remove_inputs")]
    }),
    /** Adds an example to the version. It replaces the base's examples with the same input, and one that was put before. */
    put: (example: NewExample) =>
      Effect.suspend(() => {
        const prepared: PreparedExample = {
          example,
          input: JSON.stringify(example.input),
          answer: JSON.stringify(example.answer),
          digest: inputDigest(task_id, example.input),
          tokens: tokenize(example.input)
        }
        const same = batch.get(prepared.digest)
        if (same !== undefined) {
          supersede(same.example.source_feedback_id)
          bytes -= rowBytes.example + bytesOf(same)
          // The later example comes last.
          batch.delete(prepared.digest)
        }
        batch.set(prepared.digest, prepared)
        const length = prepared.input.length + prepared.answer.length
        characters += length
        charactersOfStep += length
        bytes += rowBytes.example + bytesOf(prepared)
        if (batch.size >= BATCH_EXAMPLES || characters >= BATCH_CHARACTERS) return writeBatch
        if (charactersOfStep < STEP_CHARACTERS) return Effect.void
        charactersOfStep = 0
        return Effect.yieldNow
      }),
    /**
     * Writes the version and makes it the task's newest. Returns `undefined` if nothing changed, or if no example is left:
     * there are no empty versions.
     */
    finish: Effect.gen(function* () {
      yield* writeBatch
      if (last === undefined || count === 0 || added + replaced + removed.size === 0) return undefined
      yield* writePostings
      const row: VersionRow = {
        dataset_id: yield* DatasetId.generate,
        task_id,
        version,
        base_dataset_id: base,
        example_count: count,
        examples_erased: 0,
        content_digest: content.digest(),
        last_example_id: last,
        last_ordinal: lastOrdinal,
        created_at: now,
        created_by_id: by.id,
        created_by_name: by.name
      }
      yield* insertVersion(sql, org_id, row, content.state())
      yield* sql`
        UPDATE tasks
        SET dataset_id = ${row.dataset_id}, dataset_version = ${version}
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
      `
      // The task's first release uses the first version. Later versions never change an existing release.
      if (base === null) {
        yield* sql`
          UPDATE releases
          SET dataset_id = ${row.dataset_id}
          WHERE org_id = ${org_id}
            AND release_id = ${task.live_release_id}
            AND dataset_id IS NULL
            AND comparison_id IS NULL
        `
      }
      const derived: DerivedVersion = {
        dataset: toDataset(row),
        added,
        replaced,
        removed: [...removed.values()].reduce((sum, number) => sum + number, 0),
        repeated,
        superseded,
        bytes
      }
      return derived
    })
  }
})

const bytesOf = ({ answer, input }: PreparedExample) => Buffer.byteLength(input) + Buffer.byteLength(answer)

const idsOf = (rows: ReadonlyArray<SameInputRow>) => rows.map(({ example_id }) => example_id)
