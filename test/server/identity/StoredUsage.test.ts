import { assert, it, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId } from "../../../src/domain/Ids.ts"
import { StoredUsage } from "../../../src/server/identity/StoredUsage.ts"
import * as Database from "../../../src/server/store/Database.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { eventually, waitForBlockedStatements } from "../../support/eventually.ts"
import { TestDatabase } from "../../support/postgres.ts"
import { type Answer, send, service } from "../../support/service.ts"
import { startSilentProxy } from "../../support/silentProxy.ts"
import { createTeamClients, sortingTask } from "../../support/tasks.ts"
import { layerNoLimits } from "../../support/layerNoLimits.ts"

const METRICS_TOKEN = "stored-usage-metrics"

const limited = {
  COUNTERSIGN_METRICS_TOKEN: METRICS_TOKEN,
  COUNTERSIGN_STORED_RUN_LIMIT: "3",
  COUNTERSIGN_STORED_FEEDBACK_LIMIT: "2",
  COUNTERSIGN_STORED_MEBIBYTES_LIMIT: "1"
}

type Key = NonNullable<NonNullable<Parameters<typeof send>[1]>["key"]>

const post = (path: string, key: Key, body: object = {}) =>
  send(path, { key, method: "POST", body: JSON.stringify(body) })

const outcome = ({ body: { code }, status }: Answer) =>
  typeof code === "string" ? `${status} ${code}` : String(status)

const storedUsage = (organization: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ readonly runs: number; readonly feedback: number; readonly bytes: number }>`
        SELECT runs::int AS runs, feedback::int AS feedback, bytes::float8 AS bytes
        FROM organization_usage
          JOIN organizations USING (org_id)
        WHERE name = ${organization}
      `,
      ([row]) => row ?? { runs: 0, feedback: 0, bytes: 0 }
    )
  )

