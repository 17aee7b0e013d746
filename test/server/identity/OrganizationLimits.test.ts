import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { Countersign } from "../../../src/testing/index.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { type Answer, send, service } from "../../support/service.ts"
import { createTeamClients, sortingTask } from "../../support/tasks.ts"

const METRICS_TOKEN = "limits-metrics-token"

const limited = {
  COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8",
  COUNTERSIGN_METRICS_TOKEN: METRICS_TOKEN,
  COUNTERSIGN_KEY_LIMIT: "4",
  COUNTERSIGN_OPEN_SESSION_LIMIT: "3",
  COUNTERSIGN_RUN_CONCURRENCY: "2",
  COUNTERSIGN_RUN_CONCURRENCY_MEBIBYTES: "1"
}

/** Size of `{"text":"a"}` as the limit counts it: two values, a name and a character. */
const SMALL_INPUT_BYTES = 8 + 8 + 4 + 1

const post = (path: string, key: Parameters<typeof send>[1] & {}, body: object = {}) =>
  send(path, { ...key, method: "POST", body: JSON.stringify(body) })

const outcomes = (answers: ReadonlyArray<Answer>) =>
  answers
    .map(({ body: { code }, status }) => (typeof code === "string" ? `${status} ${code}` : String(status)))
    .toSorted()

/** The rate limit headers of a response. */
const quotasOf = ({ headers }: Answer) => [headers.get("ratelimit-policy"), headers.get("ratelimit")]

const times = <A>(count: number, one: A): ReadonlyArray<A> => Array.from({ length: count }, () => one)

