/**
 * An agent whose dangerous tool waits for a person: a loop in the tool-calling shape of OpenAI's chat completions, on a scripted model,
 * so that it needs no network and no key but Countersign's.
 *
 *   node scripts/agent.ts                                   a service of its own; you are asked in this terminal
 *   node scripts/agent.ts --decide reject                   … and answered without being asked
 *   COUNTERSIGN_URL=… COUNTERSIGN_KEY=… node scripts/agent.ts   a running service; decide with another key, by the API
 */
import { Effect, Layer, ManagedRuntime, Redacted } from "effect"
import { createInterface } from "node:readline/promises"
import { parseArgs } from "node:util"
import { connect, type CountersignClient } from "../src/client/index.ts"
import { Countersign } from "../src/testing/index.ts"

/** A call that the model asks for, as chat completions give it. */
interface ToolCall {
  readonly id: string
  readonly type: "function"
  readonly function: { readonly name: string; readonly arguments: string }
}

/** A message of the conversation. */
type Message =
  | { readonly role: "user"; readonly content: string }
  | {
      readonly role: "assistant"
      readonly content: string | null
      readonly tool_calls?: ReadonlyArray<ToolCall>
    }
  | { readonly role: "tool"; readonly tool_call_id: string; readonly content: string }

const call = (id: string, name: string, args: object): ToolCall => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify(args) }
})

/** Stands for `client.chat.completions.create`: looks the order up, refunds it, and says how that went. */
const model = (messages: ReadonlyArray<Message>): Message => {
  const last = messages.at(-1)
  if (last?.role === "user") {
    return {
      role: "assistant",
      content: null,
      tool_calls: [call("call_1", "orders_lookup", { order: "4711" })]
    }
  }
  if (last?.role === "tool" && last.tool_call_id === "call_1") {
    const refund = call("call_2", "payments_refund", { order: "4711", amount_cents: 12_900, currency: "EUR" })
    return { role: "assistant", content: null, tool_calls: [refund] }
  }
  return { role: "assistant", content: last?.role === "tool" ? `Done: ${last.content}` : "Nothing to do." }
}

/** The agent's tools, each with the class of what it does. */
const tools: Readonly<
  Record<string, { readonly action_class: string; readonly run: (args: unknown) => unknown }>
> = {
  orders_lookup: { action_class: "read", run: () => ({ order: "4711", paid_cents: 12_900, late_days: 9 }) },
  payments_refund: { action_class: "write", run: () => ({ refunded: true }) }
}

/** The loop: before each call the agent asks, and a call that is not allowed is told to the model as such. */
const agent = async (countersign: CountersignClient, task: string): Promise<string> => {
  const { session_id } = await countersign.sessions.create({ payload: { metadata: { agent: "refunds" } } })
  const messages: Array<Message> = [{ role: "user", content: task }]
  for (let turn = 0; turn < 10; turn++) {
    const answer = model(messages)
    messages.push(answer)
    if (answer.role !== "assistant" || answer.tool_calls === undefined) return answer.content ?? ""
    for (const { function: wanted, id } of answer.tool_calls) {
      const tool = tools[wanted.name]
      if (tool === undefined) throw new Error(`the model asks for ${wanted.name}, which there is none of`)
      console.log(`agent    asks for ${wanted.name} ${wanted.arguments}`)
      const step = await countersign.govern(session_id, {
        step_id: id,
        tool: wanted.name,
        action_class: tool.action_class,
        arguments: JSON.parse(wanted.arguments)
      })
      const by = step.approval?.decided_by?.name
      console.log(`service  ${step.decision}: ${step.reason}${by === undefined ? "" : ` (${by})`}`)
      const content =
        step.decision === "allow"
          ? JSON.stringify(tool.run(JSON.parse(wanted.arguments)))
          : `The step was rejected: ${step.reason}. Do not try it again.`
      if (step.decision === "allow") {
        await countersign.sessions.complete({
          params: { id: session_id, step_id: id },
          payload: { status: "succeeded" }
        })
      }
      messages.push({ role: "tool", tool_call_id: id, content })
    }
  }
  throw new Error("the model did not come to an end")
}

/** The person: shown each approval that waits, asked in the terminal or answered for. */
const person = async (reviewer: CountersignClient, decide: string | undefined, done: AbortSignal) => {
  while (!done.aborted) {
    const { approvals } = await reviewer.approvals.list({ query: { status: "pending" } })
    for (const approval of approvals) {
      const said =
        decide ??
        (await ask(`person   ${approval.tool} ${JSON.stringify(approval.arguments)}: approve or reject? `))
      const decision = said.startsWith("a") ? "approve" : "reject"
      await reviewer.approvals.decide({ params: { id: approval.approval_id }, payload: { decision } })
    }
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const ask = async (question: string): Promise<string> => {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  try {
    return await terminal.question(question)
  } finally {
    terminal.close()
  }
}

const { values } = parseArgs({ options: { decide: { type: "string" } } })
const { COUNTERSIGN_KEY, COUNTERSIGN_URL } = process.env
const task = "Order 4711 came nine days late. Refund it."

if (COUNTERSIGN_URL !== undefined && COUNTERSIGN_KEY !== undefined) {
  await using countersign = connect({ url: COUNTERSIGN_URL, key: COUNTERSIGN_KEY })
  console.log(`model    ${await agent(countersign, task)}`)
} else {
  const service = ManagedRuntime.make(Layer.orDie(Countersign.layer()))
  try {
    const { admin, runtime, reviewer, url } = await service.runPromise(
      Effect.gen(function* () {
        const { key, url } = yield* Countersign
        const [admin, runtime, reviewer] = yield* Effect.all([
          key(),
          key({ preset: "runtime" }),
          key({ preset: "reviewer", name: "you" })
        ])
        return { admin: Redacted.value(admin), runtime, reviewer, url }
      })
    )
    await using operator = connect({ url, key: admin })
    await operator.approval_rules.replace({ payload: { rules: [{ action_class: "read", effect: "allow" }] } })
    await using countersign = connect({ url, key: runtime })
    await using you = connect({ url, key: reviewer })
    const done = new AbortController()
    const deciding = person(you, values.decide, done.signal)
    console.log(`model    ${await agent(countersign, task)}`)
    done.abort()
    await deciding
  } finally {
    await service.dispose()
  }
}
