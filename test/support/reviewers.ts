import { assert } from "@effect/vitest"
import { Clock, Effect, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { ClientCalls } from "../../src/client/Client.ts"
import type { NewReviewer } from "../../src/api/Reviewers.ts"
import { type ApprovalId, StepId, type TaskId } from "../../src/domain/Ids.ts"
import { processClock } from "../../src/server/concurrency/processClock.ts"
import { Countersign } from "../../src/testing/index.ts"
import { eventually } from "./eventually.ts"
import { type AskedStep, type ModelReply, startReviewerModel } from "./reviewerModel.ts"
import { clientMadeBy } from "./service.ts"

/** Lets the service call models on loopback. */
export const providerEnvironment = { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" }

/** The amount of a step; 0 without one. */
export const amountOf = ({ arguments: args }: AskedStep): number =>
  typeof args === "object" && args !== null && "amount" in args ? Number(args.amount) : 0

/** Approves up to 100, is unsure up to 200, and rejects more. */
export const byAmount = (step: AskedStep): ModelReply => ({
  decision: amountOf(step) <= 100 ? "approve" : amountOf(step) <= 200 ? "unsure" : "reject"
})

/** An organization with a model, a person, and an agent whose steps wait for the person. */
export const reviewerTeam = Effect.fnUntraced(function* (
  organization: string,
  answer: (step: AskedStep, count: number) => ModelReply = byAmount,
  settings: Partial<NewReviewer> = {}
) {
  const countersign = yield* Countersign
  const admin = yield* countersign.client({ name: "admin" }, organization)
  const agent = yield* clientMadeBy(admin, { preset: "runtime", name: "agent" })
  const ada = yield* countersign.client({ preset: "reviewer", name: "Ada" }, organization)
  const model = yield* startReviewerModel(answer)
  const payload: NewReviewer = {
    name: "refunds-small",
    provider: { kind: "openai", base_url: model.url, model: "small", structured_output: "none" },
    tools: ["payments.*"],
    ...settings
  }
  const reviewer = yield* admin.reviewers.create({ payload })
  const { session_id } = yield* agent.sessions.create({ payload: { metadata: { customer: organization } } })
  let steps = 0
  /** Submits a step, which waits for a person. */
  const submit = Effect.fnUntraced(function* (
    args: Schema.Json,
    { by = agent, tool = "payments.refund" }: { readonly tool?: string; readonly by?: ClientCalls } = {}
  ) {
    const { approval_id } = yield* by.sessions.step({
      params: { id: session_id },
      payload: { step_id: StepId.make(`step ${++steps}`), tool, action_class: "write", arguments: args }
    })
    return approval_id ?? assert.fail("the step waits")
  })
  const params = { task_id: reviewer.task_id }
  const figures = Effect.map(admin.reviewers.get({ params }), (detail) => detail.figures)
  const answers = Effect.map(
    admin.reviewers.answers({ params, query: { limit: 100 } }),
    (found) => found.answers
  )
  const decide = (id: ApprovalId, decision: "approve" | "reject", comment?: string) =>
    ada.approvals.decide({
      params: { id },
      payload: { decision, ...(comment === undefined ? {} : { comment }) }
    })
  return {
    ...{ admin, agent, ada, countersign, model, params, payload, reviewer, session_id },
    ...{ answers, decide, figures, submit }
  }
})

/** Waits until the reviewer has stored so many answers. */
export const awaitAnswers = (task_id: TaskId, count: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    eventually(
      sql<{ readonly count: number }>`
        SELECT count(*)::int AS count FROM reviewer_answers WHERE task_id = ${task_id}
      `,
      ([row]) => (row?.count ?? 0) >= count
    ).pipe(Effect.provideService(Clock.Clock, processClock))
  )
