/**
 * An agent of Mastra whose tools ask Countersign. A scripted model stands in for the real one, so the example needs no model key. To go on
 * after a kill, start it again with the printed session in COUNTERSIGN_SESSION.
 */
import { Agent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import { connect } from "countersign/connect"
import { governProcessor } from "countersign/mastra"
import { z } from "zod"
import { agentModel } from "./models/mastra.ts"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })
const session = process.env["COUNTERSIGN_SESSION"] ?? (await client.sessions.create()).session_id
console.log(`session ${session}`)

const lookup = createTool({
  id: "lookup",
  description: "Looks an order up",
  inputSchema: z.object({ order: z.string() }),
  execute: async ({ order }) => ({ order, days_late: 9 })
})
const refund = createTool({
  id: "refund",
  description: "Refunds an order",
  inputSchema: z.object({ order: z.string(), amount_cents: z.coerce.number() }),
  execute: async ({ amount_cents }) => ({ refunded: amount_cents })
})

const agent = new Agent({
  id: "refunds",
  name: "Refunds",
  instructions: "You refund orders that came late.",
  model: agentModel(),
  tools: { lookup, refund },
  inputProcessors: [
    governProcessor({
      client,
      session,
      actionClass: ({ tool }) => (tool === "lookup" ? "read" : "write")
    })
  ]
})
const { text } = await agent.generate("Order 4711 came nine days late. Refund it.", { maxSteps: 10 })
console.log(text)
await client.sessions.close({ params: { id: session } })
