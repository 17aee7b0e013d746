import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Exit, Context, Duration, Effect, Fiber, Layer, Redacted, Ref } from "effect"
import { spawnSync } from "node:child_process"
import { brokenGuarantees, faultsFor } from "../../scripts/chaos/plan.ts"
import { chaos } from "../../scripts/chaos/run.ts"
import { StepId } from "../../src/domain/Ids.ts"
import { generateMasterKey } from "../../src/server/secrets/SecretBox.ts"
import * as Database from "../../src/server/store/Database.ts"
import { layerMigrated, migrate } from "../../src/server/store/migrate.ts"
import { Countersign } from "../../src/testing/index.ts"
import { seededRandom } from "../support/breakingProxy.ts"
import { useEveryOperation } from "../support/databaseContract.ts"
import { layerWebhookDependencies } from "../support/delivery.ts"
import { eventually } from "../support/eventually.ts"
import { databaseName, withDatabase } from "../support/postgres.ts"
import { answers, releaseAnother, reviewedTeam, scriptedModel } from "../support/reviewedTeam.ts"
import { seedEnvironment } from "../support/seedOneOfEach/seedOneOfEach.ts"

const clusterUrl = process.env["COUNTERSIGN_TEST_CITUS_URL"]
if (clusterUrl === undefined)
  process.stderr.write("Citus is skipped: COUNTERSIGN_TEST_CITUS_URL names no cluster\n")

/** Shell commands that stop and start one worker. */
const stopWorker = process.env["COUNTERSIGN_TEST_CITUS_STOP"]
const startWorker = process.env["COUNTERSIGN_TEST_CITUS_START"]

/** Whether PostgreSQL's programs for dumps are missing. */
const dumpMissing = spawnSync("pg_dump", ["--version"]).status !== 0
if (clusterUrl !== undefined && dumpMissing)
  process.stderr.write("dumps are skipped: pg_dump is not installed\n")

/** Rounds of the load while the cluster changes, each with three sessions, whose steps people decide. */
const ROUNDS = 20

const nodeUrl = (host: string, port: number): Redacted.Redacted => {
  const url = new URL(clusterUrl ?? "")
  url.hostname = host
  url.port = String(port)
  return Redacted.make(url.href)
}

interface Node {
  readonly host: string
  readonly port: number
  readonly isCoordinator: boolean
}

/** A new database on every node of the cluster, without tables; it is dropped at the end. `without`: workers that are not added to it. */
const newDatabase = Effect.fnUntraced(function* ({ without = 0 } = {}) {
  const given = yield* PgConnection.make({ url: Redacted.make(clusterUrl ?? "") })
  const { rows } = yield* given.query(
    'SELECT nodename AS host, nodeport::int AS port, groupid = 0 AS "isCoordinator" FROM pg_dist_node ORDER BY groupid'
  )
  const nodes = rows.map((row): Node => ({
    host: String(row["host"]),
    port: Number(row["port"]),
    isCoordinator: row["isCoordinator"] === true
  }))
  const name = yield* databaseName
  for (const { host, port } of nodes) {
    const administrator = yield* PgConnection.make({ url: nodeUrl(host, port) })
    yield* administrator.query(`CREATE DATABASE "${name}"`)
    yield* Effect.addFinalizer(() =>
      Effect.ignore(administrator.query(`DROP DATABASE "${name}" WITH (FORCE)`))
    )
    const inside = yield* PgConnection.make({ url: withDatabase(nodeUrl(host, port), name) })
    yield* inside.query("CREATE EXTENSION citus")
  }
  const coordinator = nodes.find(({ isCoordinator }) => isCoordinator) ?? assert.fail("no coordinator")
  const workers = nodes.filter(({ isCoordinator }) => !isCoordinator)
  const url = withDatabase(nodeUrl(coordinator.host, coordinator.port), name)
  const administrator = yield* PgConnection.make({ url })
  yield* administrator.query("SELECT citus_set_coordinator_host($1, $2)", [
    coordinator.host,
    coordinator.port
  ])
  const addWorker = ({ host, port }: Node) =>
    administrator.query("SELECT citus_add_node($1, $2)", [host, port])
  const added = workers.slice(0, workers.length - without)
  for (const worker of added) yield* addWorker(worker)
  return {
    url,
    workers: added,
    spare: workers.slice(added.length),
    administrator,
    addWorker,
    inDatabase: (node: Node) => withDatabase(nodeUrl(node.host, node.port), name)
  }
})

