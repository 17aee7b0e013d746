import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { readFile } from "node:fs/promises"
import * as Net from "node:net"
import { connect } from "../../../src/client/connect.ts"
import { eventually } from "../../support/eventually.ts"
import { cloneDatabase } from "../../support/postgres.ts"
import { cli } from "../../support/cli.ts"
import { spawnCli } from "../../support/process.ts"

const MIB = 1024 * 1024

/** The service in a process with a heap of 144 MiB, so that garbage is collected early, and an organization that floods it. */
const start = Effect.gen(function* () {
  const environment = {
    DATABASE_URL: Redacted.value(yield* cloneDatabase),
    COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
    COUNTERSIGN_METRICS_TOKEN: "metrics-token-metrics-token"
  }
  const running = yield* spawnCli(["serve"], {
    ...environment,
    PORT: "0",
    NODE_OPTIONS: "--max-old-space-size=144"
  })
  const out = yield* running.waitForStdout(/csk_\S+/)
  const port = Number(/address +http:\/\/127\.0\.0\.1:(\d+)/.exec(out)?.[1])
  const url = `http://127.0.0.1:${port}`
  const createKey = (organization: string) =>
    Effect.map(
      cli(["keys", "create", "--org", organization, "--preset", "admin", "--name", "second"], environment),
      (created) => keyIn(created.out)
    )
  const metrics = Effect.promise(async () => {
    const headers = { authorization: "Bearer metrics-token-metrics-token" }
    return await (await fetch(`http://127.0.0.1:${port}/metrics`, { headers })).text()
  })
  /** Resident memory in MiB: at its highest, and now. */
  const memory = Effect.promise(async () => {
    const status = await readFile(`/proc/${running.pid}/status`, "utf8")
    const read = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024
    return { peak: read("VmHWM"), now: read("VmRSS") }
  })
  return {
    metrics,
    port,
    url,
    key: keyIn(out),
    deciderKey: yield* createKey("default"),
    otherKey: yield* createKey("other"),
    memory
  }
})

const keyIn = (text: string): string => Schema.decodeUnknownSync(Schema.String)(/csk_[\w-]+/.exec(text)?.[0])

/** A client that sends a request and reads nothing. */
const unread = (port: number, request: string) =>
  Effect.acquireRelease(
    Effect.promise(
      () =>
        new Promise<Net.Socket>((done) => {
          const socket = Net.connect({
            port,
            host: "127.0.0.1",
            onread: { buffer: Buffer.alloc(1), callback: () => false }
          })
          socket.on("error", () => undefined)
          socket.once("connect", () => {
            socket.pause()
            socket.write(request, () => done(socket))
          })
        })
    ),
    (socket) => Effect.sync(() => socket.destroy())
  )

/** A pending approval whose step has nearly 4 MiB of arguments. */
const seedLargeApproval = (url: string, key: string) =>
  Effect.promise(async () => {
    const { sessions } = connect({ url, key })
    const { session_id } = await sessions.create({})
    const { approval_id } = await sessions.step({
      params: { id: session_id },
      payload: {
        step_id: "large",
        tool: "documents.write",
        action_class: "write",
        arguments: { text: "\u00e4".repeat(2 * MIB - 2_000) }
      }
    })
    assert(approval_id !== null)
    return approval_id
  })

const CLIENTS = 150

/** The requests of an operation that were answered, whatever the status. */
const answered = (metrics: string, operation: string): number =>
  [...metrics.matchAll(/countersign_http_requests_total\{(?<labels>[^}]*)\} (?<count>\d+)/g)]
    .filter(({ groups }) => groups?.["labels"]?.includes(`operation="${operation}"`))
    .reduce((sum, { groups }) => sum + Number(groups?.["count"]), 0)

const hasProc = process.platform === "linux"
if (!hasProc)
  process.stderr.write(
    "unread responses are skipped: resident memory is read from /proc, which only Linux has\n"
  )

describe.skipIf(!hasProc)("unread responses", () => {
  it.live.each([
    ["approvals.get", (id: string) => [`GET /v1/agent-approvals/${id}`, ""]],
    ["approvals.decide", (id: string) => [`POST /v1/agent-approvals/${id}/decide`, '{"decision":"approve"}']]
  ] as const)(
    "of %s, 4 MiB each, neither fill the memory nor stop another organization",
    ([operation, requestOf]) =>
      Effect.gen(function* () {
        const { deciderKey, key, memory, metrics, otherKey, port, url } = yield* start
        const [line = "", body = ""] = requestOf(yield* seedLargeApproval(url, key))
        const request = [
          `${line} HTTP/1.1`,
          "Host: a",
          `Authorization: Bearer ${deciderKey}`,
          ...(body === "" ? [] : ["Content-Type: application/json", `Content-Length: ${body.length}`]),
          "",
          body
        ].join("\r\n")
        const { now: before } = yield* memory
        const other = connect({ url, key: otherKey })
        for (let client = 0; client < CLIENTS; client++) {
          yield* unread(port, request)
          if (client % 10 === 9) yield* Effect.promise(() => other.sessions.create({}))
        }
        yield* eventually(metrics, (text) => answered(text, operation) >= CLIENTS)
        yield* Effect.promise(() => other.sessions.create({}))
        assert.isBelow((yield* memory).peak - before, 200)
      }),
    { timeout: 120_000 }
  )
})
