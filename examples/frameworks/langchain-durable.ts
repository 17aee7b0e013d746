/**
 * The same agent, but no process runs while an approval is pending: the graph is interrupted, its checkpoint is saved, and the next
 * start goes on with it.
 */
import { connect } from "countersign/connect"
import { governMiddleware } from "countersign/langchain"
import { createAgent, tool, ToolMessage } from "langchain"
import { z } from "zod"
import { FileSaver } from "./models/FileSaver.ts"
import { agentModel } from "./models/langchain.ts"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })

const lookup = tool(({ order }) => JSON.stringify({ order, days_late: 9 }), {
  name: "lookup",
  description: "Looks an order up",
  schema: z.object({ order: z.string() })
})
const refund = tool(({ amount_cents }) => JSON.stringify({ refunded: amount_cents }), {
  name: "refund",
  description: "Refunds an order",
  schema: z.object({ order: z.string(), amount_cents: z.coerce.number() })
})

// Use the checkpointer of your database. The thread has the name of its session.
const checkpointer = new FileSaver(process.env["AGENT_STATE"] ?? "langchain-run.bin")
const session =
  checkpointer.threads()[0] ??
  process.env["COUNTERSIGN_SESSION"] ??
  (await client.sessions.create()).session_id
const config = { configurable: { thread_id: session } }

const agent = createAgent({
  model: agentModel(),
  tools: [lookup, refund],
  checkpointer,
  middleware: [
    governMiddleware({
      client,
      session,
      ToolMessage,
      pause: true,
      actionClass: ({ tool }) => (tool === "lookup" ? "read" : "write")
    })
  ]
})
const isBegun = checkpointer.threads().length > 0
const input = { messages: [{ role: "user", content: "Order 4711 came nine days late. Refund it." }] }
const result = await agent.invoke(isBegun ? null : input, config)
if ("__interrupt__" in result) {
  console.log(`session ${session} waits for a person; start again to go on`)
} else {
  console.log(result.messages.at(-1)?.text)
  await client.sessions.close({ params: { id: session } })
}
