import { Array as Arr, Effect, Option } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { compareAnswers } from "../../../domain/tasks/Agreement.ts"
import type { Outcome } from "../../../domain/tasks/Comparison.ts"
import { addToTally, type ComparedExample } from "../../../domain/tasks/ComparisonTally.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import type { Example } from "../../../domain/tasks/Dataset.ts"
import type { DatasetId } from "../../../domain/Ids.ts"
import { costOf, type Provider } from "../../../domain/tasks/Provider.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import { readExamples } from "../Datasets/readExamples.ts"
import { getVersion, type VersionRow } from "../Datasets/versionRows.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { NoAnswer, ProviderAnswer, Providers } from "../Providers.ts"
import { getRelease } from "../Releases/rows.ts"
import { readSchemas } from "../Tasks/rows.ts"
import type { ComparisonRow } from "./rows.ts"

/** Examples per batch: the most that are answered a second time after a crash. */
const BATCH_SIZE = 32

/** Examples of one comparison that are answered concurrently, each by both sides. */
const CONCURRENCY = 4

/** Characters of answers after which a batch starts no further example: an answer may have 4 MiB. */
const MAX_BATCH_CHARACTERS = 8 * 2 ** 20

/** One side of a comparison: the candidate, or the live release. */
interface Side {
  readonly instructions: string
  readonly provider: Provider
  readonly dataset_id: DatasetId | null
}

/** The data of a comparison that stays the same for all batches, read once per claim. */
export interface ComparisonJob {
  readonly row: ComparisonRow
  readonly version: VersionRow
  readonly live: Side
  /** The task's answer schema, compiled and as JSON. */
  readonly compiled: CompiledSchema
  readonly schema: JsonSchema
}

/** Reads the data of a claimed comparison. */
export const loadJob = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  row: ComparisonRow,
  compile: (schema: JsonSchema) => Effect.Effect<CompiledSchema>
) {
  const version = yield* getVersion(sql, row.org_id, row.dataset_id)
  const live = yield* getRelease(sql, row.org_id, row.live_release_id)
  const { answer_schema } = yield* readSchemas(sql, row.org_id, row.task_id)
  const compiled = yield* compile(answer_schema)
  const job: ComparisonJob = { row, version, live, schema: answer_schema, compiled }
  return job
})

/** The outcomes of both sides for one example. */
export interface ExampleComparison extends ComparedExample {
  readonly example: Example
}

/** The results of one batch, and the comparison's row with these results added. */
export interface ComparisonBatch {
  readonly compared: ReadonlyArray<ExampleComparison>
  readonly row: ComparisonRow
}

/**
 * Answers the next examples after `row.last_example_id` by both sides: at least one, at most a batch. Starts no further example once
 * `isStopped`: the time slice is over, or the comparison was cancelled. Each may take minutes. Writes nothing.
 */
export const compareBatch = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  providers: Providers["Service"],
  job: ComparisonJob,
  row: ComparisonRow,
  isStopped: Effect.Effect<boolean, SqlError.SqlError>
) {
  const { examples, next } = yield* readExamples(sql, row.org_id, job.version, {
    after: row.last_example_id ?? undefined,
    limit: BATCH_SIZE
  })
  const candidate: Side = {
    instructions: row.candidate_instructions,
    provider: row.candidate_provider,
    dataset_id: row.candidate_dataset_id
  }
  let started = 0
  let characters = 0
  let isFull = false
  const compare = Effect.fnUntraced(function* (example: Example) {
    // Examples start in order, so once one is left for the next batch, all later ones are too.
    isFull ||= characters > MAX_BATCH_CHARACTERS || (started > 0 && (yield* isStopped))
    if (isFull) return Option.none()
    started++
    const [byCandidate, byLive] = yield* Effect.all(
      [outcomeOf(providers, job, candidate, example), outcomeOf(providers, job, job.live, example)],
      { concurrency: 2 }
    )
    characters += JSON.stringify([byCandidate.answer, byLive.answer]).length
    const fields = fieldsOf(example, byCandidate, byLive)
    return Option.some<ExampleComparison>({ example, candidate: byCandidate, live: byLive, fields })
  })
  const compared = Arr.getSomes(yield* Effect.forEach(examples, compare, { concurrency: CONCURRENCY }))
  const batch: ComparisonBatch = {
    compared,
    row: {
      ...row,
      status: next === null && compared.length === examples.length ? "completed" : "running",
      compared: row.compared + compared.length,
      last_example_id: compared.at(-1)?.example.id ?? row.last_example_id,
      tally: compared.reduce(addToTally, row.tally)
    }
  }
  return batch
})

const outcomeOf = (
  providers: Providers["Service"],
  { compiled, row, schema }: ComparisonJob,
  side: Side,
  example: Example
): Effect.Effect<Outcome> =>
  Effect.gen(function* () {
    const startedAt = yield* monotonicNow
    const result = yield* Effect.result(
      providers.answer({
        org_id: row.org_id,
        task_id: row.task_id,
        ...side,
        input: example.input,
        leaveOutSameInput: true,
        answer: { compiled, schema: Effect.succeed(schema) }
      })
    )
    const duration_ms = Math.round((yield* monotonicNow) - startedAt)
    const answered: ProviderAnswer | NoAnswer = result._tag === "Success" ? result.success : result.failure
    const spent = { ...answered.usage, cost: costOf(side.provider, answered.usage), duration_ms }
    if (!("answer" in answered)) {
      return { answer: null, agrees: false, disagreeing: [], failure: answered.detail, ...spent }
    }
    const { agrees, fields } = compareAnswers(example.answer, answered.answer)
    const disagreeing = fields.filter(([, agrees]) => !agrees).map(([field]) => field)
    return { answer: answered.answer, agrees, disagreeing, failure: null, ...spent }
  })

/** Every top-level field of the expected answer and of both sides' answers. */
const fieldsOf = ({ answer }: Example, candidate: Outcome, live: Outcome): ReadonlyArray<string> =>
  Arr.dedupe([
    ...Object.keys(answer),
    ...Object.keys(candidate.answer ?? {}),
    ...Object.keys(live.answer ?? {})
  ])
