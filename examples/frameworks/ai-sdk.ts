/**
 * An agent of the Vercel AI SDK whose tools ask Countersign. A scripted model stands in for the real one, so the example needs no model
 * key. To go on after a kill, start it again with the printed session in COUNTERSIGN_SESSION.
 */
import { generateText, isStepCount, tool } from "ai"
import { governTools } from "countersign/ai-sdk"
import { connect } from "countersign/connect"
import { z } from "zod"
import { agentModel } from "./models/ai-sdk.ts"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })
const session = process.env["COUNTERSIGN_SESSION"] ?? (await client.sessions.create()).session_id
console.log(`session ${session}`)

const tools = {
  lookup: tool({
    description: "Looks an order up",
    inputSchema: z.object({ order: z.string() }),
    execute: async ({ order }) => ({ order, days_late: 9 })
  }),
  refund: tool({
    description: "Refunds an order",
    inputSchema: z.object({ order: z.string(), amount_cents: z.coerce.number() }),
    execute: async ({ amount_cents }) => ({ refunded: amount_cents })
  })
}

const { text } = await generateText({
  model: agentModel(),
  prompt: "Order 4711 came nine days late. Refund it.",
  stopWhen: isStepCount(10),
  tools: governTools(tools, {
    client,
    session,
    actionClass: ({ tool }) => (tool === "lookup" ? "read" : "write")
  })
})
console.log(text)
await client.sessions.close({ params: { id: session } })
