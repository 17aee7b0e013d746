/**
 * Resumes headless runs of Claude Code that ended at a call which a person had to decide (`countersign hook install claude-code --defer`):
 * receives the decision as a webhook, and starts `claude -p --resume`.
 */
import { connect } from "countersign/connect"
import { memorySeen, nodeHandler } from "countersign/webhook"
import { spawn } from "node:child_process"
import { createServer } from "node:http"

const secret = process.env["COUNTERSIGN_SECRET"]
const key = process.env["COUNTERSIGN_KEY"]
if (secret === undefined || key === undefined)
  throw new Error(
    "Set COUNTERSIGN_SECRET to the endpoint's signing secret, and COUNTERSIGN_KEY to a key of the preset `runtime`."
  )
const countersign = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })
const port = Number(process.env["RECEIVER_PORT"] ?? 4000)
const [program = "claude", ...before] = (process.env["CLAUDE"] ?? "claude").split(" ")

/** Resumes the run of an agent session, in the directory in which it began. */
const resume = async (id: string): Promise<void> => {
  const { metadata } = await countersign.sessions.get({ params: { id } })
  const { coding_agent, coding_session, deferred, directory }: Record<string, unknown> = { ...metadata }
  if (coding_agent !== "claude-code" || deferred !== true || typeof coding_session !== "string") return
  console.log(`resuming ${coding_session}`)
  // Pass the permission mode of the first run again, if it had one: it is not kept.
  spawn(program, [...before, "-p", "--resume", coding_session, "--output-format", "json"], {
    cwd: typeof directory === "string" ? directory : process.cwd(),
    stdio: ["ignore", "inherit", "inherit"]
  }).on("error", (error) => console.error(`${program}: ${error.message}`))
}

const receive = nodeHandler({
  secret,
  // One process only. With several, keep the handled ids in your database: see `EventClaims`.
  seen: memorySeen(),
  onEvent: ({ approval, type }) => {
    const isClosed =
      type === "approval.approved" || type === "approval.rejected" || type === "approval.expired"
    // Not awaited: the sender waits five seconds.
    if (isClosed) resume(approval.session_id).catch(console.error)
  },
  onRefused: ({ reason }) => console.warn(`refused: ${reason}`)
})
createServer((request, response) => void receive(request, response)).listen(port, "127.0.0.1", () =>
  console.log(`listening on http://127.0.0.1:${port}/`)
)
