import { DateTime, Effect } from "effect"
import type { ClientCalls } from "../../src/client/Client.ts"
import { StepId, type TaskId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"

/** The names and texts that people, agents and systems write. */
export interface SeedTexts {
  readonly reviewer: string
  readonly agent: string
  readonly tool: string
  readonly task: string
  readonly text: string
  readonly field: string
}

/** Ordinary texts. */
export const everydayTexts: SeedTexts = {
  reviewer: "Ada Lovelace",
  agent: "support agent",
  tool: "payments.refund",
  task: "Sort customer messages",
  text: "The parcel arrived late and half of it was broken; the customer asks for 25 € back.",
  field: "note"
}

/** Texts that try to break the page: markup, unbreakable texts, and bidirectional and invisible characters. */
export const hostileTexts: SeedTexts = {
  reviewer: "<b id=injected>Eve</b> " + "W".repeat(150),
  agent: "<img src=x onerror=alert(1)> " + "م".repeat(100),
  tool: "pay.<svg onload=alert(2)>." + "x".repeat(150),
  task: "<script>alert(3)</script> " + "Q".repeat(150),
  text: `"><img src=x onerror=alert(4)> invoice\u202efdp.exe pay\u200bpal مرحبا بالعالم ${"W".repeat(3_000)}`,
  field: "<iframe srcdoc=x>" + "k".repeat(80)
}

/** Creates an organization that has an example of everything the console shows, and returns the ids. */
export const seedConsoleOrg = Effect.fnUntraced(function* (
  organization: string,
  texts: SeedTexts = everydayTexts
) {
  const { client } = yield* Countersign
  const admin = yield* client({ name: "Grace Hopper", email: "grace@example.com" }, organization)
  const reviewer = yield* client({ preset: "reviewer", name: texts.reviewer }, organization)
  const agent = yield* client({ preset: "runtime", name: texts.agent }, organization)

  yield* admin.approvalRules.replace({
    payload: {
      rules: [
        { tool: "search.*", effect: "allow", reason: "Read-only" },
        { action_class: "admin", effect: "reject", reason: texts.text.slice(0, 900) },
        {
          tool: texts.tool.slice(0, 150),
          effect: "require_approval",
          review_seconds: 3_600,
          escalation_seconds: 7_200,
          reason: "Refunds need a second person"
        }
      ]
    }
  })
  yield* admin.approvalRules.replaceShadow({
    payload: { rules: [{ effect: "reject", reason: texts.text.slice(0, 900) }] }
  })
  const { endpoint } = yield* admin.notificationEndpoints.create({
    payload: { url: "http://127.0.0.1:9/hook" }
  })
  yield* admin.telemetryDestinations.create({ payload: { url: "http://127.0.0.1:9/v1/traces" } })
  const taskIds = yield* seedTask(admin, reviewer, texts)
  const session = yield* agent.sessions.create({
    payload: { task_id: taskIds.task_id, metadata: { ticket: "4711", [texts.field]: texts.text } }
  })
  const submitStep = (step_id: string, tool: string, action_class: string) =>
    agent.sessions.step({
      params: { id: session.session_id },
      payload: {
        step_id: StepId.make(step_id),
        tool,
        action_class,
        arguments: {
          order: 4711,
          amount: 25,
          [texts.field]: texts.text,
          items: [{ sku: "A-1", broken: true }]
        }
      }
    })
  const reportOutcome = (step: string, error?: string) =>
    agent.sessions.reportOutcome({
      params: { id: session.session_id, step_id: StepId.make(step) },
      payload: error === undefined ? { status: "succeeded" } : { status: "failed", error }
    })
  yield* submitStep("1-look-up", "search.orders", "read")
  yield* reportOutcome("1-look-up")
  yield* submitStep("2-drop", "orders.delete", "admin")
  const decidedStep = yield* submitStep("3-refund", texts.tool, "write")
  const pendingStep = yield* submitStep("4-refund", texts.tool, "write")
  if (decidedStep.approval_id === null || pendingStep.approval_id === null) {
    return yield* Effect.die("the step should require approval")
  }
  for (const speaker of [reviewer, agent]) {
    yield* speaker.approvals.sendMessage({
      params: { id: pendingStep.approval_id },
      payload: { text: texts.text }
    })
  }
  yield* reviewer.approvals.decide({
    params: { id: decidedStep.approval_id },
    payload: { decision: "approve", comment: texts.text }
  })
  yield* reportOutcome("3-refund", texts.text)
  yield* client({ preset: "integration", name: texts.reviewer }, organization)
  const retired = yield* admin.apiKeys.create({
    payload: { name: "Retired worker", preset: "runtime", expires_at: yield* tomorrow }
  })
  yield* admin.apiKeys.revoke({ params: { id: retired.key.id } })
  const { deliveries } = yield* admin.notificationEndpoints.listDeliveries({ params: { id: endpoint.id } })
  return {
    ...taskIds,
    session_id: session.session_id,
    approval_id: pendingStep.approval_id,
    decided_id: decidedStep.approval_id,
    endpoint_id: endpoint.id,
    delivery_id: deliveries[0]?.id ?? ""
  }
})

const tomorrow = Effect.map(DateTime.now, (now) => DateTime.add(now, { days: 1 }))

/** Creates a task with two dataset versions, feedback in each status, a completed comparison and the release promoted from it. */
const seedTask = Effect.fnUntraced(function* (admin: ClientCalls, reviewer: ClientCalls, texts: SeedTexts) {
  const task = yield* admin.tasks.create({
    payload: {
      name: texts.task,
      instructions: texts.text,
      input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
      answer_schema: {
        type: "object",
        properties: {
          category: { enum: ["billing", "shipping", "other"] },
          [texts.field]: { type: "string", description: texts.text }
        },
        required: ["category"]
      }
    }
  })
  const params = { id: task.id }
  yield* admin.datasets.create({
    params,
    payload: {
      examples: [
        { input: { text: "where is my parcel" }, answer: { category: "shipping" } },
        { input: { text: texts.text }, answer: { category: "other", [texts.field]: texts.text } }
      ]
    }
  })
  const correct = makeCorrector(admin, task.id, texts)
  yield* stageAndPromote(admin, reviewer, task.id, yield* correct("the invoice is wrong"))
  const rejected = yield* correct("thank you")
  yield* reviewer.feedback.reject({ params: { id: rejected }, payload: { note: texts.text } })
  yield* reviewer.feedback.stage({ params: { id: yield* correct("it never came") } })
  const feedback_id = yield* correct("my password: hunter2-hunter2")
  const { comparison } = yield* admin.comparisons.create({ params, payload: { hold_out: { kind: "none" } } })
  yield* Effect.repeat(admin.comparisons.get({ params: { id: comparison.id } }), {
    until: (detail) => detail.comparison.status === "completed"
  })
  yield* admin.releases.create({ params, payload: { comparison_id: comparison.id } })
  const { dataset_id } = yield* admin.tasks.get({ params })
  const { inference_log_id: trace_id } = yield* admin.feedback.get({ params: { id: feedback_id } })
  return { task_id: task.id, dataset_id, feedback_id, trace_id, comparison_id: comparison.id }
})

/** Returns a function that runs the task on a text and submits a correction of the answer. */
const makeCorrector = (admin: ClientCalls, task_id: TaskId, texts: SeedTexts) =>
  Effect.fnUntraced(function* (text: string) {
    const run = yield* admin.tasks.run({
      params: { id: task_id },
      payload: { input: { text }, answer: { category: "other", [texts.field]: "?" } }
    })
    const { id } = yield* admin.feedback.create({
      payload: {
        inference_log_id: run.trace_id,
        score: -1,
        correction: { category: "billing", [texts.field]: `${texts.text} ${text}` }
      }
    })
    return id
  })

const stageAndPromote = Effect.fnUntraced(function* (
  admin: ClientCalls,
  reviewer: ClientCalls,
  task_id: TaskId,
  id: Effect.Success<ReturnType<ReturnType<typeof makeCorrector>>>
) {
  yield* reviewer.feedback.stage({ params: { id } })
  const preview = yield* admin.feedback.previewPromotion({ params: { id: task_id } })
  yield* admin.feedback.promote({
    params: { id: task_id },
    payload: {
      base_dataset_id: preview.base_dataset_id,
      expected_feedback_revision: preview.feedback_revision
    }
  })
})
