import { Effect, Schedule } from "effect"
import type { NewApprovalRule } from "../../api/ApprovalRules.ts"
import type { EffectCalls } from "../../client/Call.ts"
import type { ReviewerFigures } from "../../domain/approvals/Reviewer.ts"
import { type ApprovalId, StepId } from "../../domain/Ids.ts"
import { createClient } from "./clients.ts"
import { DemoFailed, during } from "./DemoFailed.ts"
import type { Refund, ReviewerModel, Script } from "./reviewerModel.ts"
import type { DemoService } from "./service.ts"

/** The terms of the demo's reviewers. Loose enough for a hundred decisions; in earnest they are stricter. */
export const TERMS = { min_lower_bound: 0.85, max_false_approvals: 0.12, sample: 0.25 } as const

/** The time to read a batch of requests before they are decided: faster decisions do not count. */
const READING_TIME = "3 seconds"

/** How long the service may take for a batch. */
const TIMEOUT = "60 seconds"

/** Requests in flight. */
const CONCURRENCY = 4

/** Refunds below and above the bound of the demo. */
export const smallRefund = (index: number) => ({ amount: 5 + (index % 90), note: "Damaged" })
export const largeRefund = (index: number) => ({ amount: 400 + index, note: "Changed their mind" })

/** Makes a number of requests. */
export const times = <A>(count: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => make(index))

/** The parts that all acts share. */
export interface Stage {
  readonly service: DemoService
  readonly admin: EffectCalls
  readonly agent: EffectCalls
  readonly model: ReviewerModel
}

/** Waits until a condition holds. */
const waitFor = <A, E>(what: string, look: Effect.Effect<A, E>, isReached: (value: A) => boolean) =>
  look.pipe(
    during(what),
    Effect.repeat({ until: isReached, schedule: Schedule.spaced("100 millis") }),
    Effect.timeoutOrElse({
      duration: TIMEOUT,
      orElse: () => Effect.fail(new DemoFailed({ message: `${what} took longer than ${TIMEOUT}` }))
    })
  )

/** A tool with a reviewer of its own, an agent that asks, and a person who decides. */
export const reviewedTool = Effect.fnUntraced(function* (
  { admin, agent, model, service }: Stage,
  tool: string,
  options: {
    /** How the model decides. */
    readonly model: Script
    /** How the person decides. */
    readonly person: Script
    /** The bound between two bands of amounts. */
    readonly bound?: number
  }
) {
  model.scripts.set(tool, options.model)
  const person = yield* createClient(service, admin, "reviewer", `person of ${tool}`)
  const { task_id } = yield* admin.reviewers
    .create({
      payload: {
        name: `reviewer of ${tool}`,
        tools: [tool],
        provider: { kind: "openai", base_url: model.url, model: "demo" },
        ...(options.bound === undefined ? {} : { amount: { pointer: "/amount", bounds: [options.bound] } })
      }
    })
    .pipe(during("creating a reviewer"))
  let number = 0
  /** Steps that wait for the person, with their refunds. */
  const waiting = new Map<ApprovalId, Refund>()

  const ask = Effect.fnUntraced(function* (refund: Omit<Refund, "order">) {
    const step = ++number
    const given = { order: `${tool.slice(0, 2).toUpperCase()}-${step}`, ...refund }
    // Each refund is a session: in one that was refused three times, people decide.
    const { session_id } = yield* agent.sessions.create({}).pipe(during("opening a session"))
    const answer = yield* agent.sessions
      .step({
        params: { id: session_id },
        payload: { step_id: StepId.make(`${tool} ${step}`), tool, action_class: "write", arguments: given }
      })
      .pipe(during("asking for a step"))
    if (answer.approval_id !== null) waiting.set(answer.approval_id, given)
    return answer
  })

  const detail = admin.reviewers.get({ params: { task_id }, query: termsQuery })
  const compared = Effect.map(detail, ({ figures }) =>
    figures.reduce((sum, { agreement, unsure }) => sum + agreement.of + unsure, 0)
  )

  /** The person reads and decides the pending approvals. Returns once the answers about it are compared. */
  const decide = Effect.gen(function* () {
    const expected = (yield* compared.pipe(during("reading the figures"))) + waiting.size
    yield* waitFor(
      "asking the model beside people",
      Effect.sync(() => model.askedAbout(tool)),
      (asked) => asked >= number
    )
    yield* Effect.sleep(READING_TIME)
    for (const decision of ["approve", "reject"] as const) {
      const approval_ids = [...waiting].flatMap(([id, refund]) =>
        options.person(refund) === decision ? [id] : []
      )
      if (approval_ids.length === 0) continue
      yield* person.approvals
        .decideMany({
          payload: {
            approval_ids,
            decision,
            comment: decision === "approve" ? "As usual" : "Not by our policy"
          }
        })
        .pipe(during("deciding"))
    }
    waiting.clear()
    yield* waitFor("comparing the answers with the decisions", compared, (count) => count >= expected)
  })

  return {
    task_id,
    person,
    ask,
    askAll: (refunds: ReadonlyArray<Omit<Refund, "order">>) =>
      Effect.forEach(refunds, ask, { concurrency: CONCURRENCY }),
    decide,
    waiting: () => waiting.size,
    detail: detail.pipe(during("reading the figures")),
    rule: {
      tool,
      effect: "require_approval",
      reviewer: { task_id, ...TERMS }
    } satisfies NewApprovalRule
  }
})
export type ReviewedTool = Effect.Success<ReturnType<typeof reviewedTool>>

const termsQuery = {
  min_lower_bound: TERMS.min_lower_bound,
  max_false_approvals: TERMS.max_false_approvals
}

const percent = (share: number, round: (value: number) => number): string =>
  `${(round(share * 1_000) / 10).toFixed(1)} %`

/** The figures of one tool and band in a line. */
export const describeFigures = ({
  agreement,
  approve,
  false_approvals,
  missing
}: Pick<ReviewerFigures, "agreement" | "approve" | "false_approvals" | "missing">): string => {
  const agreed = `agreed ${agreement.count} of ${agreement.of} (at least ${percent(agreement.bound, Math.floor)})`
  const wrong = `false approvals ${false_approvals.count} of ${false_approvals.of} (at most ${percent(false_approvals.bound, Math.ceil)})`
  const standing =
    approve === null
      ? "may approve"
      : `not earned, ${missing ?? "more than 100,000"} agreed approvals missing`
  return `${agreed}, ${wrong}: ${standing}`
}

/** Fails the demo unless a condition holds. */
export const expect = (holds: boolean, message: string): Effect.Effect<void, DemoFailed> =>
  holds ? Effect.void : Effect.fail(new DemoFailed({ message }))

/** The figures of the only tool and band of a reviewer. */
export const onlyFigures = (tool: ReviewedTool) =>
  Effect.flatMap(tool.detail, ({ figures: [first], reviewer }) =>
    first === undefined
      ? Effect.fail(new DemoFailed({ message: `${reviewer.name} has no figures` }))
      : Effect.succeed(first)
  )
