/**
 * Resumes headless runs of Claude Code that ended at a call which a person had to decide (`countersign hook install claude-code --defer`):
 * receives the decision as a webhook, and starts `claude -p --resume`.
 */
import { connect } from "countersign/connect"
import { memorySeen, nodeHandler } from "countersign/webhook"
import { spawn } from "node:child_process"
import { realpathSync } from "node:fs"
import { createServer } from "node:http"
import { join, sep } from "node:path"

const secret = process.env["COUNTERSIGN_SECRET"]
const key = process.env["COUNTERSIGN_KEY"]
if (secret === undefined || key === undefined)
  throw new Error(
    "Set COUNTERSIGN_SECRET to the endpoint's signing secret, and COUNTERSIGN_KEY to a key of the preset `runtime`."
  )
const countersign = connect({ url: process.env["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", key })
const port = Number(process.env["RECEIVER_PORT"] ?? 4000)
const [program = "claude", ...before] = (process.env["CLAUDE"] ?? "claude").split(" ")

/** Runs are resumed in this directory and below it. Whoever may open a session chooses the directory that its metadata name. */
const root = realpathSync(process.env["AGENT_DIRECTORY"] ?? process.cwd())

/** What Claude Code calls a session. Another text could be an option of the program. */
const CODING_SESSION = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** The resumed runs that have not ended, by their session, and whether a decision was made since they began. */
const running = new Map<string, boolean>()

/** Resumes a run once at a time: two processes must not write one transcript. */
const start = (session: string, cwd: string): void => {
  if (running.has(session)) {
    running.set(session, true)
    return console.log(`${session} is resumed again after its run`)
  }
  running.set(session, false)
  console.log(`resuming ${session}`)
  // Pass the permission mode of the first run again, if it had one: it is not kept.
  spawn(program, [...before, "-p", "--resume", session, "--output-format", "json"], {
    cwd,
    stdio: ["ignore", "inherit", "inherit"]
  })
    .on("error", (error) => console.error(`${program}: ${error.message}`))
    .on("close", () => {
      const again = running.get(session)
      running.delete(session)
      if (again === true) start(session, cwd)
    })
}

/** Resumes the run of an agent session, in the directory in which it began. */
const resume = async (id: string): Promise<void> => {
  const { metadata, status } = await countersign.sessions.get({ params: { id } })
  const { coding_agent, coding_session, deferred, directory }: Record<string, unknown> = { ...metadata }
  // A closed session has nothing to go on with: closing it is what expired its approval.
  if (coding_agent !== "claude-code" || deferred !== true || status !== "open") return
  if (typeof coding_session !== "string" || !CODING_SESSION.test(coding_session))
    return console.warn(`not resumed: the session of ${id} is none of Claude Code`)
  const cwd = typeof directory === "string" ? realpathSync(directory) : root
  if (cwd !== root && !cwd.startsWith(join(root, sep)))
    return console.warn(`not resumed: the directory of ${id} is outside ${root}`)
  start(coding_session, cwd)
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
