import { assert } from "@effect/vitest"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type DatasetId, ReviewerAnswerId, type SessionId, StepId } from "../../../src/domain/Ids.ts"
import { Spans } from "../../../src/server/telemetry/Spans.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../eventually.ts"
import { startCollector } from "../otlp/collector.ts"
import { clientMadeBy } from "../service.ts"
import { sortingTask, createSortingTask } from "../tasks.ts"

/** No process listens here, so that requests fail immediately. */
const CLOSED_PORT_URL = "http://127.0.0.1:9/hook"

/** Settings that `seedOneOfEach` requires: one attempt per delivery, no cooldown, frequent export of spans, a mail server that is away. */
export const seedEnvironment = {
  COUNTERSIGN_SMTP_URL: "smtp://127.0.0.1:9",
  COUNTERSIGN_MAIL_FROM: "countersign@example.org",
  COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0",
  COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "1000",
  COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "1"
}

/**
 * Creates an organization with one resource of every kind, in a state in which every operation can succeed: pending corrections and a
 * staged one, a pending approval, a step that may be completed, failed deliveries, a finished comparison.
 */
export const seedOneOfEach = Effect.fnUntraced(function* (organization: string) {
  const countersign = yield* Countersign
  const key: Redacted.Redacted = yield* countersign.key({ name: "Ada" }, organization)
  const admin = yield* countersign.clientWith(key)
  const agent = yield* clientMadeBy(admin, { preset: "runtime", name: "agent" })

  const { dataset, params, task } = yield* createSortingTask(
    admin,
    ["where is my parcel", "shipping"],
    ["pay", "billing"]
  )
  const other = yield* admin.tasks.create({ payload: sortingTask })
  const spareTask = yield* createSortingTask(admin, ["spare", "other"])
  const addSpare = (base_dataset_id: DatasetId, text: string) =>
    admin.datasets.create({
      params: spareTask.params,
      payload: { base_dataset_id, examples: [{ input: { text }, answer: { category: "other" } }] }
    })
  const spareDataset = yield* addSpare(spareTask.dataset.id, "second")
  yield* addSpare(spareDataset.id, "third")
  const deletion = yield* admin.deletions.erase({
    payload: { metadata_key: "customer", metadata_value: "nobody" }
  })
  const { comparison } = yield* admin.comparisons.create({ params, payload: { hold_out: { kind: "none" } } })
  yield* eventually(
    admin.comparisons.get({ params: { id: comparison.id }, query: {} }),
    (found) => found.comparison.status === "completed"
  )
  const [release] = (yield* admin.releases.list({ params, query: {} })).releases
  const tried = yield* createSortingTask(admin, ["pay", "billing"])
  const trial = yield* admin.comparisons.create({
    params: tried.params,
    payload: { hold_out: { kind: "none" } }
  })
  yield* eventually(
    admin.comparisons.get({ params: { id: trial.comparison.id }, query: {} }),
    (found) => found.comparison.status === "completed"
  )
  const canary = yield* admin.canaries.start({
    params: tried.params,
    payload: { comparison_id: trial.comparison.id, share: 0.1 }
  })

  // The rejecting collector comes first, so that there is a failed batch.
  const peer = yield* startCollector({ status: 400 })
  const destination = yield* admin.telemetryDestinations.create({
    payload: { url: `${peer.url}/v1/traces` }
  })
  const run = yield* agent.tasks.run({
    params,
    payload: { input: { text: "hello" }, answer: { category: "other" } }
  })
  yield* Effect.flatMap(Spans, (spans) => spans.flush)
  const batches = yield* eventually(
    Effect.map(
      admin.telemetryDestinations.listDeliveries({ params: destination }),
      ({ deliveries }) => deliveries
    ),
    (list) => list.some(({ status }) => status === "failed")
  )

  yield* admin.tasks.update({ params, payload: { review_share: 1 } })
  const sampled = yield* agent.tasks.run({
    params,
    payload: { input: { text: "hello" }, answer: { category: "other" } }
  })

  const unneeded = yield* agent.tasks.run({
    params,
    payload: { input: { text: "delete me" }, answer: { category: "other" } }
  })

  const correct = (category: string) =>
    admin.feedback.create({
      payload: { inference_log_id: run.trace_id, score: -1, correction: { category } }
    })
  const toStage = yield* correct("billing")
  const toReject = yield* correct("shipping")
  const toUnstage = yield* correct("billing")
  yield* admin.feedback.stage({ params: { id: toUnstage.id } })
  const toWithdraw = yield* correct("other")
  const toDelete = yield* correct("other")
  const staged = yield* correct("other")
  yield* admin.feedback.stage({ params: { id: staged.id } })

  const { endpoint } = yield* admin.notificationEndpoints.create({ payload: { url: CLOSED_PORT_URL } })
  const delivery = yield* admin.notificationEndpoints.test({ params: { id: endpoint.id } })
  yield* eventually(
    admin.notificationEndpoints.getDelivery({ params: { id: endpoint.id, delivery_id: delivery.id } }),
    ({ status }) => status === "failed"
  )

  const rules = [
    {
      effect: "allow",
      tool: "read",
      budgets: [
        { per: "organization", window_seconds: 86_400, count: 1_000_000 },
        { per: "session", window_seconds: 86_400, count: 1_000_000 }
      ]
    },
    { effect: "require_approval", task_id: task.id }
  ] as const
  const { rules: made } = yield* admin.approvalRules.replace({ payload: { rules } })
  yield* admin.approvalRules.replaceShadow({
    payload: { rules: [{ effect: "require_approval", tool: "read" }] }
  })
  const { session_id } = yield* agent.sessions.create({ payload: { task_id: task.id } })
  const step = (step_id: string, tool: string) =>
    agent.sessions.step({
      params: { id: session_id },
      payload: { step_id: StepId.make(step_id), tool, action_class: "write" }
    })
  yield* step("allowed", "read")
  const { approval_id } = yield* step("waiting", "pay")
  const { approval_id: granted } = yield* step("granted", "pay")
  const { grant } = yield* admin.approvals.decide({
    params: { id: granted ?? assert.fail("an approval") },
    payload: { decision: "approve", grant: { scope: "arguments", max_uses: 1 } }
  })
  yield* admin.approvals.sendMessage({
    params: { id: approval_id ?? assert.fail("an approval") },
    payload: { text: "Which invoice?" }
  })
  yield* step("claimable", "read")
  const claim = (id: SessionId, step_id: string) =>
    Effect.map(
      agent.sessions.step({
        params: { id },
        payload: { step_id: StepId.make(step_id), tool: "read", action_class: "read", claim: true }
      }),
      (answer) => answer.claim ?? assert.fail("a claim")
    )
  const claimed = yield* claim(session_id, "claimed")
  const crashed = yield* agent.sessions.create({ payload: {} })
  const unknown = yield* claim(crashed.session_id, "unknown")
  yield* agent.sessions.close({ params: { id: crashed.session_id } })
  const toClose = yield* agent.sessions.create({ payload: {} })
  const invitation = yield* admin.invitations.create({
    payload: { name: "invited", preset: "reviewer", email: "invited@example.org" }
  })
  // As if the person had read the request.
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE approvals SET requested_at = ${new Date(Date.now() - 60_000)} WHERE approval_id = ${granted}`
  const newReviewer = { name: "Payments", provider: { kind: "examples" }, tools: ["pay"] } as const
  const reviewer = yield* admin.reviewers.create({ payload: newReviewer })
  // As if it had decided a step: it has earned nothing.
  const reviewerAnswer = yield* ReviewerAnswerId.generate
  yield* sql`
    INSERT INTO reviewer_answers (
      org_id, answer_id, task_id, release_id, session_id, step_id, tool, band, mode, answer, reason, calls, tokens, requested_at, created_at
    )
    SELECT
      org_id, ${reviewerAnswer}, task_id, live_release_id, ${session_id}, 'claimed', 'read', 0, 'decided', 'approve', '', 1, 10,
      created_at, created_at
    FROM tasks
    WHERE task_id = ${reviewer.task_id}
  `
  yield* sql`
    INSERT INTO reviewer_answers (
      org_id, answer_id, task_id, release_id, session_id, step_id, approval_id, tool, band, mode, answer, reason, calls, tokens,
      requested_at, created_at, verdict, decided_at, counted
    )
    SELECT
      org_id, ${`rva_${String(granted).slice(4)}`}, ${reviewer.task_id}, ${reviewer.release_id}, session_id, step_id, approval_id, tool, 0,
      'shadow', 'approve', '', 1, 1, requested_at, requested_at, 'approve', decided_at, true
    FROM approvals
    WHERE approval_id = ${granted}
  `
  const spareReviewer = yield* admin.reviewers.create({ payload: newReviewer })
  const spare = yield* admin.apiKeys.create({ payload: { name: "spare", preset: "runtime" } })

  return {
    key,
    admin,
    agent,
    ids: {
      task: task.id,
      other_task: other.id,
      dataset: dataset.id,
      comparison: comparison.id,
      canary_task: tried.task.id,
      canary_comparison: trial.comparison.id,
      canary: canary.release.id,
      release: release?.id ?? assert.fail("a release"),
      trace: run.trace_id,
      sampled_trace: sampled.trace_id,
      feedback_to_stage: toStage.id,
      feedback_to_reject: toReject.id,
      feedback_to_unstage: toUnstage.id,
      feedback_to_withdraw: toWithdraw.id,
      feedback_to_delete: toDelete.id,
      trace_to_delete: unneeded.trace_id,
      spare_task: spareTask.task.id,
      spare_dataset: spareDataset.id,
      deletion: deletion.id,
      staged: staged.id,
      endpoint: endpoint.id,
      delivery: delivery.id,
      destination: destination.id,
      invitation: invitation.id,
      batch: batches.find(({ status }) => status === "failed")?.id ?? assert.fail("a batch"),
      rule: made[1]?.id ?? assert.fail("a rule"),
      session: session_id,
      session_to_close: toClose.session_id,
      approval: approval_id ?? assert.fail("an approval"),
      grant: grant?.grant_id ?? assert.fail("a grant"),
      claim: claimed.id,
      unknown_claim: unknown.id,
      spare_key: spare.key.id,
      reviewer: reviewer.task_id,
      reviewer_answer: reviewerAnswer,
      spare_reviewer: spareReviewer.task_id
    }
  }
})

/** The result of {@link seedOneOfEach}. */
export type SeededOrganization = Effect.Success<ReturnType<typeof seedOneOfEach>>
