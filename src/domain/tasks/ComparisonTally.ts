import { Schema } from "effect"
import type { ComparisonSummary, Outcome, SideSummary } from "./Comparison.ts"
import { ExampleOrigin } from "./Dataset.ts"
import { pairedDifference, wilsonInterval } from "./wilsonInterval.ts"

/** Most fields to count. Fields after the first 100 are left out. */
const MAX_FIELDS = 100

/** Ratio of the bounds of a latency bucket. The midpoint of a bucket is within 5 % of every value in it. */
const BUCKET_GROWTH = 1.1

/** Lower bound of the first latency bucket, in milliseconds. */
const SHORTEST_MS = 0.1

const Side = Schema.Struct({
  /** Sum of the scores; absent in tallies that began before there were scores. */
  score: Schema.optionalKey(Schema.Finite),
  failed: Schema.Int,
  input_tokens: Schema.Int,
  output_tokens: Schema.Int,
  cost: Schema.NullOr(Schema.Finite),
  duration_ms: Schema.Finite,
  /** Number of answers by latency bucket. */
  classes: Schema.Record(Schema.String, Schema.Int)
})
type Side = typeof Side.Type

/** The stored intermediate result of a comparison. Its size grows with the fields of the answers, not with the number of examples. */
export const ComparisonTally = Schema.Struct({
  /** Examples on which both sides agree with the expected answer, only one does, or neither does. */
  both: Schema.Int,
  candidate_only: Schema.Int,
  live_only: Schema.Int,
  neither: Schema.Int,
  candidate: Side,
  live: Side,
  /** Absent without a judge. */
  judge: Schema.optionalKey(Schema.Struct({ judged: Schema.Int, agreed: Schema.Int, failed: Schema.Int })),
  /** By the origin of the examples. */
  origins: Schema.Array(
    Schema.Struct({
      origin: ExampleOrigin,
      compared: Schema.Int,
      candidate: Schema.Int,
      live: Schema.Int
    })
  ),
  fields: Schema.Array(
    Schema.Struct({
      field: Schema.String,
      compared: Schema.Int,
      candidate: Schema.Int,
      live: Schema.Int
    })
  )
})
export type ComparisonTally = typeof ComparisonTally.Type

const emptySide: Side = {
  score: 0,
  failed: 0,
  input_tokens: 0,
  output_tokens: 0,
  cost: null,
  duration_ms: 0,
  classes: {}
}

/** The tally of a comparison without a judge before the first example. */
export const emptyTally: ComparisonTally = {
  both: 0,
  candidate_only: 0,
  live_only: 0,
  neither: 0,
  candidate: emptySide,
  live: emptySide,
  origins: [],
  fields: []
}

/** The tally before the first example. */
export const newTally = ({ hasJudge }: { readonly hasJudge: boolean }): ComparisonTally =>
  hasJudge ? { ...emptyTally, judge: { judged: 0, agreed: 0, failed: 0 } } : emptyTally

/** The outcomes of one example, with every top-level field of the expected answer and of both answers that is compared. */
export interface ComparedExample {
  readonly origin: ExampleOrigin
  readonly candidate: Outcome
  readonly live: Outcome
  readonly fields: ReadonlyArray<string>
}

/** Adds one example to a tally. */
export const addToTally = (
  tally: ComparisonTally,
  { candidate, fields, live, origin }: ComparedExample
): ComparisonTally => {
  const countIf = (candidateAgrees: boolean, liveAgrees: boolean) =>
    Number(candidate.agrees === candidateAgrees && live.agrees === liveAgrees)
  return {
    both: tally.both + countIf(true, true),
    candidate_only: tally.candidate_only + countIf(true, false),
    live_only: tally.live_only + countIf(false, true),
    neither: tally.neither + countIf(false, false),
    candidate: withOutcome(tally.candidate, candidate),
    live: withOutcome(tally.live, live),
    ...(tally.judge === undefined ? {} : { judge: [candidate, live].reduce(withVerdict, tally.judge) }),
    origins: withOrigin(tally.origins, { candidate, live, origin }),
    fields: withFields(tally.fields, { candidate, fields, live })
  }
}

const withVerdict = (judge: NonNullable<ComparisonTally["judge"]>, { verdict }: Outcome) =>
  verdict === null
    ? judge
    : {
        judged: judge.judged + 1,
        agreed: judge.agreed + Number(verdict.agrees),
        failed: judge.failed + Number(verdict.failure !== null)
      }

