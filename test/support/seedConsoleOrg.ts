import { DateTime, Effect } from "effect"
import type { ClientCalls } from "../../src/client/Client.ts"
import { StepId, type TaskId } from "../../src/domain/Ids.ts"
import { Countersign } from "../../src/testing/index.ts"

/** What people, agents and systems call things, and what they write into them. */
export interface SeedTexts {
  readonly reviewer: string
  readonly agent: string
  readonly tool: string
  readonly task: string
  readonly text: string
  readonly field: string
}

/** As it is most days. */
export const everydayTexts: SeedTexts = {
  reviewer: "Ada Lovelace",
  agent: "support agent",
  tool: "payments.refund",
  task: "Sort customer messages",
  text: "The parcel arrived late and half of it was broken; the customer asks for 25 € back.",
  field: "note"
}

/** What somebody would write who wants the page to break: markup, words that do not end, letters that turn what follows. */
export const hostileTexts: SeedTexts = {
  reviewer: "<b id=injected>Eve</b> " + "W".repeat(150),
  agent: "<img src=x onerror=alert(1)> " + "م".repeat(100),
  tool: "pay.<svg onload=alert(2)>." + "x".repeat(150),
  task: "<script>alert(3)</script> " + "Q".repeat(150),
  text: `"><img src=x onerror=alert(4)> invoice\u202efdp.exe pay\u200bpal مرحبا بالعالم ${"W".repeat(3_000)}`,
  field: "<iframe srcdoc=x>" + "k".repeat(80)
}

/** An organization in which everything has happened that the console shows; where each of it is. */
export const seedConsoleOrg = Effect.fnUntraced(function* (
  organization: string,
  words: SeedTexts = everydayTexts
) {
  const { client } = yield* Countersign
  const admin = yield* client({ name: "Grace Hopper", email: "grace@example.com" }, organization)
  const reviewer = yield* client({ preset: "reviewer", name: words.reviewer }, organization)
  const agent = yield* client({ preset: "runtime", name: words.agent }, organization)

  yield* admin.approval_rules.replace({
    payload: {
      rules: [
        { tool: "search.*", effect: "allow", reason: "Reading harms nobody" },
        { action_class: "admin", effect: "reject", reason: words.text.slice(0, 900) },
        {
          tool: words.tool.slice(0, 150),
          effect: "require_approval",
          review_seconds: 3_600,
          escalation_seconds: 7_200,
          reason: "Money leaves the house"
        }
      ]
    }
  })
  const { endpoint } = yield* admin.notification_endpoints.create({
    payload: { url: "http://127.0.0.1:9/hook" }
  })
  yield* admin.telemetry_destinations.create({ payload: { url: "http://127.0.0.1:9/v1/traces" } })
  const answers = yield* seedTask(admin, reviewer, words)
  const session = yield* agent.sessions.create({
    payload: { task_id: answers.task_id, metadata: { ticket: "4711", [words.field]: words.text } }
  })
  const ask = (step_id: string, tool: string, action_class: string) =>
    agent.sessions.step({
      params: { id: session.session_id },
      payload: {
        step_id: StepId.make(step_id),
        tool,
        action_class,
        arguments: {
          order: 4711,
          amount: 25,
          [words.field]: words.text,
          items: [{ sku: "A-1", broken: true }]
        }
      }
    })
  const report = (step: string, error?: string) =>
    agent.sessions.complete({
      params: { id: session.session_id, step_id: StepId.make(step) },
      payload: error === undefined ? { status: "succeeded" } : { status: "failed", error }
    })
  yield* ask("1-look-up", "search.orders", "read")
  yield* report("1-look-up")
  yield* ask("2-drop", "orders.delete", "admin")
  const decided = yield* ask("3-refund", words.tool, "write")
  const waiting = yield* ask("4-refund", words.tool, "write")
  if (decided.approval_id === null || waiting.approval_id === null) {
    return yield* Effect.die("a person should be asked")
  }
  yield* reviewer.approvals.decide({
    params: { id: decided.approval_id },
    payload: { decision: "approve", comment: words.text }
  })
  yield* report("3-refund", words.text)
  yield* client({ preset: "integration", name: words.reviewer }, organization)
  const made = yield* admin.api_keys.create({
    payload: { name: "An old one", preset: "runtime", expires_at: yield* inADay }
  })
  yield* admin.api_keys.revoke({ params: { id: made.key.id } })
  return {
    ...answers,
    session_id: session.session_id,
    approval_id: waiting.approval_id,
    decided_id: decided.approval_id,
    endpoint_id: endpoint.id
  }
})

const inADay = Effect.map(DateTime.now, (now) => DateTime.add(now, { days: 1 }))

/** A task with versions of its dataset, feedback in each state, a comparison, and the release that was made of it. */
const seedTask = Effect.fnUntraced(function* (admin: ClientCalls, reviewer: ClientCalls, words: SeedTexts) {
  const task = yield* admin.tasks.create({
    payload: {
      name: words.task,
      instructions: words.text,
      input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
      answer_schema: {
        type: "object",
        properties: {
          category: { enum: ["billing", "shipping", "other"] },
          [words.field]: { type: "string", description: words.text }
        },
        required: ["category"]
      }
    }
  })
  const params = { task_id: task.id }
  yield* admin.datasets.create({
    params,
    payload: {
      examples: [
        { input: { text: "where is my parcel" }, answer: { category: "shipping" } },
        { input: { text: words.text }, answer: { category: "other", [words.field]: words.text } }
      ]
    }
  })
  const give = makeCorrector(admin, task.id, words)
  yield* stageAndPromote(admin, reviewer, task.id, yield* give("the invoice is wrong"))
  const refused = yield* give("thank you")
  yield* reviewer.feedback.reject({ params: { id: refused }, payload: { note: words.text } })
  yield* reviewer.feedback.stage({ params: { id: yield* give("it never came") } })
  const feedback_id = yield* give("my password: hunter2-hunter2")
  const { comparison } = yield* admin.comparisons.create({ params, payload: {} })
  yield* Effect.repeat(admin.comparisons.get({ params: { id: comparison.id } }), {
    until: (detail) => detail.comparison.status === "completed"
  })
  yield* admin.releases.create({ params, payload: { comparison_id: comparison.id } })
  const { dataset_id } = yield* admin.tasks.get({ params })
  return { task_id: task.id, dataset_id, feedback_id, comparison_id: comparison.id }
})

/** Runs the task on a text, and says what should have been answered. */
const makeCorrector = (admin: ClientCalls, task_id: TaskId, words: SeedTexts) =>
  Effect.fnUntraced(function* (text: string) {
    const run = yield* admin.tasks.run({
      params: { task_id },
      payload: { input: { text }, answer: { category: "other", [words.field]: "?" } }
    })
    const { id } = yield* admin.feedback.create({
      payload: {
        inference_log_id: run.trace_id,
        score: -1,
        correction: { category: "billing", [words.field]: `${words.text} ${text}` }
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
  const preview = yield* admin.feedback.preview({ params: { task_id } })
  yield* admin.feedback.promote({
    params: { task_id },
    payload: {
      base_dataset_id: preview.base_dataset_id,
      expected_feedback_revision: preview.feedback_revision
    }
  })
})
