import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { inject } from "vitest"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { findTool } from "../../../scripts/deploy/chartTools.ts"
import { StepId } from "../../../src/domain/Ids.ts"
import { collectAtMostEvery, layerRegistry, Metrics } from "../../../src/server/observability/Metrics.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { send, service } from "../../support/service.ts"
import { eventually } from "../../support/eventually.ts"
import { sortingTask } from "../../support/tasks.ts"

const token = "a-token-of-sixteen-and-more"

/** One sample, with its labels as text. */
interface Sample {
  readonly name: string
  readonly labels: string
  readonly value: number
}

/** Parses the Prometheus exposition format, version 0.0.4. */
const parse = (text: string) => {
  const samples: Array<Sample> = []
  const types = new Map<string, string>()
  const helps = new Map<string, string>()
  for (const line of text.split("\n").filter((line) => line !== "")) {
    const meta = /^# (HELP|TYPE) ([a-z0-9_]+) (.+)$/.exec(line)
    if (meta !== null) {
      const [, kind, name = "", rest = ""] = meta
      const map = kind === "HELP" ? helps : types
      assert.isFalse(map.has(name), `${name} is described once`)
      map.set(name, rest)
      continue
    }
    const sample = /^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line)
    assert.isNotNull(sample, line)
    const [, name = "", labels = "", value = ""] = sample ?? []
    assert.isFalse(Number.isNaN(Number(value.replace("+Inf", "Infinity"))), line)
    samples.push({ name, labels, value: Number(value) })
  }
  return { samples, types, helps }
}

