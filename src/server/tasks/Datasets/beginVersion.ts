import { Effect, Result, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { notFound } from "../../../api/notFound.ts"
import { DatasetBaseChanged } from "../../../api/Problems.ts"
import { canonicalJson } from "../../../domain/json/CanonicalJson.ts"
import { ContentDigest } from "../../../domain/tasks/ContentDigest.ts"
import type { Dataset, JsonObject, NewExample } from "../../../domain/tasks/Dataset.ts"
import { DatasetId, type ExampleId, type OrgId, ReleaseId, type TaskId } from "../../../domain/Ids.ts"
import type { Actor } from "../../../domain/identity/Principal.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { POSTING_BYTES, PostingBuffer } from "../../../domain/tasks/Postings.ts"
import { tokenize } from "../../../domain/tasks/tokenize.ts"
import { chunksByBytes } from "../../concurrency/chunksByBytes.ts"
import { rowBytes } from "../../identity/StoredUsage.ts"
import { rowsOf } from "../../store/rows.ts"
import {
  endExamples,
  findSameInputs,
  inputDigest,
  insertExamples,
  type PreparedExample,
  readContents
} from "./exampleRows.ts"
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
  /** Approximate size of the written examples. */
  readonly bytes: number
}

/** Examples, and characters of them, per batch of statements. A PostgreSQL protocol message of the client is limited to 16 MiB. */
const BATCH_EXAMPLES = 500
const BATCH_CHARACTERS = 2 ** 21

/** Postings to collect before they are written: the more, the fewer rows are updated. Sorting them takes some 10 ms. */
const BUFFERED_POSTINGS = 2 ** 17

/** Approximate size of a version without its examples: mostly the state of its digest. */
const VERSION_BYTES = 3_000

const taskRows = rowsOf(
  Schema.Struct({
    dataset_id: Schema.NullOr(DatasetId),
    dataset_version: Schema.Int,
    live_release_id: ReleaseId
  })
)

/** The text that represents an example in the digest of a version. */
const digestMember = (input: JsonObject, answer: JsonObject): string =>
  Result.getOrThrow(canonicalJson([input, answer]))

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
  let count = baseVersion?.example_count ?? 0
  let last: ExampleId | undefined = baseVersion?.last_example_id
  let added = 0
  let replaced = 0
  let lastOrdinal = baseVersion?.last_ordinal ?? 0
  const postings = new PostingBuffer()
  let batch: Array<PreparedExample> = []
  let characters = 0
  let bytes = VERSION_BYTES

  const writePostings = Effect.gen(function* () {
    const written = postings.size * POSTING_BYTES
    const chunks = yield* appendPostings(sql, org_id, task_id, postings)
    bytes += written + chunks * rowBytes.posting_list
  })

  const writeBatch = Effect.gen(function* () {
    if (batch.length === 0) return
    const examples = batch
    batch = []
    characters = 0
    const digests = new Set(examples.map(({ digest }) => digest))
    // A first version has no examples to replace.
    const sameInputs = base === null ? [] : yield* findSameInputs(sql, org_id, version, [...digests])
    // If an earlier batch contained the same input, it has already ended the base's example; both count as its replacement.
    const ending = sameInputs.filter(({ ended }) => !ended)
    // In chunks, because corrections of a few bytes may replace examples of megabytes.
    for (const chunk of chunksByBytes(ending)) {
      const ids = chunk.map(({ example_id }) => example_id)
      for (const old of yield* readContents(sql, org_id, task_id, ids))
        content.remove(digestMember(old.input, old.answer))
    }
    for (const { example } of examples) content.add(digestMember(example.input, example.answer))
    const ordinals = new Map(sameInputs.map(({ digest, ordinal }) => [digest, ordinal]))
    const replacing = examples.filter(({ digest }) => ordinals.has(digest)).length
    replaced += replacing
    added += examples.length - replacing
    count += examples.length - ending.length
    yield* endExamples(
      sql,
      org_id,
      task_id,
      version,
      ending.map(({ example_id }) => example_id)
    )
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
    /** Adds an example to the version. It replaces the base's examples with the same input. */
    put: (example: NewExample) =>
      Effect.suspend(() => {
        const prepared: PreparedExample = {
          example,
          input: JSON.stringify(example.input),
          answer: JSON.stringify(example.answer),
          digest: inputDigest(task_id, example.input),
          tokens: tokenize(example.input)
        }
        batch.push(prepared)
        const length = prepared.input.length + prepared.answer.length
        characters += length
        bytes += rowBytes.example + length
        return batch.length >= BATCH_EXAMPLES || characters >= BATCH_CHARACTERS ? writeBatch : Effect.void
      }),
    /** Writes the version and makes it the task's newest. Returns `undefined` if no example was put: there are no empty versions. */
    finish: Effect.gen(function* () {
      yield* writeBatch
      if (last === undefined || added + replaced === 0) return undefined
      yield* writePostings
      const row: VersionRow = {
        dataset_id: yield* DatasetId.generate,
        task_id,
        version,
        base_dataset_id: base,
        example_count: count,
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
      const derived: DerivedVersion = { dataset: toDataset(row), added, replaced, bytes }
      return derived
    })
  }
})
