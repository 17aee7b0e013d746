import { Array as Arr, Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { compareAnswers } from "../../../domain/tasks/Agreement.ts"
import type { Outcome } from "../../../domain/tasks/Comparison.ts"
import { type ComparedExample, addToTally } from "../../../domain/tasks/ComparisonTally.ts"
import type { Example } from "../../../domain/tasks/Dataset.ts"
import type { DatasetId } from "../../../domain/Ids.ts"
import { costOf, type Provider } from "../../../domain/tasks/Provider.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import { readExamples } from "../Datasets/exampleRows.ts"
import { findVersion, type VersionRow } from "../Datasets/versionRows.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { NoAnswer, ProviderAnswer, Providers } from "../Providers.ts"
import { getRelease } from "../Releases/rows.ts"
import { readSchemas } from "../Tasks/rows.ts"
import type { ComparisonRow } from "./rows.ts"

/** Examples that are compared between two writings of how far a comparison is: the most that is asked again after a kill. */
const BATCH_SIZE = 32

/** Examples of one comparison that are answered at the same time, by both sides at once. */
const CONCURRENCY = 4

/** Characters of answers after which no more examples are asked before those are written: an answer may have 4 MiB. */
const MAX_BATCH_CHARACTERS = 8 * 2 ** 20

/** What answers for one side. */
interface Side {
  readonly instructions: string
  readonly provider: Provider
  readonly dataset_id: DatasetId | null
}

/** What a comparison is about, read once when it is taken on. */
export interface ComparisonJob {
  readonly row: ComparisonRow
  readonly version: VersionRow
  readonly live: Side
  readonly shape: CompiledSchema
  readonly schema: JsonSchema
}

/** What a comparison is about. */
export const loadJob = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  row: ComparisonRow,
  shapeOf: (schema: JsonSchema) => Effect.Effect<CompiledSchema>
) {
  const version = Option.getOrThrow(yield* findVersion(sql, row.org_id, row.dataset_id))
  const live = yield* getRelease(sql, row.org_id, row.live_release_id)
  const { answer_schema } = yield* readSchemas(sql, row.org_id, row.task_id)
  const subject: ComparisonJob = {
    row,
    version,
    live,
    schema: answer_schema,
    shape: yield* shapeOf(answer_schema)
  }
  return subject
})

/** One example, answered by both. */
export interface ExampleComparison extends ComparedExample {
  readonly example: Example
}

/** Some more examples, answered by both, and the comparison as it stands with them. */
export interface ComparisonBatch {
  readonly compared: ReadonlyArray<ExampleComparison>
  readonly row: ComparisonRow
}

/**
 * Goes on where `row` is: a few more examples, one at least, answered by both sides; none is begun once the turn is over, since each may take
 * minutes. Writes nothing.
 */
export const compareBatch = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  providers: Providers["Service"],
  subject: ComparisonJob,
  row: ComparisonRow,
  isTurnOver: Effect.Effect<boolean>
) {
  const { examples, next } = yield* readExamples(sql, row.org_id, subject.version, {
    after: row.last_example_id ?? undefined,
    limit: BATCH_SIZE
  })
  const candidate: Side = {
    instructions: row.candidate_instructions,
    provider: row.candidate_provider,
    dataset_id: row.candidate_dataset_id
  }
  let begun = 0
  let characters = 0
  let ended = false
  const judge = Effect.fnUntraced(function* (example: Example) {
    // They are begun in their order: where one is left for the next step, so are all after it.
    ended ||= characters > MAX_BATCH_CHARACTERS || (begun > 0 && (yield* isTurnOver))
    if (ended) return Option.none()
    begun++
    const [byCandidate, byLive] = yield* Effect.all(
      [
        outcomeOf(providers, subject, candidate, example),
        outcomeOf(providers, subject, subject.live, example)
      ],
      { concurrency: 2 }
    )
    characters += JSON.stringify([byCandidate.answer, byLive.answer]).length
    const fields = fieldsOf(example, byCandidate, byLive)
    return Option.some<ExampleComparison>({ example, candidate: byCandidate, live: byLive, fields })
  })
  const judged = Arr.getSomes(yield* Effect.forEach(examples, judge, { concurrency: CONCURRENCY }))
  const done: ComparisonBatch = {
    compared: judged,
    row: {
      ...row,
      status: next === null && judged.length === examples.length ? "completed" : "running",
      compared: row.compared + judged.length,
      last_example_id: judged.at(-1)?.example.id ?? row.last_example_id,
      tally: judged.reduce(addToTally, row.tally)
    }
  }
  return done
})

const outcomeOf = (
  providers: Providers["Service"],
  { row, schema, shape }: ComparisonJob,
  side: Side,
  example: Example
): Effect.Effect<Outcome> =>
  Effect.gen(function* () {
    const began = yield* monotonicNow
    const ended = yield* Effect.result(
      providers.answer({
        org_id: row.org_id,
        task_id: row.task_id,
        ...side,
        input: example.input,
        answer: { shape, schema: Effect.succeed(schema) }
      })
    )
    const duration_ms = Math.round((yield* monotonicNow) - began)
    const of: ProviderAnswer | NoAnswer = ended._tag === "Success" ? ended.success : ended.failure
    const spent = { ...of.usage, cost: costOf(side.provider, of.usage), duration_ms }
    if (!("answer" in of)) {
      return { answer: null, agrees: false, disagreeing: [], failure: of.detail, ...spent }
    }
    const { agrees, fields } = compareAnswers(example.answer, of.answer)
    const disagreeing = fields.filter(([, agrees]) => !agrees).map(([field]) => field)
    return { answer: of.answer, agrees, disagreeing, failure: null, ...spent }
  })

const fieldsOf = ({ answer }: Example, candidate: Outcome, live: Outcome): ReadonlyArray<string> =>
  Arr.dedupe([
    ...Object.keys(answer),
    ...Object.keys(candidate.answer ?? {}),
    ...Object.keys(live.answer ?? {})
  ])
