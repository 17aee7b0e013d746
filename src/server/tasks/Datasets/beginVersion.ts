import { Effect, Option, Result, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { DatasetBaseChanged } from "../../../api/Problems.ts"
import { canonicalJson } from "../../../domain/json/CanonicalJson.ts"
import { ContentDigest } from "../../../domain/tasks/ContentDigest.ts"
import type { JsonObject, NewExample } from "../../../domain/tasks/Dataset.ts"
import { DatasetId, type ExampleId, type OrgId, ReleaseId, type TaskId } from "../../../domain/Ids.ts"
import type { Actor } from "../../../domain/identity/Principal.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { WordCounts } from "../../../domain/tasks/WordCounts.ts"
import { chunksByBytes } from "../../concurrency/chunksByBytes.ts"
import { noTask } from "../Tasks/rows.ts"
import {
  readContents,
  endExamples,
  inputDigest,
  insertExamples,
  type PreparedExample,
  findSameInputs
} from "./exampleRows.ts"
import { readWordCounts, writeWordCounts } from "./wordCounts.ts"
import { readContentState, findVersion, insertVersion, toDataset, type VersionRow } from "./versionRows.ts"

/** What a new version is made for. */
export interface NewVersion {
  readonly org_id: OrgId
  readonly task_id: TaskId
  /** The version that the change was thought for; null: the task has none yet. */
  readonly base: DatasetId | null
  readonly by: Actor
  readonly now: Timestamp
}

/** Examples, and characters of them, that one set of statements writes. A message of the store's protocol takes 16 MiB. */
const AT_ONCE = 500
const CHARACTERS_AT_ONCE = 2 ** 21

const Head = Schema.Struct({
  dataset_id: Schema.NullOr(DatasetId),
  dataset_version: Schema.Int,
  live_release_id: ReleaseId
})

const decodeHead = Schema.decodeUnknownEffect(Schema.Array(Head), { disableChecks: true })

/** The text that an example counts by in the digest of a version. */
const memberOf = (input: JsonObject, answer: JsonObject): string =>
  Result.getOrThrow(canonicalJson([input, answer]))

/**
 * Begins a version of a task's dataset within the caller's transaction, which holds the dataset. The task's row is written last, so that
 * nobody waits at it for the examples. A base that is not the newest version is refused.
 */
export const beginVersion = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, of: NewVersion) {
  const { base, by, now, org_id, task_id } = of
  const [head] = yield* sql`
    SELECT dataset_id, dataset_version, live_release_id
    FROM tasks
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `.pipe(Effect.flatMap(decodeHead))
  if (head === undefined) return yield* noTask
  if (head.dataset_id !== base) {
    return yield* new DatasetBaseChanged({
      detail: "Another version was made meanwhile; look at that one, and send the change for it",
      current_dataset_id: head.dataset_id
    })
  }
  const before = base === null ? undefined : Option.getOrThrow(yield* findVersion(sql, org_id, base))
  const content =
    base === null
      ? ContentDigest.empty()
      : ContentDigest.from(Option.getOrThrow(yield* readContentState(sql, org_id, base)))
  const version = head.dataset_version + 1
  let count = before?.example_count ?? 0
  let last: ExampleId | undefined = before?.last_example_id
  let added = 0
  let replaced = 0
  let counts: WordCounts | undefined
  let waiting: Array<PreparedExample> = []
  let characters = 0

  const write = Effect.gen(function* () {
    if (waiting.length === 0) return
    const examples = waiting
    waiting = []
    characters = 0
    const digests = new Set(examples.map(({ digest }) => digest))
    // A first version has nothing before it.
    const same = base === null ? [] : yield* findSameInputs(sql, org_id, version, [...digests])
    // Of two examples with one input the first may have been written before: the second takes the same one's place.
    const ending = same.filter(({ ended }) => !ended)
    // Corrections of a few bytes may take the place of examples of megabytes.
    for (const piece of chunksByBytes(ending)) {
      const ids = piece.map(({ example_id }) => example_id)
      for (const old of yield* readContents(sql, org_id, task_id, ids))
        content.remove(memberOf(old.input, old.answer))
    }
    for (const { example } of examples) content.add(memberOf(example.input, example.answer))
    const known = new Map(same.map(({ digest, rare_tokens }) => [digest, rare_tokens]))
    const replacing = examples.filter(({ digest }) => known.has(digest)).length
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
    // A version that only corrects does without the counts.
    if (counts === undefined && replacing < examples.length)
      counts = yield* readWordCounts(sql, org_id, task_id)
    const words = counts ?? WordCounts.empty()
    const newest = yield* insertExamples(sql, org_id, task_id, version, examples, known, words)
    if (last === undefined || newest > last) last = newest
  })

  return {
    /** Puts an example into the version: in place of those of the base that have the very same input, else beside them. */
    put: (example: NewExample) =>
      Effect.suspend(() => {
        const placed: PreparedExample = {
          example,
          input: JSON.stringify(example.input),
          answer: JSON.stringify(example.answer),
          digest: inputDigest(task_id, example.input)
        }
        waiting.push(placed)
        characters += placed.input.length + placed.answer.length
        return waiting.length >= AT_ONCE || characters >= CHARACTERS_AT_ONCE ? write : Effect.void
      }),
    /** Writes the version and makes it the task's newest. None where nothing was put into it: there is no empty version. */
    finish: Effect.gen(function* () {
      yield* write
      if (last === undefined || added + replaced === 0) return Option.none()
      const row: VersionRow = {
        dataset_id: yield* DatasetId.generate,
        task_id,
        version,
        base_dataset_id: base,
        example_count: count,
        content_digest: content.digest(),
        last_example_id: last,
        created_at: now,
        created_by_id: by.id,
        created_by_name: by.name
      }
      if (counts !== undefined) yield* writeWordCounts(sql, org_id, task_id, counts)
      yield* insertVersion(sql, org_id, row, content.state())
      yield* sql`
        UPDATE tasks
        SET dataset_id = ${row.dataset_id}, dataset_version = ${version}
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
      `
      // A task's first release takes its first version. No release that is there later changes, whatever is promoted.
      if (base === null) {
        yield* sql`
          UPDATE releases
          SET dataset_id = ${row.dataset_id}
          WHERE org_id = ${org_id}
            AND release_id = ${head.live_release_id}
            AND dataset_id IS NULL
            AND comparison_id IS NULL
        `
      }
      return Option.some({ dataset: toDataset(row), added, replaced })
    })
  }
})
