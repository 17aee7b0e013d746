import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { existsSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { prepareOrganization, startLoad } from "../../scripts/chaos/faults/load.ts"
import { startWebhookReceiver } from "../../scripts/chaos/faults/receiver.ts"
import { serviceEnvironment, startService } from "../../scripts/chaos/faults/service.ts"
import { verify } from "../../scripts/chaos/faults/verify.ts"
import * as Database from "../../src/server/store/Database.ts"
import { embeddedServerUrl } from "../../src/server/store/EmbeddedPostgres.ts"
import { eventually } from "../support/eventually.ts"
import { spawnCli } from "../support/process.ts"

/** In memory if the machine has such a directory: each copied file is synced. */
const base = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()

const temporaryDirectory = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(base, "countersign-backups-"))),
  (directory) => Effect.promise(() => rm(directory, { recursive: true, force: true }))
)

describe("countersign backup and restore of a service in use", () => {
  it.live(
    "everything that was acknowledged before the backup is there, sent webhooks are sent again, and the audit chain is whole",
    () =>
      Effect.gen(function* () {
        const [dataDir, backups, target] = [
          yield* temporaryDirectory,
          yield* temporaryDirectory,
          yield* temporaryDirectory
        ]
        const environment = serviceEnvironment()
        const original = { ...environment, COUNTERSIGN_DATA_DIR: dataDir }
        const command = Effect.fnUntraced(function* (
          variables: Readonly<Record<string, string>>,
          ...args: ReadonlyArray<string>
        ) {
          const { code, err, out } = yield* (yield* spawnCli(args, variables)).ended
          assert.strictEqual(code, 0, err)
          return out.trim()
        })
        const receiver = yield* startWebhookReceiver
        const { acknowledged, backup } = yield* Effect.gen(function* () {
          const service = yield* startService(original)
          if (service.firstKey === undefined)
            return yield* Effect.die(new Error("The service printed no key"))
          const keys = yield* prepareOrganization(service.url, service.firstKey, receiver.url)
          const load = yield* startLoad(() => [service.url], keys)
          yield* eventually(
            Effect.sync(() => load.acknowledged.decisions.size),
            (count) => count > 50
          )
          const before = {
            sessions: new Set(load.acknowledged.sessions),
            steps: new Set(load.acknowledged.steps),
            decisions: new Set(load.acknowledged.decisions)
          }
          const backup = yield* command(original, "backup", "--to", backups, "--compress")
          assert.isAbove(
            load.acknowledged.steps.size,
            before.steps.size,
            "the service accepted writes meanwhile"
          )
          yield* load.stop
          assert.deepStrictEqual(load.wrong, [])
          assert.strictEqual(load.replies.Refused, 0)
          return { acknowledged: before, backup }
        }).pipe(Effect.scoped)

        const restored = { ...environment, COUNTERSIGN_DATA_DIR: target }
        yield* command(restored, "restore", "--from", backup)
        yield* startService(restored)
        const url = yield* embeddedServerUrl(restored.COUNTERSIGN_DATA_DIR)
        const database = yield* Layer.build(Database.layer({ url, maxConnections: 2 }))
        const sql = Context.get(database, SqlClient.SqlClient)
        yield* eventually(
          sql`SELECT 1 FROM deliveries WHERE status = 'pending' LIMIT 1`,
          (pending) => pending.length === 0
        )
        // The receiver also got events after the backup, which are in no database any more.
        const events = yield* sql<{ readonly id: string }>`SELECT event_id AS id FROM approval_events`
        const restoredIds = new Set(events.map(({ id }) => id))
        const arrived = new Map([...receiver.arrived].filter(([id]) => restoredIds.has(id)))
        assert.isBelow(arrived.size, receiver.arrived.size)
        const findings = yield* verify(sql, acknowledged, arrived, 1)
        assert.deepStrictEqual(findings.broken, [])
        const exported = yield* command(restored, "audit", "export")
        const checker = yield* spawnCli(["audit", "verify", "-"], restored)
        yield* checker.write(`${exported}\n`)
        yield* checker.close
        const { code, err } = yield* checker.ended
        assert.strictEqual(code, 0, err)
        assert.isAbove(exported.split("\n").length, 3)
      }).pipe(Effect.scoped),
    240_000
  )
})
