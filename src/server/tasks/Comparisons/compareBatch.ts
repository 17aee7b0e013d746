import { Array as Arr, Effect, Option, Semaphore } from "effect"
import type { SqlClient } from "effect/sql"
import { compareAnswers } from "../../../domain/tasks/Agreement.ts"
import type { Outcome } from "../../../domain/tasks/Comparison.ts"
import {
  addToTally,
  type ComparedExample,
  toComparedExample,
  withoutContent
} from "../../../domain/tasks/ComparisonTally.ts"
import type { CompiledSchema } from "../../../domain/tasks/CompiledSchema.ts"
import type { Example } from "../../../domain/tasks/Dataset.ts"
import type { DatasetId } from "../../../domain/Ids.ts"
import { type EvaluatorTree, evaluatorTree } from "../../../domain/tasks/Evaluator.ts"
import { verdictSchema } from "../../../domain/tasks/Judge.ts"
import { costOf, type Provider } from "../../../domain/tasks/Provider.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import type { ComparisonCall } from "../../../domain/telemetry/ComparisonConventions.ts"
import { readExamples } from "../Datasets/readExamples.ts"
import { getVersion, type VersionRow } from "../Datasets/versionRows.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { NoAnswer, ProviderAnswer, ProviderCall, Providers } from "../Providers.ts"
import { toCompletedCall } from "../Providers/toCompletedCall.ts"
import { getRelease } from "../Releases/rows.ts"
import { readSchemas } from "../Tasks/rows.ts"
import type { ExampleCalls } from "./ExampleCalls.ts"
import { judgeAnswer, type ReadyJudge } from "./judgeAnswer.ts"
import { callsOf, repeated } from "./budgetFaults.ts"
import { type ComparisonRow, fromSpent } from "./rows.ts"
import { describeSpent, ExampleSpending, makeSpending } from "./Spending.ts"

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
  readonly evaluators: EvaluatorTree
  readonly judge: ReadyJudge | null
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
  const job: ComparisonJob = {
    row,
    version,
    live,
    schema: answer_schema,
    compiled: yield* compile(answer_schema),
    evaluators: evaluatorTree(row.evaluators),
    judge: row.judge === null ? null : { ...row.judge, compiled: yield* compile(verdictSchema) }
  }
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

/** What comparing needs of the service. */
export interface BatchContext {
  readonly sql: SqlClient.SqlClient
  readonly providers: Providers["Service"]
  /** Called with the calls of each example, before they are recorded as spent. */
  readonly onCompared: (example: ExampleCalls) => Effect.Effect<void>
}

/** When a batch ends before all of its examples are answered. */
export interface BatchEnd {
  /** Once true, no further example is started. Each may take minutes. */
  readonly isTimeSliceOver: Effect.Effect<boolean>
  /** Completes when the comparison is cancelled: examples in progress are interrupted, and answered ones are kept. */
  readonly cancelled: Effect.Effect<void>
}

/**
 * Answers the next examples after `row.last_example_id` by both sides: at least one, unless it is cancelled, at most a batch; none if the
 * budget has no room for one, and then the comparison has failed. Writes only the spending.
 */
