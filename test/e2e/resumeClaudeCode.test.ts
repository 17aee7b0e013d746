import { assert, describe, it } from "@effect/vitest"
import { Effect, Queue, Redacted, Result } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { realpathSync, writeFileSync } from "node:fs"
import { createServer, type ServerResponse } from "node:http"
import path from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { makeSigningKey, signatureHeaders } from "../../src/domain/delivery/WebhookSignature.ts"
import { temporaryDirectory } from "../../src/testing/temporaryDirectory.ts"
import { freePort } from "../support/freePort.ts"
import { all } from "../webhook/events.ts"

const SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
const CODING_SESSION = "5b1f8f0e-6a4e-4f5a-9a0a-0d3e8d1a7c11"
const program = fileURLToPath(new URL("../../examples/resume-claude-code.ts", import.meta.url))

const SESSION = {
  task_id: null,
  trace_id: "1".repeat(32),
  status: "open",
  created_at: "2026-11-21T02:33:05.123Z",
  created_by: { id: `key_${"1".repeat(32)}`, name: "Agent" },
  shared: false,
  closed_at: null
}

/** A run of the program in Claude Code's place, which lasts until it is ended. */
interface Run {
  readonly args: ReadonlyArray<string>
  readonly cwd: string
  readonly end: Effect.Effect<void>
}

/** Starts the receiver, in front of a service with these sessions. */
const startReceiver = Effect.fnUntraced(function* (
  stored: (directory: string) => Readonly<Record<string, object>>
) {
  const directory = realpathSync(yield* temporaryDirectory("resume-claude-code-"))
  const runs = yield* Queue.unbounded<Run>()
  const lines = yield* Queue.unbounded<string>()
  const begin = (search: URLSearchParams, response: ServerResponse) =>
    Queue.offerUnsafe(runs, {
      args: JSON.parse(search.get("args") ?? "[]"),
      cwd: search.get("cwd") ?? "",
      end: Effect.sync(() => void response.end())
    })
  const service = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost")
    if (pathname === "/run") return void begin(searchParams, response)
    const session_id = path.basename(pathname)
    const session = { ...SESSION, session_id, ...stored(directory)[session_id] }
    response.setHeader("content-type", "application/json").end(JSON.stringify(session))
  }).listen(0, "127.0.0.1")
  yield* Effect.addFinalizer(() => Effect.sync(() => service.close().closeAllConnections()))
  yield* Effect.promise(() => once(service, "listening"))
  const address = service.address()
  const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`

  const claude = path.join(directory, "claude.mjs")
  writeFileSync(
    claude,
    `const query = new URLSearchParams({ args: JSON.stringify(process.argv.slice(2)), cwd: process.cwd() })
    await (await fetch("${url}/run?" + query)).text()`
  )
  const port = yield* Effect.promise(freePort)
  const receiver = spawn(process.execPath, ["--conditions=@countersign/source", program], {
    cwd: directory,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      COUNTERSIGN_URL: url,
      COUNTERSIGN_KEY: "csk_test",
      COUNTERSIGN_SECRET: SECRET,
      RECEIVER_PORT: String(port),
      CLAUDE: `${process.execPath} ${claude}`
    }
  })
  yield* Effect.addFinalizer(() => Effect.sync(() => void receiver.kill("SIGKILL")))
  for (const output of [receiver.stdout, receiver.stderr])
    createInterface(output).on("line", (line) => Queue.offerUnsafe(lines, line))
  assert.match(yield* Queue.take(lines), /^listening/)

  const key = Result.getOrThrow(makeSigningKey(Redacted.make(SECRET)))
  let events = 0
  /** Delivers an event about a session. */
  const deliver = (type: string, session_id: string) =>
    Effect.promise(async () => {
      const id = `evt_${String(++events).padStart(32, "0")}`
      const event = Object(all.find((each) => Object(each).type === type))
      const body = JSON.stringify({ ...event, id, approval: { ...event.approval, session_id } })
      const headers = signatureHeaders(
        { current: key, previous: null },
        { eventId: id, eventType: type, timestamp: Math.floor(Date.now() / 1000), body }
      )
      const response = await fetch(`http://127.0.0.1:${port}/`, {
        method: "POST",
        body,
        headers: { ...headers }
      })
      assert.isTrue(response.ok)
    })
  return { deliver, directory, nextLine: Queue.take(lines), runs }
})

const sessions = {
  open: `ses_${"1".repeat(32)}`,
  option: `ses_${"2".repeat(32)}`,
  elsewhere: `ses_${"3".repeat(32)}`,
  closed: `ses_${"4".repeat(32)}`,
  other: `ses_${"5".repeat(32)}`
}

const metadata = { coding_agent: "claude-code", coding_session: CODING_SESSION, deferred: true }

describe("examples/resume-claude-code", () => {
  it.live("resumes a run once at a time, and once more for the decisions that were made meanwhile", () =>
    Effect.gen(function* () {
      const receiver = yield* startReceiver((directory) => ({
        [sessions.open]: { metadata: { ...metadata, directory } }
      }))
      yield* receiver.deliver("approval.approved", sessions.open)
      assert.strictEqual(yield* receiver.nextLine, `resuming ${CODING_SESSION}`)
      const first = yield* Queue.take(receiver.runs)
      assert.deepStrictEqual(first.args, ["-p", "--resume", CODING_SESSION, "--output-format", "json"])
      assert.strictEqual(first.cwd, receiver.directory)
      for (const type of ["approval.rejected", "approval.expired"]) {
        yield* receiver.deliver(type, sessions.open)
        assert.match(yield* receiver.nextLine, /again/)
      }
      yield* first.end
      assert.strictEqual(yield* receiver.nextLine, `resuming ${CODING_SESSION}`)
      yield* (yield* Queue.take(receiver.runs)).end
      assert.strictEqual(yield* Queue.size(receiver.runs), 0)
    }).pipe(Effect.scoped)
  )

  it.live("resumes no run that an agent could have made up", () =>
    Effect.gen(function* () {
      const receiver = yield* startReceiver((directory) => ({
        [sessions.option]: { metadata: { ...metadata, coding_session: "--settings=/tmp/own.json" } },
        [sessions.elsewhere]: { metadata: { ...metadata, directory: path.dirname(directory) } },
        [sessions.closed]: { status: "closed", metadata },
        [sessions.other]: { metadata: { coding_agent: "codex" } },
        [sessions.open]: { metadata }
      }))
      yield* receiver.deliver("approval.expired", sessions.closed)
      yield* receiver.deliver("approval.approved", sessions.other)
      for (const session of [sessions.option, sessions.elsewhere]) {
        yield* receiver.deliver("approval.expired", session)
        assert.match(yield* receiver.nextLine, new RegExp(`^not resumed: .*${session}`))
      }
      yield* receiver.deliver("approval.approved", sessions.open)
      assert.strictEqual(yield* receiver.nextLine, `resuming ${CODING_SESSION}`)
      const run = yield* Queue.take(receiver.runs)
      assert.strictEqual(run.cwd, receiver.directory)
      yield* run.end
      assert.strictEqual(yield* Queue.size(receiver.runs), 0)
    }).pipe(Effect.scoped)
  )
})
