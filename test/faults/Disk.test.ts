import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule, Schema } from "effect"
import { spawnSync } from "node:child_process"
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { eventually } from "../support/eventually.ts"
import { spawnCli } from "../support/process.ts"

/** A tmpfs of 220 MB, if this user may mount one. */
const smallDisk = Effect.acquireRelease(
  Effect.sync(() => {
    const directory = mkdtempSync(path.join(tmpdir(), "countersign-disk-"))
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=220m,mode=0755", "tmpfs", directory])
    return { directory, mounted: mounted.status === 0 }
  }),
  ({ directory, mounted }) =>
    Effect.sync(() => {
      if (mounted) spawnSync("umount", ["-l", directory])
      rmSync(directory, { recursive: true, force: true })
    })
)

const decodeBody = Schema.decodeUnknownSync(
  Schema.Struct({ session_id: Schema.optionalKey(Schema.String), code: Schema.optionalKey(Schema.String) })
)

describe("Embedded PostgreSQL on a full disk", () => {
  it.live(
    "requests and readiness get 503 while the disk is full, the log says why once, and the service recovers with the space",
    () =>
      Effect.gen(function* () {
        const { directory, mounted } = yield* smallDisk
        if (!mounted) {
          yield* Effect.log("skipped: mounting a tmpfs requires root on Linux")
          return
        }
        const dataDir = path.join(directory, "data")
        const service = yield* spawnCli(["serve"], { PORT: "0", COUNTERSIGN_DATA_DIR: dataDir })
        const out = yield* service.waitForStdout(/First admin key.*\n\n {4}csk_\w+\n/)
        const url = /address +(http:\S+)/.exec(out)?.[1] ?? assert.fail(out)
        const key = /csk_\w+/.exec(out)?.[0] ?? assert.fail(out)
        const note = "x".repeat(200_000)
        const call = async (path: string, body: unknown) => {
          const answer = await fetch(`${url}${path}`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            body: JSON.stringify(body)
          })
          return {
            status: answer.status,
            body: decodeBody(await answer.json()),
            retryAfter: answer.headers.get("retry-after")
          }
        }
        const { session_id } = (yield* Effect.promise(() => call("/v1/agent-sessions", {}))).body
        let steps = 0
        const post = Effect.promise(() =>
          call(`/v1/agent-sessions/${session_id}/steps`, {
            step_id: `step-${++steps}`,
            tool: "note",
            action_class: "write",
            // Incompressible, so that each request uses disk space.
            arguments: { note: note.replaceAll("x", () => Math.random().toString(36)[2] ?? "y") }
          })
        )
        assert.strictEqual((yield* post).status, 200)

        const { bavail, bsize } = statfsSync(directory)
        const filler = path.join(directory, "filler")
        writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - 4 * 1024 * 1024)))
        chmodSync(filler, 0o644)
        const refused = yield* Effect.repeat(post, { until: ({ status }) => status !== 200, times: 400 })
        assert.strictEqual(refused.status, 503)
        assert.strictEqual(refused.retryAfter, "1")
        assert.propertyVal(refused.body, "code", "UNAVAILABLE")
        const readiness = Effect.promise(async () => (await fetch(`${url}/readyz`)).status)
        yield* eventually(readiness, (status) => status === 503)
        for (let again = 0; again < 20; again++) yield* post
        const log = yield* service.waitForStderr(/the disk is full|No space left on device/)
        // The server may end, fail to start, and refuse a statement: a line each, and none per request.
        assert.isAtMost((log.match(/the disk is full|No space left on device/g) ?? []).length, 3)
        assert.isAtMost((log.match(/[Dd]atabase/g) ?? []).length, 15)

        rmSync(filler)
        const recovered = yield* Effect.repeat(post, {
          until: ({ status }) => status !== 503,
          schedule: Schedule.max([Schedule.spaced("100 millis"), Schedule.recurs(300)])
        })
        assert.strictEqual(recovered.status, 200)
        assert.strictEqual((yield* post).status, 200)
        yield* service.waitForStderr(/The database is available again/)
        assert.strictEqual(yield* readiness, 200)
        yield* service.kill("SIGTERM")
        assert.strictEqual((yield* service.ended).code, 0)
      }),
    300_000
  )
})