export const compareBatch = Effect.fnUntraced(function* (
  { onCompared, providers, sql }: BatchContext,
  job: ComparisonJob,
  row: ComparisonRow,
  { cancelled, isTimeSliceOver }: BatchEnd
) {
  const { items: examples, next_cursor } = yield* readExamples(sql, row.org_id, job.version, {
    after: row.last_example_id ?? undefined,
    limit: BATCH_SIZE,
    holdOut: row.hold_out
  })
  const candidate: Side = {
    instructions: row.candidate_instructions,
    provider: row.candidate_provider,
    dataset_id: row.candidate_dataset_id
  }
  const spending = makeSpending(sql, row, callsOf(repeated([candidate, job.live], row.repeats), row.judge))
  let started = 0
  let characters = 0
  let isFull = false
  /** Why the budget ended the comparison. */
  let ended: string | undefined

  // One decision after the other, so that once an example is left for the next batch, all later ones are too.
  const decisions = yield* Semaphore.make(1)
  const decide = decisions.withPermits(1)(
    Effect.gen(function* () {
      if (isFull) return false
      isFull = characters > MAX_BATCH_CHARACTERS || (started > 0 && (yield* isTimeSliceOver))
      if (isFull) return false
      ended = spending.reserve()
      if (ended !== undefined) {
        isFull = true
        return false
      }
      started++
      return true
    })
  )

  const compare = Effect.fnUntraced(function* (example: Example) {
    if (!(yield* decide)) return Option.none()
    const spent = new ExampleSpending()
    const calls: Array<ComparisonCall> = []
    const answer = (name: ComparisonCall["side"], side: Side) =>
      outcomeOf(providers, job, side, example, spent, (call) => calls.push({ side: name, ...call }))
    const answerBoth = Effect.all(
      { candidate: answer("candidate", candidate), live: answer("live", job.live) },
      { concurrency: 2 }
    )
    const answerFurther = Effect.map(answerBoth, ({ candidate, live }) => ({
      candidate: withoutContent(candidate),
      live: withoutContent(live)
    }))
    const answers = yield* Effect.forEach(Arr.range(1, row.repeats), (repeat) =>
      repeat === 1 ? answerBoth : answerFurther
    ).pipe(
      Effect.onExit((exit) =>
        Effect.andThen(
          onCompared({
            org_id: row.org_id,
            task_id: row.task_id,
            comparison_id: row.comparison_id,
            example_id: example.id,
            calls
          }),
          spending.record(
            spent,
            exit._tag === "Success"
              ? exit.value.flatMap(({ candidate, live }) => [candidate, live]).filter(isFailed).length
              : 0
          )
        )
      )
    )
    const { origin } = example
    const compared = toComparedExample(answers, (first) => ({
      origin,
      fields: fieldsOf(job, example, first.candidate, first.live)
    }))
    characters += JSON.stringify([compared.candidate.answer, compared.live.answer]).length
    return Option.some<ExampleComparison>({ example, ...compared })
  })
  const compareOrCancel = (example: Example) =>
    Effect.raceFirst(
      Effect.map(cancelled, () => {
        isFull = true
        return Option.none<ExampleComparison>()
      }),
      compare(example)
    )
  const compared = Arr.getSomes(
    yield* Effect.forEach(examples, compareOrCancel, { concurrency: CONCURRENCY })
  )
  const total = row.compared + compared.length
  const isCompleted = next_cursor === null && compared.length === examples.length
  // Other limits have no effect on a comparison that is completed. The next batch would not know that the spending is unknown.
  ended ??= isCompleted ? spending.tooManyFailures() : spending.unknown()
  const spent = spending.spent()
  const batch: ComparisonBatch = {
    compared,
    row: {
      ...row,
      ...fromSpent(spent),
      status: ended !== undefined ? "failed" : isCompleted ? "completed" : "running",
      failure:
        ended === undefined
          ? null
          : `${ended}: it ended after ${total} of ${row.example_count} examples. Spent: ${describeSpent(spent)}.`,
      compared: total,
      last_example_id: compared.at(-1)?.example.id ?? row.last_example_id,
      tally: compared.reduce(addToTally, row.tally)
    }
  }
  return batch
})

const isFailed = ({ answer }: Outcome): boolean => answer === null

const outcomeOf = (
  providers: Providers["Service"],
  { compiled, evaluators, judge, row, schema }: ComparisonJob,
  side: Side,
  example: Example,
  spending: ExampleSpending,
  onCall: (call: Omit<ComparisonCall, "side">) => void
): Effect.Effect<Outcome> =>
  Effect.gen(function* () {
    const startedAt = yield* monotonicNow
    const calls: Array<ProviderCall> = []
    const result = yield* Effect.result(
      providers.answer({
        org_id: row.org_id,
        task_id: row.task_id,
        ...side,
        input: example.input,
        holdOut: row.hold_out,
        answer: { compiled, schema: Effect.succeed(schema) },
        onCall: (call) => {
          calls.push(call)
          onCall({ role: "answer", ...toCompletedCall(side.provider, call) })
        }
      })
    ).pipe(Effect.onInterrupt(() => Effect.sync(() => spending.add(side.provider, calls))))
    const duration_ms = Math.round((yield* monotonicNow) - startedAt)
    const answered: ProviderAnswer | NoAnswer = result._tag === "Success" ? result.success : result.failure
    const { examples, usage } = answered
    spending.add(side.provider, answered.calls)
    const made = { examples, ...usage, cost: costOf(side.provider, usage), duration_ms, verdict: null }
    if (!("answer" in answered)) {
      return { answer: null, agrees: false, disagreeing: [], score: 0, failure: answered.detail, ...made }
    }
    const { answer } = answered
    const { agrees, fields, score } = compareAnswers(example.answer, answer, evaluators)
    const disagreeing = fields.filter(([, agrees]) => !agrees).map(([field]) => field)
    const outcome = { answer, disagreeing, score, failure: null, ...made }
    if (agrees || judge === null) return { ...outcome, agrees }
    const verdict = yield* judgeAnswer(providers, row, judge, example, answer, spending, (call) =>
      onCall({ role: "judge", ...toCompletedCall(judge.provider, call) })
    )
    return { ...outcome, agrees: verdict.agrees, verdict }
  })

/** Every top-level field of the expected answer and of both sides' answers, without ignored ones. */
const fieldsOf = (
  { evaluators }: ComparisonJob,
  { answer }: Example,
  candidate: Outcome,
  live: Outcome
): ReadonlyArray<string> =>
  Arr.dedupe([
    ...Object.keys(answer),
    ...Object.keys(candidate.answer ?? {}),
    ...Object.keys(live.answer ?? {})
  ]).filter((field) => evaluators.members.get(field)?.evaluator?.kind !== "ignore")
