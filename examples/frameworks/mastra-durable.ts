/**
 * The same agent, but no process runs while an approval is pending: the run is suspended, its snapshot is saved, and the next start
 * resumes it. Starts that come before the decision wait for it.
 */
import { Mastra } from "@mastra/core"
import { Agent } from "@mastra/core/agent"
import { InMemoryDB, MastraCompositeStore, WorkflowsInMemory } from "@mastra/core/storage"
import { createTool } from "@mastra/core/tools"
import { connect } from "countersign/connect"
import { governProcessor, governTools, type ToolCall } from "countersign/mastra"
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { deserialize, serialize } from "node:v8"
import { z } from "zod"
import { agentModel } from "./models/mastra.ts"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })

/** The saved run: the snapshots of `db`, for want of a database. */
const file = process.env["AGENT_STATE"] ?? "mastra-run.bin"
const saved: { session: string; runId: string; workflows: Map<string, never> } | undefined = existsSync(file)
  ? deserialize(readFileSync(file))
  : undefined
const session =
  saved?.session ?? process.env["COUNTERSIGN_SESSION"] ?? (await client.sessions.create()).session_id
const db = new InMemoryDB()
for (const [id, workflow] of saved?.workflows ?? []) db.workflows.set(id, workflow)

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

const gate = {
  client,
  session,
  actionClass: ({ tool }: ToolCall) => (tool === "lookup" ? "read" : "write")
}
const refunds = new Agent({
  id: "refunds",
  name: "Refunds",
  instructions: "You refund orders that came late.",
  model: agentModel(),
  tools: governTools({ lookup, refund }, { ...gate, pause: true }),
  inputProcessors: [governProcessor(gate)]
})
const storage = new MastraCompositeStore({
  id: "runs",
  domains: { workflows: new WorkflowsInMemory({ db }) }
})
const agent = new Mastra({ agents: { refunds }, storage, logger: false }).getAgent("refunds")

const { finishReason, runId, text } =
  saved === undefined
    ? await agent.generate("Order 4711 came nine days late. Refund it.", { maxSteps: 10 })
    : await agent.resumeGenerate({ resumed: true }, { runId: saved.runId, maxSteps: 10 })
if (finishReason === "suspended") {
  writeFileSync(`${file}.new`, serialize({ session, runId, workflows: db.workflows }))
  renameSync(`${file}.new`, file)
  console.log(`session ${session} waits for a person; start again to go on`)
} else {
  console.log(text)
  await client.sessions.close({ params: { id: session } })
}