const withOutcome = (side: Side, outcome: Outcome): Side => {
  const failed = outcome.answer === null
  const key = String(bucketOf(outcome.duration_ms))
  return {
    ...(side.score === undefined ? {} : { score: side.score + (outcome.score ?? 0) }),
    failed: side.failed + Number(failed),
    input_tokens: side.input_tokens + (outcome.input_tokens ?? 0),
    output_tokens: side.output_tokens + (outcome.output_tokens ?? 0),
    cost: outcome.cost === null ? side.cost : (side.cost ?? 0) + outcome.cost,
    duration_ms: side.duration_ms + (failed ? 0 : outcome.duration_ms),
    classes: failed ? side.classes : { ...side.classes, [key]: (side.classes[key] ?? 0) + 1 }
  }
}

const withOrigin = (
  counted: ComparisonTally["origins"],
  { candidate, live, origin }: Pick<ComparedExample, "candidate" | "live" | "origin">
): ComparisonTally["origins"] => {
  const earlier = counted.find((entry) => entry.origin === origin)
  return [
    ...counted.filter((entry) => entry.origin !== origin),
    {
      origin,
      compared: (earlier?.compared ?? 0) + 1,
      candidate: (earlier?.candidate ?? 0) + Number(candidate.agrees),
      live: (earlier?.live ?? 0) + Number(live.agrees)
    }
  ]
}

const withFields = (
  counted: ComparisonTally["fields"],
  { candidate, fields, live }: Pick<ComparedExample, "candidate" | "fields" | "live">
): ComparisonTally["fields"] => {
  const byName = new Map(counted.map((entry) => [entry.field, entry]))
  for (const field of fields) {
    const entry = byName.get(field)
    if (entry === undefined && byName.size >= MAX_FIELDS) continue
    byName.set(field, {
      field,
      compared: (entry?.compared ?? 0) + 1,
      candidate: (entry?.candidate ?? 0) + Number(agreesIn(candidate, field)),
      live: (entry?.live ?? 0) + Number(agreesIn(live, field))
    })
  }
  return [...byName.values()]
}

const agreesIn = (outcome: Outcome, field: string): boolean =>
  outcome.answer !== null && !outcome.disagreeing.includes(field)

const bucketOf = (millis: number): number =>
  Math.floor(Math.log(Math.max(millis, SHORTEST_MS) / SHORTEST_MS) / Math.log(BUCKET_GROWTH))

/** Summarizes a tally for the API. */
export const summarizeTally = (tally: ComparisonTally): ComparisonSummary => {
  const { both, candidate, candidate_only, fields, judge = null, live, live_only, neither, origins } = tally
  const total = both + candidate_only + live_only + neither
  return {
    candidate: sideSummary(candidate, both + candidate_only, total),
    live: sideSummary(live, both + live_only, total),
    verdicts: { win: candidate_only, regression: live_only, both_agree: both, neither_agrees: neither },
    difference: pairedDifference({ both, first: candidate_only, second: live_only, neither }),
    origins: ExampleOrigin.literals.flatMap((origin) => origins.filter((entry) => entry.origin === origin)),
    warning: correctionWarning(origins, total),
    fields,
    judge
  }
}

/**
 * Says that most compared examples are corrections. Each is an input that a release answered wrong, so the agreement on them is below that on
 * all inputs, and falls with every correction of what is still answered wrong, also while the releases get better.
 */
const correctionWarning = (origins: ComparisonTally["origins"], total: number): string | null => {
  const corrections = origins.find(({ origin }) => origin === "correction")?.compared ?? 0
  return 2 * corrections <= total
    ? null
    : `${corrections} of ${total} compared examples are corrections, inputs that a release answered wrong. The agreement on all inputs is higher. Confirm right answers too, or compare over a benchmark.`
}

const sideSummary = (side: Side, agreed: number, compared: number): SideSummary => {
  const answered = compared - side.failed
  return {
    agreed,
    agreement: compared === 0 ? null : agreed / compared,
    agreement_interval: wilsonInterval(agreed, compared),
    score: compared === 0 || side.score === undefined ? null : side.score / compared,
    failed: side.failed,
    input_tokens: side.input_tokens,
    output_tokens: side.output_tokens,
    cost: side.cost,
    latency_ms:
      answered === 0
        ? null
        : {
            mean: side.duration_ms / answered,
            p50: percentile(side.classes, answered, 0.5),
            p95: percentile(side.classes, answered, 0.95)
          }
  }
}

/** The midpoint of the bucket that contains the `q` quantile. */
const percentile = (classes: Side["classes"], total: number, q: number): number => {
  let left = Math.ceil(total * q)
  let found = 0
  for (const [key, count] of Object.entries(classes).toSorted(([a], [b]) => Number(a) - Number(b))) {
    found = SHORTEST_MS * BUCKET_GROWTH ** (Number(key) + 0.5)
    left -= count
    if (left <= 0) break
  }
  return found
}
