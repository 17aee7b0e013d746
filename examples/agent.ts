/**
 * An agent that asks before each tool call. The loop has the shape of OpenAI's chat completions; a scripted model stands in for the
 * real one, so the example needs no model key.
 */
import { connect } from "countersign/client"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
const url = process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080"

interface ToolCall {
  readonly id: string
  readonly function: { readonly name: string; readonly arguments: string }
}

type Message =
  | { readonly role: "user"; readonly content: string }
  | {
      readonly role: "assistant"
      readonly content: string | null
      readonly tool_calls?: ReadonlyArray<ToolCall>
    }
  | { readonly role: "tool"; readonly tool_call_id: string; readonly content: string }

/** In place of `openai.chat.completions.create`: looks the order up, refunds it, and reports the result. */
const complete = (messages: ReadonlyArray<Message>): Extract<Message, { role: "assistant" }> => {
  const call = (id: string, name: string, args: object) => ({
    role: "assistant" as const,
    content: null,
    tool_calls: [{ id, function: { name, arguments: JSON.stringify(args) } }]
  })
  const last = messages.at(-1)
  if (last?.role !== "tool") return call("call_1", "orders.lookup", { order: "4711" })
  if (last.tool_call_id === "call_1")
    return call("call_2", "orders.refund", { order: "4711", amount_cents: 12_900 })
  return { role: "assistant", content: `Done: ${last.content}` }
}

/** The agent's tools. `action_class` is what approval rules can match besides the tool's name. */
const tools = new Map([
  ["orders.lookup", { action_class: "read", run: () => ({ order: "4711", days_late: 9 }) }],
  ["orders.refund", { action_class: "write", run: () => ({ refunded: true }) }]
])

await using countersign = connect({ url, key })
const { session_id } = await countersign.sessions.create({ payload: { metadata: { agent: "refunds" } } })

/** Asks for approval, runs the tool if it is allowed, and returns the text for the model. */
const runTool = async ({ function: wanted, id }: ToolCall): Promise<string> => {
  const tool = tools.get(wanted.name)
  if (tool === undefined) return `Unknown tool ${wanted.name}.`
  console.log(`${wanted.name}: asking`)
  const step = await countersign.govern(session_id, {
    step_id: id,
    tool: wanted.name,
    action_class: tool.action_class,
    arguments: JSON.parse(wanted.arguments)
  })
  console.log(`${wanted.name}: ${step.decision} (${step.approval?.decided_by?.name ?? "by rule"})`)
  if (step.decision === "reject") return `Rejected: ${step.reason}. Do not try again.`
  const result = tool.run()
  await countersign.sessions.reportOutcome({
    params: { id: session_id, step_id: id },
    payload: { status: "succeeded", result }
  })
  return JSON.stringify(result)
}

const messages: Array<Message> = [{ role: "user", content: "Order 4711 came nine days late. Refund it." }]
for (let round = 0; round < 10; round++) {
  const answer = complete(messages)
  messages.push(answer)
  if (answer.tool_calls === undefined) {
    console.log(answer.content)
    break
  }
  for (const call of answer.tool_calls) {
    messages.push({ role: "tool", tool_call_id: call.id, content: await runTool(call) })
  }
}
await countersign.sessions.close({ params: { id: session_id } })
