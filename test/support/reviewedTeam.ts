/** Reviewer models for tests: their provider is a function, and their history is counted without people. */
import { Effect, Layer, type Schema, Stream } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApprovalRule } from "../../src/api/ApprovalRules.ts"
import type { NewProvider } from "../../src/domain/tasks/Provider.ts"
import { Authorized } from "../../src/api/Authorization.ts"
import { type OrgId, ReleaseId, StepId, type TaskId } from "../../src/domain/Ids.ts"
import { SampleDraw } from "../../src/server/approvals/ReviewerDecisions.ts"
import { Reviewers } from "../../src/server/approvals/Reviewers.ts"
import { ApiKeys } from "../../src/server/identity/ApiKeys.ts"
import {
  NoAnswer,
  type ProviderAnswer,
  Providers,
  type ProviderRequest
} from "../../src/server/tasks/Providers.ts"
import { Countersign } from "../../src/testing/index.ts"

type Script = (request: ProviderRequest) => Effect.Effect<ProviderAnswer, NoAnswer>

/** An answer of a model. */
export const answers = (
  decision: "approve" | "reject" | "unsure",
  reason = "Small"
): Effect.Effect<ProviderAnswer> =>
  Effect.succeed({
    answer: { decision, reason },
    usage: { input_tokens: 100, output_tokens: 10 },
    calls: [],
    examples: []
  })

/** The failure of a model. */
export const noAnswer: Effect.Effect<never, NoAnswer> = Effect.fail(
  new NoAnswer({
    reason: "server_error",
    detail: "The model server failed.",
    usage: { input_tokens: null, output_tokens: null },
    calls: [],
    examples: []
  })
)

/** Model providers of a service whose answers a test scripts, and which of these are sampled. */
export const scriptedModel = () => {
  let script: Script = () => answers("approve")
  const draws: Array<number> = []
  const asked: Array<ProviderRequest> = []
  return {
    /** Replaces the providers, and the draw of the sample. */
    layer: Layer.merge(
      Layer.succeed(
        Providers,
        Providers.of({
          answer: (request) =>
            Effect.suspend(() => {
              asked.push(request)
              return script(request)
            })
        })
      ),
      Layer.succeed(SampleDraw, () => draws.shift() ?? 0.999)
    ),
    /** What is drawn next for the sample; then, nothing below a share of 1 is sampled. */
    draws,
    /** All requests so far. */
    asked,
    /** How it answers from now on. */
    answer: (next: Script) =>
      Effect.sync(() => {
        script = next
      })
  }
}

