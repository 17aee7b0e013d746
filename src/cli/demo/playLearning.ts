import { Effect, Schedule } from "effect"
import type { EffectCalls } from "../../client/Call.ts"
import type { ComparisonId, TaskId, TraceId } from "../../domain/Ids.ts"
import { printResult, printStep } from "../print.ts"
import { clientFor, createClient } from "./clients.ts"
import { DemoFailed, during } from "./DemoFailed.ts"
import type { DemoService } from "./service.ts"

/** How long the comparison may take, which calls the model two dozen times. */
const COMPARISON_TIMEOUT = "60 seconds"

/** Messages of customers with their categories. */
type Messages = ReadonlyArray<readonly [text: string, category: string]>

/** The examples of the dataset at the beginning. */
const known: Messages = [
  ["thank you and have a nice day", "other"],
  ["do you have a shop in Vienna", "other"],
  ["please send me your catalogue", "other"]
]

/** The messages that are answered wrong and corrected: two of each kind. */
const corrected: Messages = [
  ["my last invoice shows the wrong amount", "billing"],
  ["this month's invoice shows the wrong amount", "billing"],
  ["my card was charged twice for one order", "billing"],
  ["my card was charged twice this week", "billing"],
  ["the refund for my order has not arrived", "billing"],
  ["the refund for my return has not arrived", "billing"],
  ["where is the parcel that I ordered", "shipping"],
  ["where is the parcel that you sent", "shipping"],
  ["the courier left my box at the wrong door", "shipping"],
  ["the courier left my box at another door", "shipping"]
]

/** Messages that never enter the dataset. */
const heldOut: Messages = [
  ["my June invoice shows the wrong amount", "billing"],
  ["my new invoice shows the wrong amount again", "billing"],
  ["my card was charged twice for this order", "billing"],
  ["my debit card was charged twice this month", "billing"],
  ["the refund for my booking has not arrived", "billing"],
  ["the refund for my last order has not arrived", "billing"],
  ["where is the parcel that was ordered", "shipping"],
  ["where is the small parcel that you sent", "shipping"],
  ["the courier left my box at a wrong door", "shipping"],
  ["the courier left our box at another door", "shipping"],
  ["do you have a shop in Graz", "other"],
  ["thank you and have a nice evening", "other"]
]

const toExample = ([text, category]: Messages[number]) => ({ input: { text }, answer: { category } })

const [firstKnown = ["", ""], ...otherKnown] = known
const knownExamples = [toExample(firstKnown), ...otherKnown.map(toExample)] as const

const schemas = {
  input_schema: {
    type: "object",
    properties: { text: { type: "string" } },
    required: ["text"],
    additionalProperties: false
  },
  answer_schema: {
    type: "object",
    properties: { category: { enum: ["billing", "shipping", "other"] } },
    required: ["category"],
    additionalProperties: false
  }
}

/**
 * Plays the learning loop with a model that answers right only if its prompt shows a similar example: ten wrong answers are corrected,
 * staged, promoted, compared and released. Prints the agreement on messages that are never in the dataset, before and after. Fails if it
 * has not risen.
 */