layer(service({ environment: limited }), { excludeTestServices: true })("StoredUsage", (it) => {
  const seedTask = Effect.fnUntraced(function* (organization: string) {
    const { admin } = yield* createTeamClients(organization)
    const { id } = yield* admin.tasks.create({ payload: sortingTask })
    const key = yield* (yield* Countersign).key({}, organization)
    const log = (text: string) =>
      post(`/v1/tasks/${id}/run`, key, { input: { text }, answer: { category: "other" } })
    return { key, id, log }
  })

  it.effect("runs and feedback beyond an organization's limit are refused, others' are not", () =>
    Effect.gen(function* () {
      const { key, log } = yield* seedTask("counted")
      const runs = yield* Effect.replicateEffect(log("x"), 4)
      assert.deepStrictEqual(runs.map(outcome), ["200", "200", "200", "409 LIMIT_REACHED"])
      assert.match(String(runs[3]?.body["detail"]), /limit 3 for each organization.*operator/)
      assert.deepStrictEqual(
        runs.map(({ headers }) => headers.get("ratelimit")),
        [null, null, null, '"stored_runs";r=0']
      )
      assert.strictEqual(runs[3]?.headers.get("ratelimit-policy"), '"stored_runs";q=3')
      const inference_log_id = runs[0]?.body["trace_id"]
      const give = post("/v1/feedback", key, { inference_log_id, score: 1 })
      const given = yield* Effect.replicateEffect(give, 3)
      assert.deepStrictEqual(given.map(outcome), ["201", "201", "409 LIMIT_REACHED"])
      assert.strictEqual((yield* (yield* seedTask("others")).log("x")).status, 200)

      const stored = yield* eventually(storedUsage("counted"), ({ runs }) => runs === 3)
      assert.strictEqual(stored.feedback, 2)
      assert.isAbove(stored.bytes, 3_000)
      const metrics = String((yield* send("/metrics", { key: METRICS_TOKEN })).body["text"])
      assert.match(metrics, /countersign_limit_refusals_total\{limit="stored_runs"\} 1\n/)
    })
  )

  it.effect(
    "feedback of end users counts towards the limit, and beyond it is refused without the limit",
    () =>
      Effect.gen(function* () {
        const { key, log } = yield* seedTask("end users")
        const { trace_id } = (yield* log("x")).body
        const { body } = yield* post(`/v1/runs/${String(trace_id)}/feedback-token`, key, { max_uses: 3 })
        const submit = (score: number) =>
          post(`/v1/runs/${String(trace_id)}/end-user-feedback`, String(body["token"]), { score })
        assert.deepStrictEqual((yield* Effect.all([submit(1), submit(-1)])).map(outcome), ["204", "204"])
        const refused = yield* submit(1)
        assert.strictEqual(outcome(refused), "409 LIMIT_REACHED")
        // The end users of an organization are not told how much it stores.
        assert.strictEqual(refused.body["detail"], "No more feedback can be stored at present.")
        yield* eventually(storedUsage("end users"), ({ feedback }) => feedback === 2)
      })
  )

  it.effect("a run that is repeated with its idempotency key gets its response also if storage is full", () =>
    Effect.gen(function* () {
      const { id, key, log } = yield* seedTask("repeated")
      const run = (idempotencyKey: string, body: object) =>
        send(`/v1/tasks/${id}/run`, {
          key,
          method: "POST",
          headers: { "idempotency-key": idempotencyKey },
          body: JSON.stringify(body)
        })
      const supplied = { input: { text: "a" }, answer: { category: "other" } }
      const first = yield* run("first", supplied)
      assert.strictEqual(first.status, 200)
      yield* Effect.replicateEffect(log("x"), 2)
      assert.strictEqual(outcome(yield* run("second", supplied)), "409 LIMIT_REACHED")
      assert.deepStrictEqual((yield* run("first", supplied)).body, first.body)
      // The refusal has not claimed the key.
      assert.strictEqual(outcome(yield* run("second", { input: { text: "b" } })), "409 LIMIT_REACHED")
    })
  )

  it.effect("full storage refuses what would be stored, and decisions on saved steps remain", () =>
    Effect.gen(function* () {
      const { id, key, log } = yield* seedTask("full")
      const session = yield* post("/v1/agent-sessions", key)
      const steps = `/v1/agent-sessions/${String(session.body["session_id"])}/steps`
      const step = (step_id: string) =>
        post(steps, key, { step_id, tool: "payments.refund", action_class: "write", arguments: { n: 1 } })
      const saved = yield* step("1")
      assert.strictEqual((yield* log("x".repeat(1024 * 1024))).status, 200)
      assert.strictEqual(outcome(yield* log("x")), "409 LIMIT_REACHED")
      assert.strictEqual(outcome(yield* post("/v1/agent-sessions", key)), "409 LIMIT_REACHED")
      const dataset = {
        base_dataset_id: null,
        examples: [{ input: { text: "a" }, answer: { category: "other" } }]
      }
      const refused = yield* post(`/v1/tasks/${id}/datasets`, key, dataset)
      assert.strictEqual(outcome(refused), "409 LIMIT_REACHED")
      assert.match(String(refused.body["detail"]), /Storage is full \(limit 1 MiB for each organization\)/)
      assert.strictEqual(outcome(yield* step("2")), "409 LIMIT_REACHED")
      assert.deepStrictEqual((yield* step("1")).body, saved.body)
      const approval = String(saved.body["approval_id"])
      const reviewer = yield* (yield* Countersign).key({ preset: "reviewer" }, "full")
      const decided = yield* post(`/v1/agent-approvals/${approval}/decide`, reviewer, { decision: "approve" })
      assert.strictEqual(decided.status, 200)
      assert.strictEqual((yield* post(`${steps}/1/outcome`, key, { status: "succeeded" })).status, 200)
    })
  )

  it.effect("datasets, steps and their outcomes add to the stored size", () =>
    Effect.gen(function* () {
      const { id, key } = yield* seedTask("sized")
      const size = (atLeast: number) =>
        Effect.map(
          eventually(storedUsage("sized"), ({ bytes }) => bytes >= atLeast),
          ({ bytes }) => bytes
        )
      const dataset = {
        base_dataset_id: null,
        examples: [{ input: { text: "a".repeat(50_000) }, answer: { category: "other" } }]
      }
      assert.strictEqual((yield* post(`/v1/tasks/${id}/datasets`, key, dataset)).status, 201)
      const withDataset = yield* size(50_000)
      const session = yield* post("/v1/agent-sessions", key, { metadata: {} })
      const steps = `/v1/agent-sessions/${String(session.body["session_id"])}/steps`
      yield* post(steps, key, {
        step_id: "1",
        tool: "mail.read",
        action_class: "read",
        arguments: { text: "b".repeat(20_000) }
      })
      assert.isAtLeast(yield* size(withDataset + 20_000), withDataset + 20_000)
    })
  )
})

