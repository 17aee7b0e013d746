/**
 * The text of an empty page: its future content, and the requests that make the first record arrive. A test runs each snippet as it stands
 * and sees its record on the open page.
 */
import type { EndpointId } from "../../../domain/Ids.ts"
import type { Preset, Scope } from "../../../domain/identity/Scope.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { curlCommand } from "../curlCommand.ts"
import { sampleObject } from "./sampleJson.ts"

/** A program or commands that make the first record arrive. */
export interface Snippet {
  readonly language: "curl" | "TypeScript" | "AI SDK"
  readonly code: string
}

/** The text of an empty page. */
export interface FirstRecord {
  readonly title: string
  /** What appears on the page, in a sentence or two. */
  readonly about: string
  /** The noun of the awaited record, such as "session". */
  readonly noun: string
  /** The rights that the key of the requests needs. */
  readonly access: { readonly preset: Preset } | { readonly scopes: ReadonlyArray<Scope> }
  readonly snippets: ReadonlyArray<Snippet>
}

/** A task that requests are for. */
export type SampledTask = Pick<Task, "id" | "input_schema" | "answer_schema">

/** The client of a TypeScript snippet. */
const connected = (origin: string): string => `const client = connect({
  url: ${JSON.stringify(origin)},
  key: process.env["COUNTERSIGN_API_KEY"] ?? ""
})
`

const imported = `import { connect } from "countersign/connect"\n`

const typescript = (origin: string, ...lines: ReadonlyArray<string>): Snippet => ({
  language: "TypeScript",
  code: `${imported}\n${connected(origin)}${lines.join("\n")}\n`
})

/** A value as a TypeScript expression, indented by so many spaces. */
const literal = (value: object, indent = 0): string =>
  JSON.stringify(value, undefined, 2)
    .replaceAll(/^(\s*)"([A-Za-z_]\w*)":/gm, "$1$2:")
    .replaceAll("\n", `\n${" ".repeat(indent)}`)

const ticket = { metadata: { ticket: "SUP-4711" } }

const step = {
  step_id: "refund-1",
  tool: "payments.refund",
  action_class: "write",
  arguments: { order: "4711", amount_cents: 12_900 }
}

/** A curl command whose response has the value of a member, for a variable of the shell. */
const captured = (variable: string, member: string, command: string): string =>
  `${variable}=$(${command.replace("curl ", "curl -sS ")} \\\n  | sed -n 's/.*"${member}":"\\([^"]*\\)".*/\\1/p')`

const sessionCommand = (origin: string): string =>
  curlCommand({ origin, path: "/v1/agent-sessions", method: "POST", body: ticket })

/** Sessions of agents. */
export const firstSession = (origin: string): FirstRecord => ({
  title: "No sessions yet",
  about:
    "An agent opens a session before it asks for its first step. Its steps, decisions and outcomes appear here.",
  noun: "session",
  access: { preset: "runtime" },
  snippets: [
    { language: "curl", code: sessionCommand(origin) },
    typescript(
      origin,
      `const { session_id } = await client.sessions.create({ payload: ${literal(ticket)} })`,
      "console.log(session_id)"
    ),
    aiSdk(origin)
  ]
})

/** Pending approvals. */
export const firstApproval = (origin: string): FirstRecord => ({
  title: "No pending approvals",
  about:
    "When an agent asks for a step that needs a person, it appears here at once. Without rules, every step needs one. What your own key asks for, or a key that it created, somebody else has to decide: it is listed under All.",
  noun: "approval",
  access: { preset: "runtime" },
  snippets: [
    {
      language: "curl",
      code: [
        captured("SESSION", "session_id", sessionCommand(origin)),
        curlCommand({
          origin,
          path: "/v1/agent-sessions/$SESSION/steps",
          method: "POST",
          body: step,
          variables: ["SESSION"]
        })
      ].join("\n")
    },
    typescript(
      origin,
      `const { session_id } = await client.sessions.create({ payload: ${literal(ticket)} })`,
      "// Waits until somebody decides.",
      `const { decision } = await client.govern(session_id, ${literal(step)})`,
      "console.log(decision)"
    ),
    aiSdk(origin)
  ]
})

