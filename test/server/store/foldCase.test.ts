import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { identityMakers } from "../../../src/server/identity/identityMakers.ts"
import * as Database from "../../../src/server/store/Database.ts"
import { foldCase } from "../../../src/server/store/foldCase.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { serviceDatabase, turkishDatabase } from "../../support/postgres.ts"
import { sortingTask } from "../../support/tasks.ts"

/** The service on a Turkish database, and a client of that database. */
const turkish = Layer.unwrap(
  Effect.map(turkishDatabase, (url) => {
    const { databaseUrl, environment } = serviceDatabase(url)
    return Layer.merge(
      Countersign.layer({ databaseUrl, environment }),
      Layer.orDie(Database.layer({ url, maxConnections: 2 }))
    )
  })
)

layer(turkish, { excludeTestServices: true })("on a database with a Turkish locale", (it) => {
  it.effect("letters are compared as in any other locale", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql`
        SELECT lower('INVOICE') AS by_locale, ${sql.literal(foldCase("'INVOICE ÄÖÇ'::text"))} AS folded
      `
      assert.deepStrictEqual(row, { by_locale: "ınvoıce", folded: "invoice äöç" })
    })
  )

  it.effect("keys, runs and sessions are found in any case, and names are unique in any case", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "turkish")
      const { key } = yield* admin.apiKeys.create({ payload: { name: "FIRST INVOICE", preset: "runtime" } })
      const found = yield* admin.apiKeys.list({ query: { name: "first invoice" } })
      assert.deepStrictEqual(
        found.keys.map(({ id }) => id),
        [key.id]
      )
      const taken = yield* Effect.flip(
        admin.apiKeys.create({ payload: { name: "first invoice", preset: "runtime" } })
      )
      assert.strictEqual(taken._tag, "NAME_IN_USE")

      const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
      const { trace_id } = yield* admin.tasks.run({
        params: { id: task_id },
        payload: { input: { text: "PAID INVOICE" }, answer: { category: "billing" } }
      })
      const runs = yield* admin.runs.list({ params: { id: task_id }, query: { text: "invoice" } })
      assert.deepStrictEqual(
        runs.runs.map((run) => run.trace_id),
        [trace_id]
      )

      const { session_id } = yield* admin.sessions.create({ payload: { metadata: { file: "INVOICE" } } })
      const sessions = yield* admin.sessions.list({ query: { text: "invoice" } })
      assert.deepStrictEqual(
        sessions.sessions.map((session) => session.session_id),
        [session_id]
      )
    })
  )

  it.effect("one human being is one person in a quorum, whatever the letters of their addresses", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const sql = yield* SqlClient.SqlClient
      const admin = yield* countersign.client({}, "quorum")
      const keyOf = (name: string, email: string) =>
        Effect.map(
          admin.apiKeys.create({ payload: { name, email, preset: "reviewer" } }),
          ({ key }) => key.id
        )
      const own = yield* keyOf("Ann's key", "ANN@INFO.example")
      const person = yield* keyOf("Ann", "ann@info.example")
      yield* sql`
        INSERT INTO people (org_id, key_id, issuer, subject, signed_in_at)
        SELECT org_id, key_id, 'https://id.example', 'ann', created_at FROM api_keys WHERE key_id = ${person}
      `
      yield* sql`
        INSERT INTO email_addresses (org_id, address, event_id, key_id, requested_at, requests_full_at, verified_at)
        SELECT org_id, email, 'evt_1', key_id, created_at, created_at, created_at FROM api_keys WHERE key_id = ${person}
        ON CONFLICT (org_id, address) DO UPDATE SET verified_at = EXCLUDED.verified_at
      `
      const [row] = yield* sql<{ readonly makers: ReadonlyArray<string> }>`
        SELECT ${identityMakers(sql)} AS makers FROM api_keys WHERE key_id = ${person}
      `
      assert.include(row?.makers ?? [], own)
    })
  )
})