layer(service({ environment: limited }), { excludeTestServices: true })("OrganizationLimits", (it) => {
  it.effect("concurrent creations of keys do not exceed the limit; revoked keys do not count", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "keys")
      let created = 0
      const create = Effect.suspend(() =>
        post("/v1/api-keys", { key }, { name: `agent ${++created}`, preset: "runtime" })
      )
      const answers = yield* Effect.all(times(8, create), { concurrency: 8 })
      assert.deepStrictEqual(outcomes(answers), [...times(3, "201"), ...times(5, "409 LIMIT_REACHED")])
      const refusal = answers.find(({ status }) => status === 409)
      assert.match(String(refusal?.body["detail"]), /limit 4 for each organization.*Revoke one first/)
      assert.deepStrictEqual(
        answers.map(quotasOf).toSorted(([, a], [, b]) => String(b).localeCompare(String(a))),
        [2, 1, 0, 0, 0, 0, 0, 0].map((left) => ['"api_keys";q=4', `"api_keys";r=${left}`])
      )

      const { keys } = yield* (yield* countersign.clientWith(key)).apiKeys.list({ query: {} })
      const spare = keys.find(({ name }) => name.startsWith("agent"))
      yield* send(`/v1/api-keys/${spare?.id}`, { key, method: "DELETE" })
      assert.strictEqual((yield* create).status, 201)
      assert.strictEqual((yield* create).status, 409)
      const other = yield* countersign.key({}, "other keys")
      assert.strictEqual(
        (yield* post("/v1/api-keys", { key: other }, { name: "a", preset: "runtime" })).status,
        201
      )
    })
  )

  it.effect("keys are refused when too many revoked ones are still stored, per organization", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const sql = yield* SqlClient.SqlClient
      const key = yield* countersign.key({}, "stored keys")
      const create = (name: string) => post("/v1/api-keys", { key }, { name, preset: "runtime" })
      // With the usable key, one less than ten times the limit of usable ones.
      yield* sql`
        INSERT INTO api_keys (org_id, key_id, public_id, digest, name, preset, created_at, revoked_at)
        SELECT
          org_id, overlay(key_id placing lpad(number::text, 7, 'f') from 30), 'stored' || number, digest, 'stored', preset,
          api_keys.created_at, api_keys.created_at
        FROM api_keys JOIN organizations USING (org_id), generate_series(1, 38) AS number
        WHERE organizations.name = 'stored keys'
      `
      assert.strictEqual((yield* create("agent 1")).status, 201)
      const refused = yield* create("agent 2")
      assert.deepStrictEqual(outcomes([refused]), ["409 LIMIT_REACHED"])
      assert.match(String(refused.body["detail"]), /including revoked and expired ones \(limit 40 for each/)
      const other = yield* countersign.key({}, "no stored keys")
      const theirs = yield* post("/v1/api-keys", { key: other }, { name: "agent", preset: "runtime" })
      assert.strictEqual(theirs.status, 201)
    })
  )

  it.effect("sessions beyond the limit of open ones are refused until some are closed", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const key = yield* countersign.key({}, "sessions")
      const open = post("/v1/agent-sessions", { key })
      const answers = yield* Effect.all(times(5, open))
      assert.deepStrictEqual(outcomes(answers), [...times(3, "201"), ...times(2, "409 LIMIT_REACHED")])
      assert.match(String(answers[4]?.body["detail"]), /limit 3 for each organization.*Close some/)
      const full = ['"open_sessions";q=3', '"open_sessions";r=0']
      assert.deepStrictEqual(answers.map(quotasOf), [...times(2, [null, null]), ...times(3, full)])

      const first = String(answers[0]?.body["session_id"])
      assert.strictEqual((yield* post(`/v1/agent-sessions/${first}/close`, { key })).status, 200)
      const reopened = yield* Effect.repeat(open, { until: ({ status }) => status === 201 }).pipe(
        Effect.timeout("20 seconds")
      )
      assert.strictEqual(reopened.status, 201)
      assert.strictEqual((yield* open).status, 409)
      const other = yield* countersign.key({}, "other sessions")
      assert.strictEqual((yield* post("/v1/agent-sessions", { key: other })).status, 201)
    })
  )

  it.effect("runs that wait for a provider are limited by number and size, per organization", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const model = yield* startScriptedServer(["never"])
      const provider = { kind: "openai", base_url: model.url, model: "small" } as const
      const start = Effect.fnUntraced(function* (organization: string, text: string) {
        const { admin } = yield* createTeamClients(organization)
        const { id } = yield* admin.tasks.create({ payload: { ...sortingTask, provider } })
        const key = yield* countersign.key({ preset: "runtime" }, organization)
        return (more: object = {}) => post(`/v1/tasks/${id}/run`, { key }, { input: { text }, ...more })
      })

      const small = yield* start("small runs", "a")
      const waiting = [yield* Effect.forkChild(small()), yield* Effect.forkChild(small())]
      yield* Effect.promise(() => model.arrived(2))
      const refused = yield* small()
      assert.deepStrictEqual(outcomes([refused]), ["429 RATE_LIMITED"])
      assert.match(String(refused.body["detail"]), /has 2 runs waiting for a model provider/)
      assert.strictEqual(refused.headers.get("retry-after"), "1")
      assert.deepStrictEqual(quotasOf(refused), [
        '"concurrent_runs";q=2;qu="concurrent-requests", "run_bytes";q=1048576;qu="content-bytes"',
        `"concurrent_runs";r=0, "run_bytes";r=${1_048_576 - 2 * SMALL_INPUT_BYTES}`
      ])
      // A run that calls no provider is not limited.
      assert.strictEqual((yield* small({ answer: { category: "other" } })).status, 200)

      const large = yield* start("large runs", "a".repeat(700_000))
      waiting.push(yield* Effect.forkChild(large()))
      yield* Effect.promise(() => model.arrived(3))
      const tooLarge = yield* large()
      assert.deepStrictEqual(outcomes([tooLarge]), ["429 RATE_LIMITED"])
      assert.match(String(tooLarge.body["detail"]), /inputs of 1 MiB in all/)

      const metrics = String((yield* send("/metrics", { key: METRICS_TOKEN })).body["text"])
      assert.match(metrics, /countersign_limit_refusals_total\{limit="concurrent_runs"\} 1\n/)
      assert.match(metrics, /countersign_limit_refusals_total\{limit="run_bytes"\} 1\n/)
      assert.match(metrics, /countersign_limit_use_ratio\{limit="concurrent_runs"\} 1\n/)
      yield* Effect.forEach(waiting, Fiber.interrupt)
    }).pipe(Effect.scoped)
  )
})
