import { type Array as Arr, Schema } from "effect"
import type { ComparisonSummary, Outcome, SideSummary } from "./Comparison.ts"
import { ExampleOrigin } from "./Dataset.ts"
import { pairedDifference, repeatedDifference, repeatedInterval, wilsonInterval } from "./wilsonInterval.ts"

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

const RepeatCounts = Schema.Struct({
  /** Sum over the examples of the answers that agree. */
  sum: Schema.Int,
  /** Sum over the examples of the square of that number. */
  squares: Schema.Int,
  /** Examples on which some answers agree and others do not. */
  unstable: Schema.Int
})
type RepeatCounts = typeof RepeatCounts.Type

/** The stored intermediate result of a comparison. Its size grows with the fields of the answers, not with the number of examples. */
export const ComparisonTally = Schema.Struct({
  /** Examples on which both sides agree with the expected answer, only one does, or neither does. */
  both: Schema.Int,
  candidate_only: Schema.Int,
  live_only: Schema.Int,
  neither: Schema.Int,
  candidate: Side,
  live: Side,
  /** Absent without repeats. */
  repeats: Schema.optionalKey(
    Schema.Struct({
      /** Answers of each side to each example. */
      of: Schema.Int,
      candidate: RepeatCounts,
      live: RepeatCounts,
      /** Sum over the examples of the product of the agreeing answers of both sides. */
      products: Schema.Int
    })
  ),
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

const noRepeats: RepeatCounts = { sum: 0, squares: 0, unstable: 0 }

/** The tally before the first example. */
export const newTally = ({
  hasJudge,
  repeats = 1
}: {
  readonly hasJudge: boolean
  readonly repeats?: number
}): ComparisonTally => ({
  ...emptyTally,
  ...(hasJudge ? { judge: { judged: 0, agreed: 0, failed: 0 } } : {}),
  ...(repeats === 1 ? {} : { repeats: { of: repeats, candidate: noRepeats, live: noRepeats, products: 0 } })
})

/** The outcomes of one example, with every top-level field of the expected answer and of both answers that is compared. */
export interface ComparedExample {
  readonly origin: ExampleOrigin
  readonly candidate: Outcome
  readonly live: Outcome
  readonly fields: ReadonlyArray<string>
  /** The answers after the first one, without their content: only the tally counts them. */
  readonly further?: ReadonlyArray<Answers>
}

/** The outcomes of both sides. */
interface Answers {
  readonly candidate: Outcome
  readonly live: Outcome
}

/** What a tally reads of an answer after the first one. The whole answers of all repeats of a batch would take gigabytes of memory. */
export const withoutContent = (outcome: Outcome): Outcome => ({
  ...outcome,
  answer: outcome.answer && {},
  disagreeing: [],
  examples: []
})

/** An example from its answers: with the outcomes of the first answer, and with the number that agree if there are several. */
export const toComparedExample = (
  answers: Arr.NonEmptyReadonlyArray<Answers>,
  about: (first: Answers) => Pick<ComparedExample, "fields" | "origin">
): ComparedExample => {
  const [first, ...further] = answers
  const counted = (side: keyof Answers): Outcome =>
    further.length === 0
      ? first[side]
      : { ...first[side], agreed_repeats: answers.filter((answer) => answer[side].agrees).length }
  return { candidate: counted("candidate"), live: counted("live"), further, ...about(first) }
}

/** Adds one example to a tally. */
export const addToTally = (
  tally: ComparisonTally,
  { candidate, fields, further = [], live, origin }: ComparedExample
): ComparisonTally => {
  const answers: ReadonlyArray<Answers> = [{ candidate, live }, ...further]
  const countIf = (candidateAgrees: boolean, liveAgrees: boolean) =>
    Number(candidate.agrees === candidateAgrees && live.agrees === liveAgrees)
  return {
    both: tally.both + countIf(true, true),
    candidate_only: tally.candidate_only + countIf(true, false),
    live_only: tally.live_only + countIf(false, true),
    neither: tally.neither + countIf(false, false),
    candidate: answers.reduce((side, answer) => withOutcome(side, answer.candidate), tally.candidate),
    live: answers.reduce((side, answer) => withOutcome(side, answer.live), tally.live),
    ...(tally.judge === undefined
      ? {}
      : {
          judge: answers.flatMap((answer) => [answer.candidate, answer.live]).reduce(withVerdict, tally.judge)
        }),
    ...(tally.repeats === undefined ? {} : { repeats: withRepeats(tally.repeats, answers) }),
    origins: withOrigin(tally.origins, { candidate, live, origin }),
    fields: withFields(tally.fields, { candidate, fields, live })
  }
}

const withRepeats = (
  { candidate, live, of, products }: NonNullable<ComparisonTally["repeats"]>,
  answers: ReadonlyArray<Answers>
): NonNullable<ComparisonTally["repeats"]> => {
  const agreed = (side: keyof Answers) => answers.filter((answer) => answer[side].agrees).length
  const add = ({ squares, sum, unstable }: RepeatCounts, count: number): RepeatCounts => ({
    sum: sum + count,
    squares: squares + count * count,
    unstable: unstable + Number(count > 0 && count < of)
  })
  const [byCandidate, byLive] = [agreed("candidate"), agreed("live")]
  return {
    of,
    candidate: add(candidate, byCandidate),
    live: add(live, byLive),
    products: products + byCandidate * byLive
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
  const { repeats } = tally
  return {
    candidate: sideSummary(
      candidate,
      both + candidate_only,
      total,
      repeats && { ...repeats.candidate, of: repeats.of }
    ),
    live: sideSummary(live, both + live_only, total, repeats && { ...repeats.live, of: repeats.of }),
    verdicts: { win: candidate_only, regression: live_only, both_agree: both, neither_agrees: neither },
    difference:
      repeats === undefined
        ? pairedDifference({ both, first: candidate_only, second: live_only, neither })
        : repeatedDifference({
            examples: total,
            repeats: repeats.of,
            first: repeats.candidate,
            second: repeats.live,
            products: repeats.products
          }),
    origins: ExampleOrigin.literals.flatMap((origin) => origins.filter((entry) => entry.origin === origin)),
    warning: correctionWarning(origins, total),
    fields,
    judge
  }
}

/**
 * Says that most compared examples are corrections. Each is an input that a release answered wrong, so the agreement on them is below that on
 * all inputs, and falls with every further correction, also while the releases get better.
 */
const correctionWarning = (origins: ComparisonTally["origins"], total: number): string | null => {
  const corrections = origins.find(({ origin }) => origin === "correction")?.compared ?? 0
  return 2 * corrections <= total
    ? null
    : `${corrections} of ${total} compared examples are corrections, inputs that a release answered wrong. The agreement on all inputs is higher. Confirm right answers too, or compare over a benchmark.`
}

const sideSummary = (
  side: Side,
  agreed: number,
  compared: number,
  repeated: (RepeatCounts & { readonly of: number }) | undefined
): SideSummary => {
  const answers = compared * (repeated?.of ?? 1)
  const answered = answers - side.failed
  return {
    agreed,
    agreement: compared === 0 ? null : (repeated?.sum ?? agreed) / answers,
    agreement_interval:
      repeated === undefined
        ? wilsonInterval(agreed, compared)
        : repeatedInterval({ examples: compared, repeats: repeated.of, ...repeated }),
    repeats:
      repeated === undefined
        ? null
        : {
            unstable: repeated.unstable,
            variance:
              compared === 0
                ? null
                : (repeated.of * repeated.sum - repeated.squares) /
                  (repeated.of * (repeated.of - 1) * compared)
          },
    score: compared === 0 || side.score === undefined ? null : side.score / answers,
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
