/**
 * An agent of the OpenAI Agents SDK whose tools ask Countersign. While an approval is pending, the run is in a file, so that it goes on when the program
 * is started again after a kill. A scripted model stands in for the real one, so the example needs no model key.
 */
import * as agents from "@openai/agents-core"
import { connect } from "countersign/connect"
import { governAgents } from "countersign/openai-agents"
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { z } from "zod"
import { agentModel } from "./models/openai-agents.ts"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })
agents.setTracingDisabled(true)

/** The saved run. Use your database: write access to it is enough to make the agent say anything, but not to approve a call. */
const file = process.env["AGENT_STATE"] ?? "openai-agents-run.json"
interface SavedRun {
  readonly session: string
  readonly state: string
}
const saved: SavedRun | undefined = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined
const save = (run: SavedRun): void => {
  writeFileSync(`${file}.new`, JSON.stringify(run))
  renameSync(`${file}.new`, file)
  console.log(`session ${run.session} waits for a person`)
}
const session =
  saved?.session ?? process.env["COUNTERSIGN_SESSION"] ?? (await client.sessions.create()).session_id

const { run, tool } = governAgents(agents, {
  client,
  session,
  actionClass: ({ tool }) => (tool === "lookup" ? "read" : "write"),
  save: (state) => save({ session, state })
})

const agent = new agents.Agent({
  name: "Refunds",
  model: agentModel(),
  tools: [
    tool({
      name: "lookup",
      description: "Looks an order up",
      parameters: z.object({ order: z.string() }),
      execute: async ({ order }) => ({ order, days_late: 9 })
    }),
    tool({
      name: "refund",
      description: "Refunds an order",
      parameters: z.object({ order: z.string(), amount_cents: z.number() }),
      execute: async ({ amount_cents }) => ({ refunded: amount_cents })
    })
  ]
})

const { finalOutput } = await run(
  agent,
  saved === undefined
    ? "Order 4711 came nine days late. Refund it."
    : await agents.RunState.fromString<undefined, typeof agent>(agent, saved.state)
)
console.log(finalOutput)
rmSync(file, { force: true })
await client.sessions.close({ params: { id: session } })