/** Two replicas with one database and one master key. */
const startReplicas = (databaseUrl: Redacted.Redacted) =>
  Effect.gen(function* () {
    const masterKey = Redacted.value(yield* generateMasterKey)
    const layer = Layer.fresh(
      Countersign.layer({
        databaseUrl,
        environment: { ...seedEnvironment, COUNTERSIGN_MASTER_KEY: masterKey }
      })
    )
    return [
      Context.get(yield* Layer.build(layer), Countersign),
      Context.get(yield* Layer.build(Layer.fresh(layer)), Countersign)
    ] as const
  })

/** The shard of an organization's sessions, which all its rows move with, and its node. */
const placementOf = (administrator: PgConnection.PgConnection, organization: string) =>
  Effect.map(
    administrator.query(
      `SELECT shardid::text AS shard, nodename AS host, nodeport::int AS port
       FROM citus_shards
       WHERE table_name = 'agent_sessions'::regclass
         AND shardid = get_shard_id_for_distribution_column(
           'agent_sessions', (SELECT org_id FROM organizations WHERE name = $1)
         )`,
      [organization]
    ),
    ({ rows: [row] }) => ({
      shard: String(row?.["shard"]),
      host: String(row?.["host"]),
      port: Number(row?.["port"])
    })
  )

const refund = {
  step_id: StepId.make("one"),
  tool: "refund",
  action_class: "write",
  arguments: { amount: 1 }
} as const

/**
 * Agents submit steps that two people of two replicas decide against each other, while the cluster does something. Checks that each step got one
 * decision and its webhook. `during` gets an effect that prints the longest request until then.
 */