/** A reviewer, the agent whose steps it may decide, and an admin. */
export const reviewedTeam = Effect.fnUntraced(function* (
  organization: string,
  options: {
    /** Members of the rule's reviewer; null: the rule has none. */
    readonly reviewer?: Partial<NonNullable<NewApprovalRule["reviewer"]>> | null
    readonly amount?: { readonly pointer: string; readonly bounds: ReadonlyArray<number> }
    /** Approvals with which people agreed, in the past. */
    readonly earned?: number
    readonly provider?: NewProvider
  } = {}
) {
  const { amount = null, earned = 2_000, reviewer = {} } = options
  const countersign = yield* Countersign
  const sql = yield* SqlClient.SqlClient
  const reviewers = yield* Reviewers
  const key = yield* countersign.key({ preset: "admin" }, organization)
  const principal = yield* (yield* ApiKeys).verify(key)
  const admin = yield* countersign.clientWith(key)
  const { release_id, task_id } = yield* Effect.provideService(
    reviewers.create({
      name: "refunds-small",
      tools: ["payments.*"],
      amount,
      // Its answers are scripted.
      provider: options.provider ?? { kind: "examples" }
    }),
    Authorized("rules.write"),
    principal
  )
  const { org_id } = principal
  const group = { org_id, task_id, release_id, tool: "payments.refund" }
  // The worker does not ask it beside people: the script answers the requests of steps alone.
  yield* sql`
    UPDATE reviewers
    SET last_approval_id = 'apr_~', compared_at = '2099-01-01'
    WHERE org_id = ${org_id}
      AND task_id = ${task_id}
  `
  if (earned > 0) yield* countAnswers(sql, group, { answer: "approve", verdict: "approve", answers: earned })
  if (earned > 0) yield* countAnswers(sql, group, { answer: "reject", verdict: "reject", answers: earned })
  /** Stores the rule with these bounds, below other rules. */
  const setRules = (
    bounds: Partial<NonNullable<NewApprovalRule["reviewer"]>> | null,
    others: ReadonlyArray<NewApprovalRule> = []
  ) =>
    admin.approvalRules.replace({
      payload: {
        rules: [
          ...others,
          {
            tool: "payments.*",
            effect: "require_approval",
            reviewer:
              bounds === null
                ? null
                : { task_id, min_lower_bound: 0.95, max_false_approvals: 0.02, sample: 0.05, ...bounds }
          }
        ]
      }
    })
  yield* setRules(reviewer)
  const agent = yield* countersign.client({ preset: "runtime" }, organization)
  const person = yield* countersign.client({ preset: "reviewer" }, organization)
  const { session_id } = yield* agent.sessions.create({})
  let number = 0
  interface Submitted {
    readonly step_id?: string
    readonly arguments?: Schema.JsonObject
    readonly tool?: string
    readonly claim?: boolean
  }
  /** Submits a step of the reviewer's tool: another one with other arguments each time. */
  const submitAs = (as: typeof agent, id: typeof session_id, over: Submitted = {}) =>
    Effect.suspend(() => {
      const step_id = StepId.make(over.step_id ?? `step ${++number}`)
      return as.sessions.step({
        params: { id },
        payload: {
          tool: "payments.refund",
          action_class: "write",
          ...over,
          arguments: Object.assign({ order: step_id }, over.arguments ?? { amount: 10 }),
          step_id
        }
      })
    })
  const submit = (over?: Submitted) => submitAs(agent, session_id, over)
  /** The totals of a test of rules. */
  const testRules = (rules: ReadonlyArray<NewApprovalRule>) =>
    Effect.flatMap(admin.approvalRules.test({ payload: { rules } }), (lines) =>
      Effect.map(Stream.runCollect(lines), (all) => {
        const result = all.at(-1)
        if (result?.type !== "result") throw new Error("a test of rules ends with its result")
        return result
      })
    )
  return {
    admin,
    agent,
    group,
    organization,
    person,
    principal,
    reviewers,
    session_id,
    sql,
    setRules,
    submit,
    submitAs,
    task_id,
    testRules
  }
})

/** Counts answers that people are said to have compared. */
export const countAnswers = (
  sql: SqlClient.SqlClient,
  group: {
    readonly org_id: OrgId
    readonly task_id: TaskId
    readonly release_id: string
    readonly tool: string
  },
  counted: {
    readonly answer: string
    readonly verdict: string
    readonly answers: number
    readonly band?: number
  }
) => sql`
  INSERT INTO reviewer_counts (org_id, task_id, release_id, dataset_id, tool, band, week, answer, verdict, answers)
  VALUES (
    ${group.org_id}, ${group.task_id}, ${group.release_id}, '', ${group.tool}, ${counted.band ?? 0}, '2026-01-05', ${counted.answer},
    ${counted.verdict}, ${counted.answers}
  )
`

/** Makes another release of the reviewer's task live. */
export const releaseAnother = Effect.fnUntraced(function* ({
  admin,
  group,
  sql,
  task_id
}: Effect.Success<ReturnType<typeof reviewedTeam>>) {
  const other = yield* ReleaseId.generate
  yield* sql`
    INSERT INTO releases (org_id, release_id, task_id, number, instructions, provider, created_at, created_by_id, created_by_name)
    SELECT org_id, ${other}, task_id, number + 1, instructions || ' Be strict.', provider, created_at, created_by_id, created_by_name
    FROM releases
    WHERE org_id = ${group.org_id} AND release_id = ${group.release_id}
  `
  yield* admin.releases.create({ params: { id: task_id }, payload: { release_id: other } })
})
