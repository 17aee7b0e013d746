import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Ref, Redacted } from "effect"
import * as Stream from "effect/Stream"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { Client, type ClientCalls } from "../../src/client/Client.ts"
import * as ApiKeyFormat from "../../src/domain/identity/ApiKeyFormat.ts"
import { type OrgId, SessionId, StepId } from "../../src/domain/Ids.ts"
import { breakingProxy } from "../support/breakingProxy.ts"
import { freePort } from "../support/freePort.ts"
import { TestDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"
import { closeSession, recordOutcomes } from "../support/sessions.ts"

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i)

/** Retries a call until the service answers it. */
const retryUntilAnswered = <A, E>(call: Effect.Effect<A, E>) =>
  Effect.eventually(Effect.tapError(call, () => Effect.sleep("50 millis")))

const search = (number: number) => ({
  step_id: StepId.make(`step ${number}`),
  tool: "search",
  action_class: "read",
  arguments: { number }
})

layer(TestDatabase.layerSql, { excludeTestServices: true })("SessionStream › faults", (it) => {
  it.effect(
    "a client gets every event once and in order although its connection breaks 200 times and the service is killed three times",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { url } = yield* TestDatabase
        const { key } = yield* ApiKeyFormat.generateApiKey
        const port = yield* Effect.promise(freePort)
        const environment = {
          PORT: String(port),
          DATABASE_URL: Redacted.value(url),
          COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
          COUNTERSIGN_ADMIN_KEY: Redacted.value(key),
          COUNTERSIGN_RATE_LIMIT_PER_SECOND: "0",
          COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: "0"
        }
        const start = Effect.tap(spawnCli(["serve"], environment), ({ waitForStdout }) =>
          waitForStdout(/is ready/)
        )
        const connected = (url: string): Effect.Effect<ClientCalls> =>
          Effect.provide(Client, Client.layer({ url, key, retries: 0 }))

        let service = yield* start
        const direct = yield* connected(`http://127.0.0.1:${port}`)
        yield* direct.approvalRules.replace({ payload: { rules: [{ tool: "search", effect: "allow" }] } })
        const { session_id } = yield* direct.sessions.create({})
        const [row] = yield* sql<{ readonly org_id: OrgId }>`
          SELECT org_id FROM agent_sessions WHERE session_id = ${session_id}
        `
        if (row === undefined) throw new Error("the session is in the store")
        const session = { org_id: row.org_id, session_id: SessionId.make(session_id) }

        const proxy = yield* breakingProxy({ port, breaks: 200, bytes: 8_000, seed: 11 })
        const broken = yield* connected(proxy.url)
        const seen: Array<number> = []
        const following = yield* broken.stream(session_id, { reconnect: "1 millis" }).pipe(
          Stream.runForEach(({ id }) => Effect.sync(() => void seen.push(id))),
          Effect.forkChild
        )

        // Two replicas write: the service, which is killed, and one that is not.
        const asked = yield* Ref.make(0)
        const agent = yield* Effect.forEach(
          range(1, 1_000),
          (number) =>
            Effect.andThen(
              retryUntilAnswered(
                direct.sessions.step({ params: { id: session_id }, payload: search(number) })
              ),
              Ref.update(asked, (count) => count + 1)
            ),
          { concurrency: 4, discard: true }
        ).pipe(Effect.forkChild)
        const replica = yield* Effect.forEach(
          range(1, 400),
          () => Effect.andThen(recordOutcomes(session, 10), Effect.sleep("5 millis")),
          { discard: true }
        ).pipe(Effect.forkChild)
        for (const enough of [200, 450, 700]) {
          yield* Effect.repeat(Effect.andThen(Effect.sleep("5 millis"), Ref.get(asked)), {
            until: (count) => count >= enough
          })
          yield* service.kill("SIGKILL")
          yield* service.ended
          service = yield* start
        }
        yield* Fiber.joinAll([agent, replica])
        yield* closeSession(session)
        yield* Fiber.join(following)

        const [stored] = yield* sql<{ readonly count: number }>`
          SELECT count(*)::int AS count FROM session_events WHERE session_id = ${session_id}
        `
        assert.isAtLeast(stored?.count ?? 0, 5_001)
        assert.deepStrictEqual(seen, range(1, stored?.count ?? 0))
        assert.strictEqual(proxy.breaks(), 200)
      }).pipe(Effect.scoped),
    300_000
  )
})
