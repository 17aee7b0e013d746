import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { connect, type CountersignClient } from "../../src/client/connect/index.ts"
import * as ApiKeyFormat from "../../src/domain/identity/ApiKeyFormat.ts"
import { eventually } from "../support/eventually.ts"
import { freePort } from "../support/freePort.ts"
import { TestDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"

/**
 * The programs of examples/frameworks. Each looks an order up, which a rule allows, and refunds it, which a person allows; it takes the
 * session from COUNTERSIGN_SESSION, and keeps what it saves in the file AGENT_STATE.
 */
const PROGRAMS = [
  "adk",
  "ai-sdk",
  "ai-sdk-durable",
  "claude-agent",
  "langchain",
  "langchain-durable",
  "mastra",
  "mastra-durable",
  "openai-agents",
  "strands"
]

// All services have the same database.
const masterKey = randomBytes(32).toString("base64")
const metricsToken = randomBytes(32).toString("base64url")
const adminKey = Redacted.value(Effect.runSync(ApiKeyFormat.generateApiKey).key)

const connected = (url: string, key: string): Effect.Effect<CountersignClient> =>
  Effect.sync(() => connect({ url, key }))

/** An agent in a process of its own. */
const startAgent = (program: string, environment: Readonly<Record<string, string>>) => {
  const file = fileURLToPath(new URL(`../../examples/frameworks/${program}.ts`, import.meta.url))
  const child = spawn(process.execPath, ["--conditions=@countersign/source", file], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      ...environment
    }
  })
  let output = ""
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()))
  const ended = new Promise<string>((resolve) => child.once("close", () => resolve(output)))
  return {
    ended: Effect.promise(() => ended),
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    kill: Effect.sync(() => void child.kill("SIGKILL"))
  }
}

/** How many event streams a service has opened. */
const openedStreams = (url: string) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${metricsToken}` } })
    const metrics = await response.text()
    const count = /^countersign_http_request_duration_seconds_count\{.*"sessions\.stream".*\} (\d+)$/m
    return Number(count.exec(metrics)?.[1] ?? 0)
  })

layer(TestDatabase.layer, { excludeTestServices: true })("Adapters › faults", (it) => {
  it.effect.each(PROGRAMS)(
    "%s: an agent that was killed twice goes on, also while its service was killed, and executes each call once",
    (program) =>
      Effect.gen(function* () {
        const { url: database } = yield* TestDatabase
        const port = yield* Effect.promise(freePort)
        const url = `http://127.0.0.1:${port}`
        const startService = Effect.tap(
          spawnCli(["serve"], {
            PORT: String(port),
            DATABASE_URL: Redacted.value(database),
            COUNTERSIGN_MASTER_KEY: masterKey,
            COUNTERSIGN_ADMIN_KEY: adminKey,
            COUNTERSIGN_METRICS_TOKEN: metricsToken
          }),
          ({ waitForStdout }) => waitForStdout(/is ready/)
        )
        const service = yield* startService
        const admin = yield* connected(url, adminKey)
        yield* Effect.promise(() =>
          admin.approvalRules.replace({ payload: { rules: [{ action_class: "read", effect: "allow" }] } })
        )
        const { secret } = yield* Effect.promise(() =>
          admin.apiKeys.create({ payload: { name: program, preset: "runtime" } })
        )
        const { session_id } = yield* Effect.promise(() => admin.sessions.create())
        const pending = Effect.promise(() =>
          admin.approvals
            .list({ query: { status: "pending" } })
            .then(({ approvals }) => approvals.find((approval) => approval.session_id === session_id))
        )

        const directory = mkdtempSync(path.join(tmpdir(), "countersign-agent-"))
        yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(directory, { recursive: true })))
        const start = Effect.acquireRelease(
          Effect.sync(() =>
            startAgent(program, {
              COUNTERSIGN_URL: url,
              COUNTERSIGN_KEY: secret,
              COUNTERSIGN_SESSION: session_id,
              AGENT_STATE: path.join(directory, "run.json")
            })
          ),
          ({ kill }) => kill
        )

        /** An agent that waits for the decision, or that has ended by itself, and saved its run. */
        const startWaiting = Effect.gen(function* () {
          const before = yield* openedStreams(url)
          const agent = yield* start
          yield* eventually(openedStreams(url), (count) => count > before || agent.hasEnded())
          return agent
        })

        // The first one may be killed while it saves its run.
        const first = yield* start
        yield* eventually(pending, (approval) => approval !== undefined)
        yield* first.kill
        yield* first.ended
        const second = yield* startWaiting
        yield* second.kill
        const third = yield* startWaiting
        yield* service.kill("SIGKILL")
        yield* service.ended
        yield* startService

        const approval = yield* pending
        if (approval === undefined) return assert.fail("nothing is pending")
        yield* Effect.promise(() =>
          admin.approvals.decide({ params: { id: approval.approval_id }, payload: { decision: "approve" } })
        )
        let output = yield* third.ended
        if (!output.includes("12900")) output = yield* (yield* start).ended
        assert.include(output, "12900")

        const outcomes: Array<string> = []
        const approvals = new Set<string>()
        yield* Effect.promise(async () => {
          for await (const event of admin.stream(session_id, { after: 0 })) {
            if (event.type === "tool:outcome")
              outcomes.push(`${event.tool.replace(/^mcp__orders__/, "")} ${event.status}`)
            if ("approval" in event) approvals.add(event.approval.approval_id)
          }
        })
        assert.deepStrictEqual(outcomes, ["lookup succeeded", "refund succeeded"])
        assert.strictEqual(approvals.size, 1)
        yield* Effect.promise(() => admin.close())
      }).pipe(Effect.scoped),
    120_000
  )
})