const read = Effect.gen(function* () {
  const answer = yield* send("/metrics", { key: token })
  assert.strictEqual(answer.status, 200)
  assert.strictEqual(answer.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")
  return parse(String(answer.body["text"]))
})

const valueOf = ({ samples }: { readonly samples: ReadonlyArray<Sample> }, name: string, labels = "") =>
  samples.find((sample) => sample.name === name && sample.labels === labels)?.value

const ask = Effect.fnUntraced(function* (client: ClientCalls) {
  const { session_id } = yield* client.sessions.create({})
  yield* client.sessions.step({
    params: { id: session_id },
    payload: { step_id: StepId.make("1"), tool: "payments.refund", action_class: "write" }
  })
})

/** Metrics of an embedded database, which this service does not have. */
const embeddedOnly = ["countersign_newest_backup_timestamp_seconds", "countersign_store_disk_free_bytes"]

const promtool = findTool("promtool")
if (promtool === undefined)
  process.stdout.write(
    "Prometheus does not check the metrics: promtool is not installed; npm run chart installs it\n"
  )

const environment = {
  COUNTERSIGN_METRICS_TOKEN: token,
  COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8",
  COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0,3600",
  COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "1"
}

layer(service({ environment }), { excludeTestServices: true })("/metrics", (it) => {
  it.effect("/metrics requires the metrics token", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* send("/metrics")).status, 401)
      assert.strictEqual((yield* send("/metrics", { key: "another-token-of-sixteen" })).status, 401)
      const admin = yield* (yield* Countersign).key()
      assert.strictEqual((yield* send("/metrics", { key: admin })).status, 401)
      for (const scheme of ["Bearer", "bearer", "BEARER"]) {
        const headers = { authorization: `${scheme} ${token}` }
        assert.strictEqual((yield* send("/metrics", { headers })).status, 200, scheme)
      }
    })
  )

  it.effect("requests are counted by operation and status, with their duration", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client()
      for (let i = 0; i < 3; i++) yield* admin.sessions.create({})
      assert.strictEqual((yield* send("/v1/agent-sessions", { method: "POST", body: "{}" })).status, 401)
      const metrics = yield* read
      const operation = 'operation="sessions.create"'
      assert.strictEqual(valueOf(metrics, "countersign_http_requests_total", `${operation},status="201"`), 3)
      assert.strictEqual(valueOf(metrics, "countersign_http_requests_total", `${operation},status="401"`), 1)
      const duration = "countersign_http_request_duration_seconds"
      assert.strictEqual(valueOf(metrics, `${duration}_count`, operation), 4)
      const seconds = valueOf(metrics, `${duration}_sum`, operation) ?? 0
      assert.isAbove(seconds, 0)
      assert.isBelow(seconds, 30)
      assert.strictEqual(valueOf(metrics, `${duration}_bucket`, `${operation},le="+Inf"`), 4)
    })
  )

  it.effect("the delivery gauges show the queue, attempts in flight, outcomes and cooldowns", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client()
      const good = yield* startScriptedServer([{ status: 204 }])
      const bad = yield* startScriptedServer([{ status: 503 }])
      const stuck = yield* startScriptedServer(["never"])
      for (const { url } of [good, bad, stuck]) {
        yield* admin.notificationEndpoints.create({ payload: { url } })
      }
      yield* ask(admin)
      const channel = 'channel="webhook"'
      // A reading is cached for 5 s, as long as the attempt without a response is in flight: one that is too early hides it. So the
      // results of both other attempts are recorded first.
      const sql = yield* SqlClient.SqlClient
      yield* eventually(
        sql<{ readonly count: number; readonly retries: number }>`
          SELECT count(*)::int AS count, (count(*) FILTER (WHERE attempt > 0))::int AS retries FROM delivery_queue
        `,
        ([queued]) => queued?.count === 2 && queued.retries === 1
      )
      const metrics = yield* eventually(
        read,
        (found) =>
          valueOf(found, "countersign_delivery_in_flight", channel) === 1 &&
          valueOf(found, "countersign_delivery_queue_depth", channel) === 2
      )
      // Two are left: one in backoff, and one in flight.
      assert.isBelow(valueOf(metrics, "countersign_delivery_oldest_due_seconds", channel) ?? Infinity, 10)
      const attempts = "countersign_delivery_attempts_total"
      assert.strictEqual(valueOf(metrics, attempts, `${channel},outcome="delivered"`), 1)
      assert.strictEqual(valueOf(metrics, attempts, `${channel},outcome="retry"`), 1)
      assert.strictEqual(valueOf(metrics, "countersign_delivery_attempt_duration_seconds_count", channel), 2)
      assert.strictEqual(valueOf(metrics, "countersign_delivery_shards"), 256)
      assert.strictEqual(valueOf(metrics, "countersign_delivery_queue_depth", 'channel="mail"'), 0)
      // As the last sweep found: eventually both.
      yield* eventually(
        read,
        (found) => valueOf(found, "countersign_delivery_cooling_destinations", channel) === 2
      )
    }).pipe(Effect.scoped)
  )

  it.effect("the database gauges show the oldest snapshot and the process's own connections", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* transaction(
        Effect.gen(function* () {
          yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`
          yield* sql`SELECT 1 AS one`
          const metrics = yield* eventually(
            read,
            (found) => (valueOf(found, "countersign_store_oldest_snapshot_seconds") ?? 0) > 1
          )
          assert.isAtLeast(
            valueOf(metrics, "countersign_store_connections", 'state="in_transaction"') ?? 0,
            1
          )
          assert.isAtLeast(valueOf(metrics, "countersign_store_transactions", 'state="open"') ?? 0, 1)
          // Behind a pooler, LISTEN has a connection of its own.
          const listening = inject("pooledUrl") === undefined ? 0 : 1
          assert.strictEqual(valueOf(metrics, "countersign_store_connections_max"), 19 + listening)
        })
      )
      // A worker of the service may have a transaction of its own at the moment of a reading.
      yield* eventually(
        read,
        (found) =>
          (valueOf(found, "countersign_store_oldest_snapshot_seconds") ?? 9) < 1 &&
          valueOf(found, "countersign_store_transactions", 'state="open"') === 0 &&
          valueOf(found, "countersign_store_transactions", 'state="waiting"') === 0
      )
    })
  )

  it.effect("answers and calls of providers are counted by kind and outcome", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client()
      const good = { choices: [{ message: { content: '{"category":"other"}' } }] }
      const model = yield* startScriptedServer([
        { status: 503 },
        { status: 200, body: good },
        { status: 401 }
      ])
      const task = yield* admin.tasks.create({
        payload: { ...sortingTask, provider: { kind: "openai", base_url: model.url, model: "small" } }
      })
      const run = admin.tasks.run({ params: { id: task.id }, payload: { input: { text: "a" } } })
      yield* run
      assert.propertyVal(yield* Effect.flip(run), "reason", "unauthorized")
      const metrics = yield* read
      const count = (name: string, outcome: string) =>
        valueOf(metrics, `countersign_provider_${name}_total`, `provider="openai",outcome="${outcome}"`)
      assert.deepStrictEqual(
        ["answered", "server_error", "unauthorized"].map((outcome) => [
          count("answers", outcome),
          count("calls", outcome)
        ]),
        [
          [1, 1],
          [0, 1],
          [1, 1]
        ]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("the process gauges show memory, CPU and event-loop lag", () =>
    Effect.gen(function* () {
      const loop = (statistic: string) =>
        Effect.map(read, (found) =>
          valueOf(found, "countersign_event_loop_delay_seconds", `statistic="${statistic}"`)
        )
      const stall = Effect.sync(() => {
        const until = performance.now() + 250
        while (performance.now() < until);
      })
      const late = yield* eventually(Effect.andThen(stall, loop("max")), (value) => (value ?? 0) > 0.2)
      assert.isBelow(late ?? Infinity, 5)
      const metrics = yield* read
      assert.isAbove(valueOf(metrics, "process_resident_memory_bytes") ?? 0, 10_000_000)
      assert.isAbove(valueOf(metrics, "process_cpu_seconds_total") ?? 0, 0.1)
      const started = valueOf(metrics, "process_start_time_seconds") ?? 0
      assert.isBelow(Math.abs(started - performance.timeOrigin / 1000), 1)
    })
  )

  it.effect.skipIf(promtool === undefined)("promtool check metrics accepts every metric", () =>
    Effect.gen(function* () {
      const { body } = yield* send("/metrics", { key: token })
      const { status, stderr, stdout } = spawnSync(promtool ?? "", ["check", "metrics"], {
        input: `${String(body["text"])}\n`,
        encoding: "utf8"
      })
      assert.deepStrictEqual([stderr + stdout, status], ["", 0])
    })
  )

  it.effect(
    "every metric has help, a type and a row in docs/metrics.md, and no label identifies a tenant",
    () =>
      Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client()
        const { session_id } = yield* admin.sessions.create({})
        yield* admin.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make("1"), tool: "payments.refund", action_class: "write" }
        })
        yield* admin.sessions.close({ params: { id: session_id } })
        const { helps, samples, types } = yield* read
        const base = (name: string) => name.replace(/_(bucket|sum|count)$/, "")
        const families = new Set(
          samples.map(({ name }) => (types.get(base(name)) === "histogram" ? base(name) : name))
        )
        for (const name of families) {
          assert.isDefined(helps.get(name), name)
          const type = types.get(name)
          assert.strictEqual(name.endsWith("_total"), type === "counter", name)
        }
        const text = JSON.stringify(samples)
        assert.notMatch(text, /(org|key|nep|ndl|ses|apr|evt)_[0-9a-f]{8}/)
        assert.notInclude(text, "127.0.0.1")
        const documented = [
          ...readFileSync(new URL("../../../docs/metrics.md", import.meta.url), "utf8").matchAll(
            /^\| `((?:countersign|process|nodejs)_[a-z0-9_]+)(?:\{[^`]*\})?` +\|/gm
          )
        ].map(([, name]) => name ?? "")
        assert.deepStrictEqual([...families, ...embeddedOnly].toSorted(), documented.toSorted())
      })
  )
})

