/**
 * The same agent, but no process runs while an approval is pending: the run ends, its messages are saved, and the next start goes on
 * with them. Starts that come before the decision wait for it.
 */
import { generateText, isStepCount, type ModelMessage, tool } from "ai"
import { approvalResponses, governTools, pauseForApproval } from "countersign/ai-sdk"
import { connect } from "countersign/connect"
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { z } from "zod"
import { agentModel } from "./models/ai-sdk.ts"

const key = process.env["COUNTERSIGN_KEY"]
if (key === undefined) throw new Error("Set COUNTERSIGN_KEY to an API key with the preset `runtime`.")
await using client = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })

/** The saved run. Use your database: write access to it is enough to make the agent say anything, but not to approve a call. */
const file = process.env["AGENT_STATE"] ?? "ai-sdk-run.json"
interface Run {
  readonly session: string
  readonly messages: ReadonlyArray<ModelMessage>
}
const save = (run: Run): void => {
  writeFileSync(`${file}.new`, JSON.stringify(run))
  renameSync(`${file}.new`, file)
}
const begin = async (): Promise<Run> => ({
  session: process.env["COUNTERSIGN_SESSION"] ?? (await client.sessions.create()).session_id,
  messages: [{ role: "user", content: "Order 4711 came nine days late. Refund it." }]
})
const { messages, session }: Run = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : await begin()

const lookup = tool({
  description: "Looks an order up",
  inputSchema: z.object({ order: z.string() }),
  execute: async ({ order }) => ({ order, days_late: 9 })
})
const refund = tool({
  description: "Refunds an order",
  inputSchema: z.object({ order: z.string(), amount_cents: z.coerce.number() }),
  execute: async ({ amount_cents }) => ({ refunded: amount_cents })
})

const { responseMessages, text } = await generateText({
  model: agentModel(),
  messages: [...messages, ...approvalResponses(messages)],
  stopWhen: isStepCount(10),
  tools: governTools(
    { lookup, refund },
    {
      client,
      session,
      actionClass: ({ tool }) => (tool === "lookup" ? "read" : "write")
    }
  ),
  toolApproval: pauseForApproval
})
const all = [...messages, ...approvalResponses(messages), ...responseMessages]
save({ session, messages: all })
if (approvalResponses(all).length > 0) {
  console.log(`session ${session} waits for a person; start again to go on`)
} else {
  console.log(text)
  await client.sessions.close({ params: { id: session } })
}
