/**
 * An agent of LangChain whose tools ask Countersign. A scripted model stands in for the real one, so the example needs no model key. To go
 * on after a kill, start it again with the printed session in COUNTERSIGN_SESSION.
 */
import { connect } from "countersign/connect"
import { governMiddleware } from "countersign/langchain"
import { createAgent, tool, ToolMessage } from "langchain"
import { z } from "zod"
import { agentModel } from "./models/langchain.ts"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })
const session = process.env["COUNTERSIGN_SESSION"] ?? (await client.sessions.create()).session_id
console.log(`session ${session}`)

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

const agent = createAgent({
  model: agentModel(),
  tools: [lookup, refund],
  middleware: [
    governMiddleware({
      client,
      session,
      ToolMessage,
      actionClass: ({ tool }) => (tool === "lookup" ? "read" : "write")
    })
  ]
})
const { messages } = await agent.invoke({
  messages: [{ role: "user", content: "Order 4711 came nine days late. Refund it." }]
})
console.log(messages.at(-1)?.text)
await client.sessions.close({ params: { id: session } })