const aiSdk = (origin: string): Snippet => ({
  language: "AI SDK",
  code: `import { generateText, isStepCount, tool } from "ai"
import { governTools } from "countersign/ai-sdk"
${imported}import { z } from "zod"
import { model } from "./model.ts" // the model of your agent

${connected(origin)}const { session_id } = await client.sessions.create({ payload: ${literal(ticket)} })

const tools = {
  refund: tool({
    description: "Refunds an order",
    inputSchema: z.object({ order: z.string(), amount_cents: z.number() }),
    execute: async ({ amount_cents }) => ({ refunded: amount_cents })
  })
}
const { text } = await generateText({
  model,
  prompt: "Order 4711 came nine days late. Refund its 129 euros.",
  stopWhen: isStepCount(5),
  // Every call of a tool asks first.
  tools: governTools(tools, { client, session: session_id })
})
console.log(text)
`
})

const newTask = {
  name: "Sort messages",
  instructions: "Sort the message of a customer.",
  input_schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  answer_schema: {
    type: "object",
    properties: { category: { enum: ["billing", "shipping", "other"] } },
    required: ["category"]
  }
}

/** Tasks. */
export const firstTask = (origin: string): FirstRecord => ({
  title: "No tasks yet",
  about:
    "A task defines the schemas of its inputs and answers, and the provider that produces the answers. Runs, feedback and comparisons belong to a task.",
  noun: "task",
  access: { scopes: ["tasks.write"] },
  snippets: [
    { language: "curl", code: curlCommand({ origin, path: "/v1/tasks", method: "POST", body: newTask }) },
    typescript(
      origin,
      `const task = await client.tasks.create({ payload: ${literal(newTask)} })`,
      "console.log(task.id)"
    )
  ]
})

/** A logged run: no provider is called, so it works for every task. */
const runOf = (task: SampledTask) => ({
  input: sampleObject(task.input_schema),
  answer: sampleObject(task.answer_schema)
})

const runCommand = (origin: string, task: SampledTask): string =>
  curlCommand({ origin, path: `/v1/tasks/${task.id}/run`, method: "POST", body: runOf(task) })

const runCall = (task: SampledTask): string =>
  `await client.tasks.run({ params: { id: "${task.id}" }, payload: ${literal(runOf(task))} })`

/** Runs of a task. */
export const firstRun = (origin: string, task: SampledTask): FirstRecord => ({
  title: "No runs yet",
  about:
    "A run is one input of a task with its answer. This request logs an answer of your own; without `answer`, the task's provider answers.",
  noun: "run",
  access: { preset: "runtime" },
  snippets: [
    { language: "curl", code: runCommand(origin, task) },
    typescript(origin, `const run = ${runCall(task)}`, "console.log(run.trace_id)")
  ]
})

/** Feedback on the runs of a task. */
export const firstFeedback = (origin: string, task: SampledTask): FirstRecord => {
  const judgement = {
    score: -1,
    correction: sampleObject(task.answer_schema, 1),
    comment: "Not what was asked"
  }
  return {
    title: "No feedback to review",
    about:
      "Scores and corrections of answers appear here, for somebody to review. Staged corrections become the next version of the task's dataset.",
    noun: "correction",
    access: { scopes: ["tasks.run", "feedback.write"] },
    snippets: [
      {
        language: "curl",
        code: [
          captured("RUN", "trace_id", runCommand(origin, task)),
          curlCommand({
            origin,
            path: "/v1/feedback",
            method: "POST",
            body: { inference_log_id: "$RUN", ...judgement },
            variables: ["RUN"]
          })
        ].join("\n")
      },
      typescript(
        origin,
        `const { trace_id } = ${runCall(task)}`,
        `const feedback = await client.feedback.create({`,
        `  payload: ${literal({ inference_log_id: "trace_id", ...judgement }, 2).replace('"trace_id"', "trace_id")}`,
        "})",
        "console.log(feedback.id)"
      )
    ]
  }
}