const decideDuring = Effect.fnUntraced(function* <A, E, R>(
  administrator: PgConnection.PgConnection,
  [first, second]: Effect.Success<ReturnType<typeof startReplicas>>,
  organizations: ReadonlyArray<string>,
  during: (report: Effect.Effect<void>) => Effect.Effect<A, E, R>
) {
  const longest = yield* Ref.make(0)
  // A request that waits too long for the cluster gets 503, which a client sends again.
  const timed = <B, F extends { readonly _tag: string }, S>(effect: Effect.Effect<B, F, S>) =>
    Effect.retry(effect, { while: ({ _tag }) => _tag === "Unavailable" }).pipe(
      Effect.timed,
      Effect.flatMap(([duration, value]) =>
        Effect.as(
          Ref.update(longest, (millis) => Math.max(millis, Duration.toMillis(duration))),
          value
        )
      )
    )
  const teams = yield* Effect.forEach(organizations, (organization) =>
    Effect.gen(function* () {
      const receiver = yield* first.receiver(undefined, organization)
      const agent = yield* first.client({ preset: "runtime" }, organization)
      const reviewers = [
        yield* first.client({ preset: "reviewer" }, organization),
        yield* second.clientWith(yield* first.key({ preset: "reviewer" }, organization))
      ]
      const decideOne = Effect.gen(function* () {
        const { session_id } = yield* timed(agent.sessions.create({ payload: {} }))
        const step = yield* timed(agent.sessions.step({ params: { id: session_id }, payload: refund }))
        const id = step.approval_id ?? assert.fail("no approval")
        const decided = yield* Effect.forEach(
          reviewers,
          (reviewer, index) =>
            Effect.exit(
              timed(
                reviewer.approvals.decide({
                  params: { id },
                  payload: { decision: index === 0 ? "approve" : "reject" }
                })
              )
            ),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(
          decided.filter(({ _tag }) => _tag === "Success").length,
          1,
          decided.map((exit) => (Exit.isSuccess(exit) ? "decided" : Cause.pretty(exit.cause))).join("\n")
        )
      })
      return { receiver, decideOne }
    })
  )
  const changing = yield* Effect.forkChild(
    during(
      Effect.flatMap(Ref.get(longest), (millis) =>
        Effect.sync(() => process.stdout.write(`longest request meanwhile: ${Math.round(millis)} ms\n`))
      )
    )
  )
  // At least so many, and until the cluster has done it.
  let count = 0
  while (count < ROUNDS || changing.pollUnsafe() === undefined) {
    const team = teams[count++ % teams.length] ?? assert.fail("no team")
    yield* Effect.all([team.decideOne, team.decideOne, team.decideOne], { concurrency: "unbounded" })
  }
  yield* Fiber.join(changing)
  const { rows } = yield* administrator.query(
    `SELECT
       count(*)::int AS sessions,
       count(*) FILTER (WHERE a.status IN ('approved', 'rejected'))::int AS decided
     FROM agent_sessions s
       LEFT JOIN approvals a ON a.org_id = s.org_id AND a.session_id = s.session_id`
  )
  assert.deepStrictEqual(rows, [{ sessions: 3 * count, decided: 3 * count }])
  const isDecision = ({ type }: { readonly type: string }) => /^approval\.(?:approved|rejected)$/.test(type)
  yield* eventually(
    Effect.sync(
      () =>
        new Set(teams.flatMap(({ receiver }) => receiver.events.filter(isDecision).map(({ id }) => id))).size
    ),
    (received) => received === 3 * count
  )
})

describe.skipIf(clusterUrl === undefined)("On a Citus cluster", () => {
  it.live(
    "the service migrates and serves every operation",
    () =>
      Effect.gen(function* () {
        const { url } = yield* newDatabase()
        yield* useEveryOperation.pipe(
          Effect.provide(Countersign.layer({ databaseUrl: url, environment: seedEnvironment }), {
            local: true
          })
        )
      }).pipe(Effect.scoped),
    300_000
  )

  it.live(
    "a worker's address is refused",
    () =>
      Effect.gen(function* () {
        const { inDatabase, url, workers } = yield* newDatabase()
        yield* migrate.pipe(Effect.provide(Database.layer({ url, maxConnections: 1 })))
        for (const worker of workers) {
          const refusal = yield* Effect.flip(
            migrate.pipe(Effect.provide(Database.layer({ url: inDatabase(worker), maxConnections: 1 })))
          )
          assert.match(refusal.message, /leads to a worker of a Citus cluster/)
        }
      }).pipe(Effect.scoped),
    120_000
  )

  it.live(
    "of two replicas each step gets one decision and its webhooks, while its organization moves to another node and back",
    () =>
      Effect.gen(function* () {
        const { administrator, url, workers } = yield* newDatabase()
        const replicas = yield* startReplicas(url)
        yield* decideDuring(administrator, replicas, ["moving"], (report) =>
          Effect.gen(function* () {
            const from = yield* placementOf(administrator, "moving")
            const to =
              workers.find(({ port }) => port !== from.port) ?? assert.fail("the cluster has one worker")
            const move = (a: { host: string; port: number }, b: { host: string; port: number }) =>
              administrator.query(
                "SELECT citus_move_shard_placement($1::bigint, $2, $3::int, $4, $5::int, 'auto')",
                [from.shard, a.host, a.port, b.host, b.port]
              )
            yield* move(from, to)
            assert.strictEqual((yield* placementOf(administrator, "moving")).port, to.port)
            yield* move(to, from)
            yield* report
          })
        )
      }).pipe(Effect.scoped),
    300_000
  )

  it.live(
    "of two replicas each step gets one decision and its webhooks, while a worker is added and takes over its share of them",
    () =>
      Effect.gen(function* () {
        const { addWorker, administrator, spare, url } = yield* newDatabase({ without: 1 })
        const replicas = yield* startReplicas(url)
        const organizations = Array.from({ length: 8 }, (_, index) => `organization ${index}`)
        yield* decideDuring(administrator, replicas, organizations, (report) =>
          Effect.gen(function* () {
            for (const worker of spare) yield* addWorker(worker)
            yield* administrator.query("SELECT citus_rebalance_start()")
            yield* administrator.query("SELECT citus_rebalance_wait()")
            yield* report
          })
        )
        const { rows } = yield* administrator.query(
          `SELECT count(*)::int AS shards
           FROM citus_shards
           WHERE table_name = 'agent_sessions'::regclass
           GROUP BY nodename, nodeport`
        )
        // About half: Citus balances the size on disk.
        const counts = rows.map(({ shards }) => Number(shards))
        assert.isAbove(counts.length, 1)
        assert.isAbove(Math.min(...counts), Math.max(...counts) / 2)
      }).pipe(Effect.scoped),
    600_000
  )

  it.live(
    "killed, frozen, stopped and disconnected replicas lose no event, and repeat only requests in flight",
    () =>
      Effect.gen(function* () {
        const { url } = yield* newDatabase()
        const store = Layer.orDie(layerMigrated.pipe(Layer.provideMerge(Database.layer({ url }))))
        const report = yield* chaos({
          url,
          restartDatabase: Effect.void,
          replicas: 3,
          faults: faultsFor(10).filter((fault) => fault !== "restart the database"),
          eventsPerFault: 60,
          random: seededRandom(7)
        }).pipe(Effect.provide(Layer.merge(store, layerWebhookDependencies), { local: true }))
        assert.deepStrictEqual(brokenGuarantees(report), [])
        process.stdout.write(`chaos: ${JSON.stringify(report)}\n`)
      }).pipe(Effect.scoped),
    600_000
  )

  it.live.skipIf(dumpMissing)(
    "a dump of the coordinator is restored into another cluster, whose first start distributes it",
    () =>
      Effect.gen(function* () {
        const masterKey = Redacted.value(yield* generateMasterKey)
        const serve = (databaseUrl: Redacted.Redacted) =>
          Effect.provide(
            Countersign.layer({
              databaseUrl,
              environment: { ...seedEnvironment, COUNTERSIGN_MASTER_KEY: masterKey }
            }),
            { local: true }
          )
        const from = yield* newDatabase()
        const to = yield* newDatabase()
        const { secret, session_id } = yield* Effect.gen(function* () {
          const { clientWith, key } = yield* Countersign
          const secret = yield* key({ preset: "runtime" }, "dumped")
          const agent = yield* clientWith(secret)
          const { session_id } = yield* agent.sessions.create({ payload: {} })
          yield* agent.sessions.step({ params: { id: session_id }, payload: refund })
          return { secret, session_id }
        }).pipe(serve(from.url))
        const dumped = spawnSync(
          `pg_dump --format=custom '${Redacted.value(from.url)}' |
             pg_restore --no-owner --exit-on-error --schema=public --dbname='${Redacted.value(to.url)}'`,
          { shell: true, encoding: "utf8" }
        )
        assert.strictEqual(dumped.stderr, "")
        yield* Effect.gen(function* () {
          const agent = yield* Effect.flatMap(Countersign, ({ clientWith }) => clientWith(secret))
          const { decision } = yield* agent.sessions.step({ params: { id: session_id }, payload: refund })
          assert.strictEqual(decision, "pending")
        }).pipe(serve(to.url))
        const counts = (administrator: PgConnection.PgConnection) =>
          Effect.gen(function* () {
            const { rows } = yield* administrator.query(
              "SELECT logicalrelid::text AS name FROM pg_dist_partition WHERE partmethod <> 'n' ORDER BY 1"
            )
            return yield* Effect.forEach(rows, ({ name }) =>
              Effect.map(
                administrator.query(`SELECT count(*)::int AS count FROM ${String(name)}`),
                (found) => [name, found.rows[0]?.["count"]] as const
              )
            )
          })
        const restored = yield* counts(to.administrator)
        assert.includeDeepMembers(restored, [
          ["agent_sessions", 1],
          ["approvals", 1]
        ])
        // No row stays behind on the coordinator.
        const { rows } = yield* to.administrator.query("SELECT pg_relation_size('approvals')::int AS size")
        assert.deepStrictEqual(rows, [{ size: 0 }])
        assert.deepStrictEqual(
          restored.map(([name]) => name),
          (yield* counts(from.administrator)).map(([name]) => name)
        )
      }).pipe(Effect.scoped),
    300_000
  )

  it.live(
    "reviewers of organizations on different workers decide steps, and the loss of one's right does not concern the other",
    () =>
      Effect.gen(function* () {
        const { administrator, url } = yield* newDatabase()
        const model = scriptedModel()
        yield* Effect.gen(function* () {
          yield* model.answer(() => answers("approve"))
          const byWorker = new Map<number, Effect.Success<ReturnType<typeof reviewedTeam>>>()
          for (let number = 0; byWorker.size < 2 && number < 20; number++) {
            const name = `reviewed ${number}`
            yield* (yield* Countersign).key({ preset: "admin" }, name)
            const { port } = yield* placementOf(administrator, name)
            if (!byWorker.has(port)) byWorker.set(port, yield* reviewedTeam(name))
          }
          const [one, other] = [...byWorker.values()]
          if (one === undefined || other === undefined) return assert.fail("the cluster has one worker")
          for (const team of [one, other]) {
            const { decision, decision_source } = yield* team.submit()
            assert.deepStrictEqual(
              { decision, decision_source },
              { decision: "allow", decision_source: "model" }
            )
          }
          yield* releaseAnother(one)
          const { reviewer } = yield* one.admin.reviewers.get({ params: { task_id: one.task_id }, query: {} })
          assert.strictEqual(reviewer.state, "stopped")
          assert.strictEqual((yield* one.submit()).decision, "pending")
          assert.strictEqual((yield* other.submit()).decision_source, "model")
        }).pipe(
          Effect.provide(
            Countersign.layer({ databaseUrl: url, environment: seedEnvironment, replace: model.layer }),
            { local: true }
          )
        )
      }).pipe(Effect.scoped, Effect.orDie),
    300_000
  )

  it.live.skipIf(stopWorker === undefined || startWorker === undefined)(
    "while a worker is stopped, its organizations get 503 and others go on, and all go on when it is back",
    () =>
      Effect.gen(function* () {
        const { administrator, url } = yield* newDatabase()
        const [first] = yield* startReplicas(url)
        const names = Array.from({ length: 8 }, (_, index) => `organization ${index}`)
        const agents = new Map(
          yield* Effect.forEach(names, (name) =>
            Effect.map(first.client({ preset: "runtime" }, name), (client) => [name, client] as const)
          )
        )
        const places = new Map(
          yield* Effect.forEach(names, (name) =>
            Effect.map(placementOf(administrator, name), ({ port }) => [name, port] as const)
          )
        )
        const works = (name: string) =>
          Effect.map(
            Effect.exit((agents.get(name) ?? assert.fail(name)).sessions.create({ payload: {} })),
            ({ _tag }) => _tag === "Success"
          )
        spawnSync(stopWorker ?? "", { shell: true, stdio: "ignore" })
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => spawnSync(startWorker ?? "", { shell: true, stdio: "ignore" }))
        )
        const during = yield* Effect.forEach(names, (name) =>
          Effect.map(works(name), (isUp) => ({ isUp, port: places.get(name) }))
        )
        const stopped = new Set(during.filter(({ isUp }) => !isUp).map(({ port }) => port))
        assert.strictEqual(stopped.size, 1, JSON.stringify(during))
        assert.isTrue(during.some(({ isUp }) => isUp))
        assert.isTrue(
          during.every(({ isUp, port }) => isUp !== stopped.has(port)),
          JSON.stringify(during)
        )
        spawnSync(startWorker ?? "", { shell: true, stdio: "ignore" })
        for (const name of names) yield* eventually(works(name), (isUp) => isUp)
      }).pipe(Effect.scoped),
    300_000
  )
})