layer(service({ environment: { ...environment, COUNTERSIGN_NOTIFY_QUEUE_LIMIT: "1" } }), {
  excludeTestServices: true
})("/metrics of a queue that is full", (it) => {
  it.effect("a delivery to a full queue is counted", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client()
      const stuck = yield* startScriptedServer(["never"])
      yield* admin.notificationEndpoints.create({ payload: { url: stuck.url } })
      for (let count = 0; count < 3; count++) yield* ask(admin)
      const full = yield* read
      const labels = (verdict: string) => `channel="webhook",verdict="${verdict}"`
      assert.strictEqual(valueOf(full, "countersign_deliveries_total", labels("queue_full")), 2)
      assert.strictEqual(valueOf(full, "countersign_deliveries_total", labels("failed")), 0)
    }).pipe(Effect.scoped)
  )
})

layer(service({ environment }), { excludeTestServices: true })("/metrics of approvals", (it) => {
  it.effect(
    "approvals are shown as pending, with the age of the oldest, and counted when they are closed",
    () =>
      Effect.gen(function* () {
        const { client } = yield* Countersign
        const sql = yield* SqlClient.SqlClient
        const admin = yield* client()
        const reviewer = yield* client({ preset: "reviewer" })
        yield* Effect.replicateEffect(ask(admin), 3)
        // The gauges are of all organizations.
        yield* Effect.flatMap(client({ preset: "admin" }, "another organization"), ask)
        yield* sql`UPDATE approvals SET requested_at = requested_at - interval '100 seconds'`
        const [first, second] = (yield* admin.approvals.list({ query: { status: "pending" } })).approvals
        const shown = yield* read
        assert.strictEqual(valueOf(shown, "countersign_approvals_pending"), 4)
        const age = valueOf(shown, "countersign_approvals_oldest_pending_seconds") ?? 0
        assert.isTrue(age >= 100 && age < 200, String(age))
        yield* reviewer.approvals.decide({
          params: { id: first?.approval_id ?? assert.fail() },
          payload: { decision: "approve" }
        })
        yield* admin.sessions.close({ params: { id: second?.session_id ?? assert.fail() } })
        yield* sql`UPDATE approvals SET next_due_at = now(), expires_at = now(), review_deadline_at = now() WHERE next_due_at IS NOT NULL`
        const metrics = yield* eventually(
          read,
          (found) =>
            valueOf(found, "countersign_approvals_closed_total", 'outcome="reject",source="timeout"') === 2
        )
        const closed = (outcome: string, source: string) =>
          valueOf(metrics, "countersign_approvals_closed_total", `outcome="${outcome}",source="${source}"`)
        assert.deepStrictEqual(
          [closed("allow", "human"), closed("reject", "human"), closed("reject", "session_closed")],
          [1, 0, 1]
        )
        const wait = (name: string, source: string) =>
          valueOf(metrics, `countersign_approval_wait_seconds_${name}`, `source="${source}"`) ?? 0
        assert.deepStrictEqual([wait("count", "human"), wait("count", "timeout")], [1, 2])
        const seconds = wait("sum", "session_closed")
        assert.isTrue(seconds >= 100 && seconds < 200, String(seconds))
      })
  )
})

