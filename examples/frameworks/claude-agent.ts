/**
 * An agent of the Claude Agent SDK whose tools ask Countersign. A script stands in for Claude Code, so the example needs neither its program nor
 * a model key.
 */
import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk"
import { governHooks } from "countersign/claude-agent"
import { connect } from "countersign/connect"
import { fileURLToPath } from "node:url"
import { z } from "zod"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })
const session = process.env["COUNTERSIGN_SESSION"] ?? (await client.sessions.create()).session_id
console.log(`session ${session}`)

const text = (value: unknown) => ({ content: [{ type: "text" as const, text: JSON.stringify(value) }] })
const lookup = tool("lookup", "Looks an order up", { order: z.string() }, async ({ order }) =>
  text({ order, days_late: 9 })
)
const refund = tool(
  "refund",
  "Refunds an order",
  { order: z.string(), amount_cents: z.number() },
  async ({ amount_cents }) => text({ refunded: amount_cents })
)

const messages = query({
  prompt: "Order 4711 came nine days late. Refund it.",
  options: {
    hooks: governHooks({
      client,
      session,
      actionClass: ({ tool }) => (tool === "mcp__orders__lookup" ? "read" : "write")
    }),
    mcpServers: { orders: createSdkMcpServer({ name: "orders", tools: [lookup, refund] }) },
    pathToClaudeCodeExecutable: fileURLToPath(new URL("models/claude-code.mjs", import.meta.url))
  }
})
for await (const message of messages) {
  if (message.type === "result" && message.subtype === "success") console.log(message.result)
}
await client.sessions.close({ params: { id: session } })
