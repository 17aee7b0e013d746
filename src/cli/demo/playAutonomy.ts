import { Effect } from "effect"
import { describeStop } from "../../domain/approvals/Reviewer/describeStop.ts"
import { printResult, printStep } from "../print.ts"
import { clientFor, createClient } from "./clients.ts"
import { DemoFailed, during } from "./DemoFailed.ts"
import { playCheats } from "./playCheats.ts"
import {
  describeFigures,
  expect,
  largeRefund,
  onlyFigures,
  reviewedTool,
  smallRefund,
  type Stage,
  TERMS,
  times
} from "./reviewedTool.ts"
import type { ReviewerModel, Script } from "./reviewerModel.ts"
import type { DemoService } from "./service.ts"

/** Batches of requests that people decide while the model only answers beside them. */
const BATCHES = 3
const APPROVED_PER_BATCH = 32
const REJECTED_PER_BATCH = 8

/** Requests once the model may decide. */
const WITH_RIGHT = 12

/** Disagreements that people meet before the model loses the right. */
const DISAGREEMENTS = 3

/** Most requests of the planted kind: the chance that fewer than three of them are sampled is 1 to 10^9. */
const MAX_PLANTED = 100

/** Small refunds are approved. */
const bySize: Script = ({ amount }) => (amount <= 100 ? "approve" : "reject")

/** The person also knows about returned goods that never arrived. The model does not. */
const byPolicy: Script = (refund) => (refund.note.includes("never arrived") ? "reject" : bySize(refund))

const planted = (index: number) => ({ amount: 20 + (index % 60), note: "Return that never arrived" })

/**
 * Plays the life of a reviewer model: it answers beside people, earns the right at its bound, decides, meets disagreements, and loses the right.
 * Then three models try to cheat. Fails unless all of it happens.
 */
export const playAutonomy = Effect.fnUntraced(function* (service: DemoService, model: ReviewerModel) {
  const admin = yield* clientFor(service, service.key)
  const agent = yield* createClient(service, admin, "runtime", "demo agent")
  const stage: Stage = { service, admin, agent, model }
  yield* printStep("The service", `${service.url} (${service.about})`)
  const refunds = yield* reviewedTool(stage, "payments.refund", { model: bySize, person: byPolicy })
  const { task_id } = refunds
  yield* printStep(
    "A reviewer model for payments.refund, which only watches",
    `it may decide while people agree with at least ${TERMS.min_lower_bound * 100} % of its answers`,
    `and reject at most ${TERMS.max_false_approvals * 100} % of its approvals; both bounds hold with a chance of 95 %`
  )

  for (const batch of times(BATCHES, (index) => index + 1)) {
    yield* refunds.askAll([
      ...times(APPROVED_PER_BATCH, smallRefund),
      ...times(REJECTED_PER_BATCH, largeRefund)
    ])
    const { answers } = yield* admin.reviewers
      .answers({ params: { task_id }, query: { limit: 100 } })
      .pipe(during("listing the answers"))
    const shown = answers.length - (batch - 1) * (APPROVED_PER_BATCH + REJECTED_PER_BATCH)
    yield* expect(shown <= 0, `${shown} answers were shown before people decided`)
    yield* refunds.decide
    const figures = yield* onlyFigures(refunds)
    yield* printStep(
      `People decide ${APPROVED_PER_BATCH + REJECTED_PER_BATCH} refunds; its answers are shown only afterwards`,
      describeFigures(figures)
    )
    yield* expect(
      (figures.approve === null) === batch > 1,
      `after ${batch} batches it ${figures.approve === null ? "may" : "may not"} approve`
    )
  }

  const past = yield* admin.reviewers
    .backtest({ params: { task_id }, payload: TERMS })
    .pipe(during("replaying its answers"))
  yield* printStep(
    "The backtest: what it would have decided",
    `${past.decided} of ${past.compared}, ${past.false_approvals} false approvals, ${past.false_rejections} false rejections; ` +
      `${past.not_earned} before it had earned it, ${past.sampled} as the sample`
  )
  yield* expect(past.decided > 0 && past.false_approvals === 0, "the backtest decided nothing, or wrongly")

  const cheats = yield* playCheats.prepare(stage)
  yield* admin.approvalRules
    .replace({ payload: { rules: [refunds.rule, ...cheats.rules] } })
    .pipe(during("letting it decide"))
  const steps = yield* refunds.askAll(times(WITH_RIGHT, smallRefund))
  const byModel = steps.filter(({ decision_source }) => decision_source === "model").length
  yield* printStep(
    `An admin lets it decide: ${TERMS.sample * 100} % still go to people, at random and unmarked`,
    `${byModel} of ${WITH_RIGHT} refunds are decided by the model, at once`,
    `${refunds.waiting()} wait for a person, who approves them`
  )
  yield* expect(byModel > 0, "the model decided nothing although it has earned it")
  yield* refunds.decide

  let allowed = 0
  for (let index = 0; index < MAX_PLANTED && refunds.waiting() < DISAGREEMENTS; index++) {
    if ((yield* refunds.ask(planted(index))).decision_source === "model") allowed++
  }
  yield* expect(refunds.waiting() === DISAGREEMENTS, "the sample did not meet three planted refunds")
  yield* refunds.decide
  const lost = yield* refunds.detail
  const [fallen] = lost.figures
  yield* printStep(
    "Refunds of a new fraud, which the model approves",
    `it allows ${allowed}; ${DISAGREEMENTS} others go to a person as the sample, who rejects them`,
    fallen === undefined ? "" : describeFigures(fallen)
  )
  const { reviewer } = lost
  if (reviewer.state !== "stopped" || reviewer.stopped_reason === null)
    return yield* new DemoFailed({ message: "the reviewer has not lost the right" })
  const next = yield* refunds.ask(planted(0))
  const review = yield* admin.reviewers
    .answers({ params: { task_id }, query: { to_review: "true", limit: 100 } })
    .pipe(during("listing the decisions to look at"))
  yield* printStep(
    "It has lost the right by itself",
    `stopped: ${describeStop(reviewer.stopped_reason)}`,
    `the next refund waits for a person: ${next.decision}`,
    `${review.answers.length} of its decisions are listed for a person to look at`
  )
  yield* expect(next.decision === "pending", "the next step did not wait for a person")
  yield* expect(
    review.answers.length >= allowed,
    `${review.answers.length} decisions are listed, fewer than the ${allowed} wrong ones`
  )

  yield* playCheats.play(cheats)
  yield* printResult(
    true,
    `The model earned the right at its bound, decided ${byModel} refunds, and lost it at ${DISAGREEMENTS} disagreements. No cheat got away with it.`
  )
})