const twoAttempts = { COUNTERSIGN_NOTIFY_RETRY_SECONDS: "0,0", COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: "100" }

layer(service({ environment: { ...environment, ...twoAttempts } }), { excludeTestServices: true })(
  "/metrics of a receiver that is dead for good",
  (it) => {
    it.effect("its deliveries are counted as failed, and so is the last attempt of each", () =>
      Effect.gen(function* () {
        const admin = yield* (yield* Countersign).client()
        const dead = yield* startScriptedServer([{ status: 503 }, { status: 503 }, { status: 410 }])
        yield* admin.notificationEndpoints.create({ payload: { url: dead.url } })
        yield* ask(admin)
        const labels = (name: string, value: string) => `channel="webhook",${name}="${value}"`
        const failed = yield* eventually(
          read,
          (found) => valueOf(found, "countersign_deliveries_total", labels("verdict", "failed")) === 1
        )
        const attempts = (outcome: string) =>
          valueOf(failed, "countersign_delivery_attempts_total", labels("outcome", outcome))
        assert.deepStrictEqual([attempts("retry"), attempts("failed")], [1, 1])
        yield* ask(admin)
        yield* eventually(
          read,
          (found) => valueOf(found, "countersign_deliveries_total", labels("verdict", "gone")) === 1
        )
      }).pipe(Effect.scoped)
    )
  }
)

describe("a collector of what tables have to be read for", () => {
  it.effect("runs once in its time, and again at the next collection if it failed", () =>
    Effect.gen(function* () {
      let runs = 0
      let fails = false
      const collect = yield* collectAtMostEvery(
        "1 minute",
        Effect.suspend(() => {
          runs++
          return fails ? Effect.fail("away") : Effect.void
        })
      )
      yield* collect
      yield* collect
      assert.strictEqual(runs, 1)
      yield* TestClock.adjust("1 minute")
      fails = true
      for (let count = 0; count < 2; count++) assert.strictEqual(yield* Effect.flip(collect), "away")
      assert.strictEqual(runs, 3)
      fails = false
      yield* collect
      yield* collect
      assert.strictEqual(runs, 4)
    })
  )
})

describe("Metrics", () => {
  it.effect("a collector that fails does not keep the later ones from their gauges", () =>
    Effect.gen(function* () {
      const collected: Array<string> = []
      const collector = (name: string, outcome: Effect.Effect<void, string>) =>
        Effect.andThen(
          Effect.sync(() => void collected.push(name)),
          outcome
        )
      const metrics = Metrics.layer(
        Effect.succeed([
          collector("fails", Effect.fail("away")),
          collector("dies", Effect.die("broken")),
          collector("succeeds", Effect.void)
        ])
      )
      const text = yield* Effect.flatMap(Metrics, (service) => service.text).pipe(
        Effect.provide(Layer.provide(metrics, layerRegistry))
      )
      assert.deepStrictEqual(collected, ["fails", "dies", "succeeds"])
      assert.strictEqual(valueOf(parse(text), "countersign_metrics_failures_total"), 1)
    })
  )

  it.effect("a collector that is too slow leaves time to the others", () =>
    Effect.gen(function* () {
      const slow = yield* Deferred.make<void>()
      const isCollected = yield* Deferred.make<void>()
      const metrics = Metrics.layer(
        Effect.succeed([
          Effect.andThen(Deferred.succeed(slow, undefined), Effect.never),
          Effect.asVoid(Deferred.succeed(isCollected, undefined))
        ])
      )
      const collecting = yield* Effect.flatMap(Metrics, (service) => service.collect).pipe(
        Effect.provide(Layer.provide(metrics, layerRegistry)),
        Effect.forkChild
      )
      yield* Deferred.await(slow)
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(collecting)
      assert.isTrue(yield* Deferred.isDone(isCollected))
    })
  )
})