export const playLearning = Effect.fnUntraced(function* (service: DemoService, modelUrl: string) {
  const admin = yield* clientFor(service, service.key)
  yield* printStep("The service", `${service.url} (${service.about})`)
  yield* printStep(
    "A model server",
    modelUrl,
    'Its model answers like a similar example in its prompt. Without one it answers "other".'
  )
  const app = yield* createClient(service, admin, "runtime", "demo app")
  const support = yield* createClient(service, admin, "integration", "demo support")
  const reviewer = yield* createClient(service, admin, "reviewer", "demo reviewer")

  const task = yield* admin.tasks
    .create({
      payload: {
        name: "demo: sort messages",
        instructions: "Sort the customer's message.",
        ...schemas,
        provider: { kind: "openai", base_url: modelUrl, model: "demo" }
      }
    })
    .pipe(during("creating the task"))
  const params = { id: task.id }
  const dataset = yield* admin.datasets
    .create({ params, payload: { examples: knownExamples } })
    .pipe(during("creating the dataset"))
  yield* printStep(`A task: ${task.name}`, `dataset version ${dataset.version}: ${known.length} examples`)

  const before = yield* countRight(app, task.id, heldOut)
  yield* printStep(
    "The live release answers messages that are never in the dataset",
    `agreement: ${share(before, heldOut.length)}`
  )

  const runs = yield* Effect.forEach(corrected, ([text, category]) =>
    Effect.map(ask(app, task.id, text), (run) => ({ ...run, text, category }))
  )
  const wrong = runs.filter((run) => run.answer["category"] !== run.category)
  yield* Effect.forEach(wrong, ({ category, trace_id }) => correct(support, reviewer, trace_id, category))
  yield* printStep(
    `${wrong.length} wrong answers to other messages are corrected, and a reviewer stages the corrections`,
    ...wrong.slice(0, 2).map(({ category, text }) => `"${text}": ${category}`),
    "…"
  )

  const preview = yield* admin.feedback
    .previewPromotion({ params, query: {} })
    .pipe(during("reading the preview"))
  const { dataset: next } = yield* admin.feedback
    .promote({
      params,
      payload: { base_dataset_id: dataset.id, expected_feedback_revision: preview.feedback_revision }
    })
    .pipe(during("promoting the corrections"))
  yield* printStep(
    "An admin promotes them",
    `dataset version ${next.version}: ${next.example_count} examples`
  )

  const { comparison } = yield* admin.comparisons
    .create({ params, payload: { candidate: { dataset_id: next.id } } })
    .pipe(during("starting the comparison"))
  const { summary } = yield* awaitCompleted(admin, comparison.id)
  const { candidate, live } = summary
  yield* printStep(
    "The new version is compared with the live release; an example is never in its own prompt",
    `agreement of the live release: ${share(live.agreed, comparison.example_count)}`,
    `agreement of the candidate: ${share(candidate.agreed, comparison.example_count)}`
  )
  if (candidate.agreed <= live.agreed) {
    return yield* new DemoFailed({
      message: "the candidate does not agree with more examples than the live release"
    })
  }

  const release = yield* admin.releases
    .create({ params, payload: { comparison_id: comparison.id } })
    .pipe(during("releasing the candidate"))
  yield* printStep("The candidate is released", release.id)

  const after = yield* countRight(app, task.id, heldOut)
  yield* printStep(
    "The new release answers the messages that are never in the dataset",
    `agreement: ${share(after, heldOut.length)}`
  )
  yield* printStep(
    "Both agreements side by side",
    `${"".padEnd(18)}held-out messages   the comparison`,
    `${"live release".padEnd(18)}${percent(before, heldOut.length).padEnd(20)}${percent(live.agreed, comparison.example_count)}`,
    `${"candidate".padEnd(18)}${percent(after, heldOut.length).padEnd(20)}${percent(candidate.agreed, comparison.example_count)}`,
    ...(summary.warning === null ? [] : [summary.warning])
  )
  const result = `Agreement on held-out messages: ${share(before, heldOut.length)} before, ${share(after, heldOut.length)} after.`
  if (after <= before) return yield* new DemoFailed({ message: `it has not risen. ${result}` })
  yield* printResult(true, result)
})

const percent = (right: number, of: number): string => `${((100 * right) / of).toFixed(0)} %`

const share = (right: number, of: number): string => `${right} of ${of} (${percent(right, of)})`

const ask = (client: EffectCalls, task_id: TaskId, text: string) =>
  client.tasks.run({ params: { id: task_id }, payload: { input: { text } } }).pipe(during("running the task"))

/** Answers messages with the live release, and counts the right answers. */
const countRight = (client: EffectCalls, task_id: TaskId, messages: Messages) =>
  Effect.map(
    Effect.forEach(messages, ([text, category]) =>
      Effect.map(ask(client, task_id, text), ({ answer }) => answer["category"] === category)
    ),
    (right) => right.filter(Boolean).length
  )

/** Corrects an answer, and stages the correction. */
const correct = Effect.fnUntraced(function* (
  support: EffectCalls,
  reviewer: EffectCalls,
  trace_id: TraceId,
  category: string
) {
  const { id } = yield* support.feedback
    .create({ payload: { inference_log_id: trace_id, score: -1, correction: { category } } })
    .pipe(during("correcting an answer"))
  yield* reviewer.feedback.stage({ params: { id } }).pipe(during("staging a correction"))
})

/** Waits until the comparison has ended. */
const awaitCompleted = Effect.fnUntraced(function* (admin: EffectCalls, id: ComparisonId) {
  const { comparison } = yield* admin.comparisons.get({ params: { id }, query: { limit: 1 } }).pipe(
    during("reading the comparison"),
    Effect.repeat({
      until: (read) => read.comparison.status !== "running",
      schedule: Schedule.spaced("100 millis")
    }),
    Effect.timeoutOrElse({
      duration: COMPARISON_TIMEOUT,
      orElse: () =>
        Effect.fail(new DemoFailed({ message: `the comparison has not ended within ${COMPARISON_TIMEOUT}` }))
    })
  )
  if (comparison.status === "completed") return comparison
  return yield* new DemoFailed({
    message: `the comparison ${comparison.status}: ${comparison.failure ?? "no reason"}`
  })
})
