import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { LoopTurns, makeLoopTurns } from "../../../src/server/admission/LoopTurns.ts"
import { deleteExpired } from "../../../src/server/deletion/RowRetention.ts"
import { RETENTION_MILLIS } from "../../../src/server/store/idempotencyKeys.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { type NameServer, nameServer } from "../../support/dns.ts"
import { waitForBlockedStatements } from "../../support/eventually.ts"
import { type Answer, send, service } from "../../support/service.ts"

/** The name server of the service under test, and that it was asked. */
class Asked extends Context.Service<
  Asked,
  { readonly asked: Deferred.Deferred<void>; readonly names: NameServer }
>()("test/Asked") {}

const create = (key: Redacted.Redacted, name: string, idempotencyKey: string) =>
  send("/v1/api-keys", {
    method: "POST",
    key,
    body: JSON.stringify({ name, preset: "runtime" }),
    headers: { "idempotency-key": idempotencyKey }
  })

layer(service(), { excludeTestServices: true })("Idempotency", (it) => {
  it.effect("the same request gets the same response, also when both arrive concurrently", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "same answer")
      const answers = yield* Effect.all(
        Array.from({ length: 8 }, () => create(key, "one", "first")),
        { concurrency: "unbounded" }
      )
      for (const answer of answers) {
        assert.strictEqual(answer.status, 201)
        assert.deepStrictEqual(answer.body, answers[0]?.body)
      }
      const admin = yield* (yield* Countersign).clientWith(key)
      const { keys } = yield* admin.apiKeys.list({})
      assert.lengthOf(
        keys.filter(({ name }) => name === "one"),
        1
      )
    })
  )

  it.effect("a key is rejected for another body, and available to another organization or operation", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "another body")
      const first = yield* create(key, "one", "k")
      assert.strictEqual(first.status, 201)
      const reused = yield* create(key, "two", "k")
      assert.strictEqual(reused.status, 409)
      assert.strictEqual(reused.body["code"], "IDEMPOTENCY_KEY_REUSED")
      const stranger = yield* countersign.key({}, "another org")
      const theirs = yield* create(stranger, "two", "k")
      assert.strictEqual(theirs.status, 201)
      const openSession = send("/v1/agent-sessions", {
        method: "POST",
        key,
        body: "{}",
        headers: { "idempotency-key": "k" }
      })
      const session = yield* openSession
      assert.strictEqual(session.status, 201)
      // Each repetition gets the response of its own organization and operation.
      assert.deepStrictEqual((yield* create(key, "one", "k")).body, first.body)
      assert.deepStrictEqual((yield* create(stranger, "two", "k")).body, theirs.body)
      assert.deepStrictEqual((yield* openSession).body, session.body)
    })
  )

  it.effect("a key that was used for one task is rejected for another", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "two tasks")
      const client = yield* countersign.clientWith(key)
      const schemas = { input_schema: { type: "object" }, answer_schema: { type: "object" } }
      const [one, other] = yield* Effect.forEach(["one", "other"], (name) =>
        client.tasks.create({ payload: { name, ...schemas } })
      )
      const addExample = (task_id = "") =>
        send(`/v1/tasks/${task_id}/datasets`, {
          method: "POST",
          key,
          body: JSON.stringify({ examples: [{ input: { text: "a" }, answer: { total: 1 } }] }),
          headers: { "idempotency-key": "example" }
        })
      const added = yield* addExample(one?.id)
      assert.strictEqual(added.status, 201)
      const reused = yield* addExample(other?.id)
      assert.strictEqual(reused.status, 409)
      assert.strictEqual(reused.body["code"], "IDEMPOTENCY_KEY_REUSED")
    })
  )

  it.effect("the response for one API key is not returned to another, which may have fewer scopes", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.key({}, "callers")
      const narrow = yield* countersign.key({ name: "narrow", scopes: ["keys.write"] }, "callers")
      assert.strictEqual((yield* create(admin, "one", "deploy-1")).status, 201)
      const other = yield* create(narrow, "one", "deploy-1")
      assert.strictEqual(other.body["code"], "IDEMPOTENCY_KEY_REUSED")
      assert.notProperty(other.body, "secret")
    })
  )

  it.effect("a replayed response says so", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "replayed")
      const replays = []
      for (const _ of [1, 2, 3])
        replays.push((yield* create(key, "one", "marked")).headers.get("idempotent-replayed"))
      assert.deepStrictEqual(replays, [null, "true", "true"])
    })
  )

  it.effect("a rejected request does not use up its key", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "refused")
      const body = JSON.stringify({ name: "x" })
      const headers = { "idempotency-key": "again" }
      assert.strictEqual((yield* send("/v1/api-keys", { method: "POST", key, body, headers })).status, 400)
      assert.strictEqual((yield* create(key, "x", "again")).status, 201)
    })
  )

  it.effect("stored responses are sealed", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "sealed")
      const { body } = yield* create(key, "one", "sealed")
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly answer: Uint8Array }>`SELECT answer FROM idempotency_keys`
      const secret = String(body["secret"])
      assert.isAbove(rows.length, 0)
      for (const { answer } of rows) assert.notInclude(Buffer.from(answer).toString("latin1"), secret)
    })
  )

  it.effect("keys are deleted after 24 hours", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "forgotten")
      const sql = yield* SqlClient.SqlClient
      for (const [name, hours] of [
        ["old", 25],
        ["expired", 25],
        ["young", 23]
      ] as const) {
        assert.strictEqual((yield* create(key, name, name)).status, 201)
        yield* sql`UPDATE idempotency_keys SET created_at = now() - ${`${hours} hours`}::interval WHERE key = ${name}`
      }
      // An expired key is available to another request, also before it is deleted.
      assert.strictEqual((yield* create(key, "one more", "expired")).status, 201)
      assert.strictEqual((yield* deleteExpired("idempotency_retention", RETENTION_MILLIS)).removed, 1)
      assert.strictEqual((yield* deleteExpired("idempotency_retention", RETENTION_MILLIS)).removed, 0)
      assert.strictEqual((yield* create(key, "another", "old")).status, 201)
      assert.strictEqual((yield* create(key, "another", "young")).status, 409)
    })
  )

  it.effect.each(["", "a b", "ü", "x".repeat(256)])("that reads %j is refused", (value) =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key()
      const answer = yield* send("/v1/agent-sessions", {
        method: "POST",
        key,
        body: "{}",
        headers: { "idempotency-key": value === "ü" ? "\u00fc" : value }
      })
      assert.strictEqual(answer.status, 400)
    })
  )

  it.effect("a duplicate waits for the first request for at most five seconds", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "in use")
      const another = yield* (yield* Countersign).key({}, "not in use")
      const sql = yield* SqlClient.SqlClient
      yield* sql.withTransaction(
        Effect.gen(function* () {
          // The first request, still in progress.
          yield* sql`
            INSERT INTO idempotency_keys (org_id, operation, key, fingerprint, created_at)
            SELECT org_id, 'apiKeys.create', 'slow', '', now()
            FROM organizations
            WHERE name = 'in use'
          `
          const statuses: Array<number> = []
          const noted = <E, R>(sending: Effect.Effect<Answer, E, R>) =>
            Effect.tap(sending, ({ status }) => Effect.sync(() => statuses.push(status)))
          const repeats = Array.from({ length: 8 }, () => noted(create(key, "one", "slow")))
          const [answers] = yield* Effect.all(
            [Effect.all(repeats, { concurrency: "unbounded" }), noted(create(another, "one", "quick"))],
            { concurrency: 2 }
          )
          for (const answer of answers) {
            assert.strictEqual(answer.status, 409)
            assert.strictEqual(answer.body["code"], "IDEMPOTENCY_KEY_IN_USE")
          }
          // Other requests do not wait for the duplicates.
          assert.strictEqual(statuses[0], 201)
        })
      )
    })
  )
})

