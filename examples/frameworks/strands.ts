/**
 * An agent of Strands Agents whose tools ask Countersign. While an approval is pending, the agent is in a file, and this program goes on with it when it
 * is started again. A scripted model stands in for the real one, so the example needs no model key.
 */
import { Agent, type Snapshot, tool } from "@strands-agents/sdk"
import { connect } from "countersign/connect"
import { governIntervention } from "countersign/strands"
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { z } from "zod"
import { agentModel } from "./models/strands.ts"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })

/** The saved agent. Use your database: write access to it is enough to make the agent say anything, but not to approve a call. */
const file = process.env["AGENT_STATE"] ?? "strands-run.json"
interface SavedAgent {
  readonly session: string
  readonly interrupts: ReadonlyArray<string>
  readonly snapshot: Snapshot
}
const saved: SavedAgent | undefined = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined
const session =
  saved?.session ?? process.env["COUNTERSIGN_SESSION"] ?? (await client.sessions.create()).session_id

const lookup = tool({
  name: "lookup",
  description: "Looks an order up",
  inputSchema: z.object({ order: z.string() }),
  callback: ({ order }) => JSON.stringify({ order, days_late: 9 })
})
const refund = tool({
  name: "refund",
  description: "Refunds an order",
  inputSchema: z.object({ order: z.string(), amount_cents: z.number() }),
  callback: ({ amount_cents }) => JSON.stringify({ refunded: amount_cents })
})

const agent = new Agent({
  model: agentModel(),
  tools: [lookup, refund],
  printer: false,
  interventions: [
    governIntervention({
      client,
      session,
      actionClass: ({ tool }) => (tool === "lookup" ? "read" : "write"),
      pause: true
    })
  ]
})
if (saved !== undefined) agent.loadSnapshot(saved.snapshot)

const {
  interrupts = [],
  lastMessage,
  stopReason
} = await agent.invoke(
  saved === undefined
    ? "Order 4711 came nine days late. Refund it."
    : saved.interrupts.map((interruptId) => ({ interruptResponse: { interruptId, response: "go on" } }))
)
if (stopReason === "interrupt") {
  const snapshot = agent.takeSnapshot({ preset: "session" })
  const run: SavedAgent = { session, interrupts: interrupts.map(({ id }) => id), snapshot }
  writeFileSync(`${file}.new`, JSON.stringify(run))
  renameSync(`${file}.new`, file)
  console.log(`session ${session} waits for a person; start again to go on`)
} else {
  for (const block of lastMessage.content) if (block.type === "textBlock") console.log(block.text)
  rmSync(file, { force: true })
  await client.sessions.close({ params: { id: session } })
}
