import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { connect } from "../../../src/client/connect/index.ts"
import * as ApiKeyFormat from "../../../src/domain/identity/ApiKeyFormat.ts"
import { cloneDatabase } from "../../support/postgres.ts"
import { spawnCli } from "../../support/process.ts"
import { startFront } from "../../support/startFront.ts"

const READY = /is ready[^]*address +(\S+)/

/** A service in a process of its own, which a test kills and starts again, with rules that make every call wait for a person. */
export const restartableRun = Effect.gen(function* () {
  const databaseUrl = yield* cloneDatabase
  const { key } = yield* ApiKeyFormat.generateApiKey
  const { forwardTo, url } = yield* startFront
  const environment = {
    PORT: "0",
    COUNTERSIGN_PUBLIC_URL: url,
    DATABASE_URL: Redacted.value(databaseUrl),
    COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
    COUNTERSIGN_ADMIN_KEY: Redacted.value(key)
  }
  const start = Effect.tap(spawnCli(["serve"], environment), ({ waitForStdout }) =>
    Effect.map(waitForStdout(READY), (out) => forwardTo(READY.exec(out)?.[1] ?? ""))
  )
  let service = yield* start
  const admin = connect({ url, key: Redacted.value(key) })
  yield* Effect.addFinalizer(() => Effect.promise(() => admin.close()))
  // A key cannot decide what it has asked itself.
  const agent = yield* Effect.promise(() =>
    admin.apiKeys.create({ payload: { name: "agent", preset: "runtime" } })
  )
  return {
    url,
    key: agent.secret,
    kill: Effect.suspend(() => Effect.andThen(service.kill("SIGKILL"), service.ended)),
    restart: Effect.map(start, (started) => {
      service = started
    }),
    /** Approves the call that waits. */
    approve: async () => {
      const { approvals } = await admin.approvals.list({ query: { status: "pending" } })
      for (const { approval_id } of approvals) {
        await admin.approvals.decide({ params: { id: approval_id }, payload: { decision: "approve" } })
      }
    }
  }
})