it.live(
  "a database that does not respond delays the shutdown by a second, not by the deadline of a statement",
  () =>
    Effect.gen(function* () {
      const proxy = yield* startSilentProxy((yield* TestDatabase).url)
      const scope = yield* Scope.make()
      const usage = Layer.fresh(StoredUsage.layer).pipe(
        Layer.provide(layerNoLimits),
        Layer.provide(Database.layer({ url: proxy.url }))
      )
      const { add, read } = Context.get(yield* Layer.buildWithScope(usage, scope), StoredUsage)
      const organization = yield* OrgId.generate
      yield* read(organization)
      add(organization, { bytes: 1 })
      proxy.forgetConnections()
      const before = performance.now()
      yield* Scope.close(scope, Exit.void)
      assert.isBelow(performance.now() - before, 5_000)
    }).pipe(Effect.scoped, Effect.provide(TestDatabase.layer))
)

layer(
  Layer.fresh(StoredUsage.layer).pipe(
    Layer.provide(layerNoLimits),
    Layer.provideMerge(TestDatabase.layerSql)
  ),
  {
    excludeTestServices: true
  }
)("StoredUsage › concurrent writes", (it) => {
  it.effect("amounts count while they are written, and a second write waits for the first", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { add, flush, read } = yield* StoredUsage
      const [first, second] = [yield* OrgId.generate, yield* OrgId.generate]
      add(first, { runs: 1 })
      yield* flush
      const locked = yield* Deferred.make<void>()
      const release = yield* Deferred.make<void>()
      const lock = yield* Effect.forkChild(
        transaction(
          sql`SELECT 1 FROM organization_usage WHERE org_id = ${first} FOR UPDATE`.pipe(
            Effect.andThen(Deferred.succeed(locked, undefined)),
            Effect.andThen(Deferred.await(release))
          )
        )
      )
      yield* Deferred.await(locked)
      add(first, { runs: 10 })
      const writing = yield* Effect.forkChild(flush)
      // On a connection of its own, because statements outside transactions share one.
      yield* transaction(waitForBlockedStatements(1))
      add(second, { runs: 100 })
      const after = yield* Effect.forkChild(flush)
      yield* Effect.yieldNow
      assert.strictEqual((yield* read(first)).runs, 11)
      assert.strictEqual((yield* read(second)).runs, 100)
      assert.isUndefined(after.pollUnsafe())
      yield* Deferred.succeed(release, undefined)
      yield* Fiber.join(lock)
      yield* Fiber.join(writing)
      yield* Fiber.join(after)
      const stored = yield* sql`SELECT org_id, runs::int AS runs FROM organization_usage ORDER BY runs`
      assert.deepStrictEqual(stored, [
        { org_id: first, runs: 11 },
        { org_id: second, runs: 100 }
      ])
      assert.strictEqual((yield* read(first)).runs, 11)
    })
  )

  it.effect("what is deleted and was never counted does not make later data free", () =>
    Effect.gen(function* () {
      const { add, flush, read } = yield* StoredUsage
      const organization = yield* OrgId.generate
      add(organization, { runs: -1, feedback: -1, bytes: -5_000 })
      yield* flush
      add(organization, { runs: 2, feedback: 3, bytes: 1_000 })
      yield* flush
      assert.deepStrictEqual(yield* read(organization), { runs: 2, feedback: 3, bytes: 1_000 })
      add(organization, { bytes: -400 })
      yield* flush
      assert.strictEqual((yield* read(organization)).bytes, 600)
    })
  )
})
