/**
 * An agent of Google's Agent Development Kit whose tools ask Countersign. A scripted model stands in for the real one, so the example needs no
 * model key.
 */
import { FunctionTool, InMemorySessionService, LlmAgent, LogLevel, Runner, setLogLevel } from "@google/adk"
import { governPlugin } from "countersign/adk"
import { connect } from "countersign/connect"
import { z } from "zod"
import { agentModel } from "./models/adk.ts"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })
const session = process.env["COUNTERSIGN_SESSION"] ?? (await client.sessions.create()).session_id
console.log(`session ${session}`)
setLogLevel(LogLevel.ERROR)

const lookup = new FunctionTool({
  name: "lookup",
  description: "Looks an order up",
  parameters: z.object({ order: z.string() }),
  execute: async ({ order }) => ({ order, days_late: 9 })
})
const refund = new FunctionTool({
  name: "refund",
  description: "Refunds an order",
  parameters: z.object({ order: z.string(), amount_cents: z.number() }),
  execute: async ({ amount_cents }) => ({ refunded: amount_cents })
})

const runner = new Runner({
  appName: "refunds",
  agent: new LlmAgent({ name: "refunds", model: agentModel(), tools: [lookup, refund] }),
  sessionService: new InMemorySessionService(),
  plugins: [
    governPlugin({
      client,
      session,
      actionClass: ({ tool }) => (tool === "lookup" ? "read" : "write")
    })
  ]
})

const newMessage = { role: "user", parts: [{ text: "Order 4711 came nine days late. Refund it." }] }
for await (const { content } of runner.runEphemeral({ userId: "ada", newMessage })) {
  const text = content?.parts?.at(-1)?.text
  if (text !== undefined) console.log(text)
}
await client.sessions.close({ params: { id: session } })