/** Versions of a task's dataset. */
export const firstDataset = (origin: string, task: SampledTask): FirstRecord => {
  const examples = {
    examples: [{ input: sampleObject(task.input_schema), answer: sampleObject(task.answer_schema) }]
  }
  return {
    title: "No dataset yet",
    about: "Examples with their right answers. Add them here, or promote corrections, to create version 1.",
    noun: "version",
    access: { scopes: ["datasets.write"] },
    snippets: [
      {
        language: "curl",
        code: curlCommand({ origin, path: `/v1/tasks/${task.id}/datasets`, method: "POST", body: examples })
      },
      typescript(
        origin,
        `const dataset = await client.datasets.create({`,
        `  params: { id: "${task.id}" },`,
        `  payload: ${literal(examples, 2)}`,
        "})",
        "console.log(dataset.version)"
      )
    ]
  }
}

const receiver = { url: "https://example.com/countersign", description: "Orders team" }

/** Webhook endpoints. */
export const firstEndpoint = (origin: string): FirstRecord => ({
  title: "No webhook endpoints",
  about:
    "An endpoint receives an event when a step requires approval, when its deadline approaches, and when it is decided. Use the URL of your receiver.",
  noun: "endpoint",
  access: { scopes: ["org_config.write"] },
  snippets: [
    {
      language: "curl",
      code: curlCommand({ origin, path: "/v1/notification-endpoints", method: "POST", body: receiver })
    },
    typescript(
      origin,
      `const { endpoint, secret } = await client.notificationEndpoints.create({`,
      `  payload: ${literal(receiver, 2)}`,
      "})",
      "// The receiver verifies signatures with the secret, which is returned only once.",
      "console.log(endpoint.id, secret)"
    )
  ]
})

/** Deliveries to an endpoint: a test event is one. */
export const firstDelivery = (origin: string, endpoint_id: EndpointId): FirstRecord => ({
  title: "No deliveries yet",
  about: "Every event that is sent to an endpoint appears here, with its attempts. A test event is one, too.",
  noun: "delivery",
  access: { scopes: ["org_config.write"] },
  snippets: [
    {
      language: "curl",
      code: curlCommand({ origin, path: `/v1/notification-endpoints/${endpoint_id}/test`, method: "POST" })
    },
    typescript(
      origin,
      `const { id } = await client.notificationEndpoints.test({ params: { id: "${endpoint_id}" } })`,
      "console.log(id)"
    )
  ]
})

const rules = {
  rules: [
    {
      tool: "payments.*",
      effect: "require_approval",
      review_seconds: 900,
      reason: "A person confirms payments"
    },
    { tool: "search.*", effect: "allow", reason: "Searching changes nothing" }
  ]
}

/** Approval rules. */
export const firstRule = (origin: string): FirstRecord => ({
  title: "No rules",
  about:
    "Rules allow steps, reject them, or require a person. The first one that matches a step decides; without rules, every step requires approval within one hour.",
  noun: "rule",
  access: { scopes: ["rules.write"] },
  snippets: [
    {
      language: "curl",
      code: curlCommand({ origin, path: "/v1/approval-rules", method: "PUT", body: rules })
    },
    typescript(
      origin,
      `const { revision } = await client.approvalRules.replace({ payload: ${literal(rules)} })`,
      "console.log(revision)"
    )
  ]
})

const collector = { url: "https://collector.example.com/v1/traces", content: false }

/** The telemetry destination. */
export const firstCollector = (origin: string): FirstRecord => ({
  title: "No collector",
  about:
    "A collector that accepts OTLP/HTTP with JSON over HTTPS receives runs, steps and approvals as spans. An organization has at most one. Use the URL of yours.",
  noun: "collector",
  access: { scopes: ["org_config.write"] },
  snippets: [
    {
      language: "curl",
      code: curlCommand({ origin, path: "/v1/telemetry-destinations", method: "POST", body: collector })
    },
    typescript(
      origin,
      `const { id } = await client.telemetryDestinations.create({ payload: ${literal(collector)} })`,
      "console.log(id)"
    )
  ]
})