// While other organizations send requests, the limit of transactions is as low as this one.
const alone = Layer.sync(LoopTurns, () => Object.assign(makeLoopTurns(), { hasCompany: () => false }))

layer(service().pipe(Layer.provide(alone)), { excludeTestServices: true })(
  "Idempotency › an organization alone",
  (it) => {
    it.effect("at most four operations of an organization with keys hold a connection at a time", () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key({}, "many keys")
        const sql = yield* SqlClient.SqlClient
        const sent = yield* sql.withTransaction(
          Effect.gen(function* () {
            // Claims of keys wait.
            yield* sql`LOCK TABLE idempotency_keys IN SHARE MODE`
            const sending = yield* Effect.forEach(
              Array.from({ length: 8 }, (_, index) => `key-${index}`),
              (name) => Effect.forkDetach(create(key, name, name))
            )
            yield* waitForBlockedStatements(4)
            // Sent after the others.
            assert.strictEqual((yield* send("/v1/api-keys", { key })).status, 200)
            const blocked = yield* sql`
                SELECT 1
                FROM pg_locks
                WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
                  AND relation = 'idempotency_keys'::regclass
                  AND NOT granted
              `
            assert.lengthOf(blocked, 4)
            return sending
          })
        )
        const answers = yield* Effect.forEach(sent, (fiber) => Fiber.join(fiber))
        assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))], [201])
      })
    )
  }
)

layer(
  Layer.unwrap(
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const answered = new Set<string>()
      // The first query of each kind gets no response.
      const names = yield* nameServer(({ name, type }) => {
        Deferred.doneUnsafe(asked, Effect.void)
        if (!answered.has(type)) {
          answered.add(type)
          return "silence"
        }
        return name === "hooks.example.org" ? ["127.0.0.1"] : "NXDOMAIN"
      })
      const { host, port } = { host: "127.0.0.1", port: names.address.port }
      return Layer.merge(
        service({ environment: { COUNTERSIGN_DNS_SERVERS: `${host}:${port}` } }),
        Layer.succeed(Asked, { asked, names })
      )
    })
  ),
  { excludeTestServices: true }
)("an operation under a key that looks a name up", (it) => {
  it.effect("a request with a key looks names up without a connection, and runs once", () =>
    Effect.gen(function* () {
      const { asked, names } = yield* Asked
      const key = yield* (yield* Countersign).key()
      const create = send("/v1/notification-endpoints", {
        method: "POST",
        key,
        body: JSON.stringify({ url: "https://hooks.example.org/approvals" }),
        headers: { "idempotency-key": "hook" }
      })
      const first = yield* Effect.forkChild(create)
      yield* Deferred.await(asked)
      const sql = yield* SqlClient.SqlClient
      // Background workers may be in a transaction of their own, but claim no key.
      const held = yield* sql`
        SELECT 1
        FROM pg_locks
        WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND relation = 'idempotency_keys'::regclass
      `
      assert.isEmpty(held)
      const answer = yield* Fiber.join(first)
      assert.strictEqual(answer.status, 201)
      const questions = names.questions.length
      assert.deepStrictEqual((yield* create).body, answer.body)
      assert.strictEqual(names.questions.length, questions)
    })
  )
})
