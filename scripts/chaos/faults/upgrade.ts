/**
 * A rolling upgrade from the previous release to this one, and back, under load: a new replica is started before an old one is taken out
 * of service and stopped, as a deployment does. The first new one migrates the database while old ones serve, and on the way back old
 * ones serve a newer schema.
 */
import { Context, Effect, Exit, Layer, Redacted, Scope } from "effect"
import { SqlClient } from "effect/sql"
import path from "node:path"
import * as Database from "../../../src/server/store/Database.ts"
import { latestMigration } from "../../../src/server/store/Database/schemaVersion.ts"
import { EmbeddedPostgres } from "../../../src/server/store/EmbeddedPostgres.ts"
import { persistently } from "../persistently.ts"
import { startTaskLoad } from "./taskLoad.ts"
import { prepareOrganization, startLoad } from "./load.ts"
import { previousRelease } from "./previousRelease.ts"
import { startWebhookReceiver } from "./receiver.ts"
import { makeReport } from "./report.ts"
import type { FaultRunOptions, Round } from "./rounds.ts"
import { serviceEnvironment, type ServiceUnderTest, startService, untilReady } from "./service.ts"
import { startFollowers } from "./streamFollowers.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

/** How long the load runs between two replacements, in milliseconds. */
const SETTLE_MILLIS = 2_000

/** How many replicas serve. */
const REPLICAS = 2

interface Replica extends ServiceUnderTest {
  readonly release: "previous" | "this"
  readonly scope: Scope.Closeable
}

/** Upgrades and goes back as often as there are rounds, alternately. Undefined: the previous release is unavailable. */
export const runUpgrade = Effect.fnUntraced(function* (options: FaultRunOptions) {
  const previous = yield* previousRelease
  if ("unavailable" in previous) {
    options.progress(`upgrade: ${previous.unavailable}`)
    return undefined
  }
  const directory = yield* temporaryDirectory
  const store = yield* Layer.build(EmbeddedPostgres.layer({ dataDir: path.join(directory, "data") }))
  const { url } = Context.get(store, EmbeddedPostgres)
  const environment = { ...serviceEnvironment(), DATABASE_URL: Redacted.value(url) }
  const replicas: Array<Replica> = []
  const broken: Array<string> = []

  /** Starts a replica. It gets requests from when it is ready. */
  const add = Effect.fnUntraced(function* (release: Replica["release"]) {
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const service = yield* Scope.provide(
      startService(environment, release === "this" ? undefined : previous.program),
      scope
    )
    if ((yield* untilReady(service)) === undefined)
      broken.push(`a replica of ${release} release did not become ready`)
    const replica: Replica = { ...service, release, scope }
    replicas.push(replica)
    return replica
  })

  /** Takes a replica out of service, then stops it, as a load balancer and a supervisor do. */
  const remove = Effect.fnUntraced(function* (replica: Replica) {
    replicas.splice(replicas.indexOf(replica), 1)
    yield* replica.process.kill("SIGTERM")
    const { code, err } = yield* replica.process.ended
    if (code !== 0)
      broken.push(`a replica of ${replica.release} release exited with ${code}: ${err.slice(-300)}`)
    const unhandled = /.*(?:Unhandled error|uncaught error).*/.exec(err)?.[0]
    if (unhandled !== undefined) broken.push(`${replica.release} release: ${unhandled.slice(0, 500)}`)
  })

  const [first] = [yield* add("previous"), yield* add("previous")]
  if (first?.firstKey === undefined) return yield* Effect.die(new Error("The service printed no key"))
  const database = yield* Layer.build(Database.layer({ url }))
  const sql = Context.get(database, SqlClient.SqlClient)
  const schema = Effect.map(
    persistently(sql<{ readonly id: number }>`SELECT max(migration_id)::int AS id FROM schema_migrations`),
    ([row]) => row?.id ?? 0
  )
  if ((yield* schema) !== previous.schemaVersion)
    broken.push(`the previous release has schema ${yield* schema}`)
  const receiver = yield* startWebhookReceiver
  const keys = yield* prepareOrganization(first.url, first.firstKey, receiver.url)
  const urls = () => replicas.map((replica) => replica.url)
  const load = yield* startLoad(urls, keys)
  const tasks = yield* startTaskLoad(urls, first.firstKey, keys)
  const followers = yield* startFollowers(urls, keys.agent, load.acknowledged.sessions)

  const rounds: Array<Round> = []
  for (let round = 0; round < options.rounds; round++) {
    const release = round % 2 === 0 ? "this" : "previous"
    const began = performance.now()
    const refused = load.replies.Refused + load.replies.Unreachable
    for (let number = 0; number < REPLICAS; number++) {
      yield* Effect.sleep(SETTLE_MILLIS * (0.5 + options.random()))
      const [oldest] = replicas
      yield* add(release)
      // Both releases serve for a while.
      yield* Effect.sleep(SETTLE_MILLIS)
      if (oldest !== undefined) yield* remove(oldest)
    }
    yield* Effect.sleep(SETTLE_MILLIS)
    if ((yield* schema) !== Math.max(previous.schemaVersion, latestMigration))
      broken.push(`round ${round}: the schema is ${yield* schema}`)
    const result: Round = {
      fault: `${release} release`,
      recovery: Math.round(performance.now() - began),
      // There is always a replica that accepts writes.
      firstWrite: 0,
      outage: 0,
      refused: load.replies.Refused + load.replies.Unreachable - refused
    }
    rounds.push(result)
    options.progress(`replaced by ${release} release: ${result.refused} calls refused, ${result.recovery} ms`)
  }
  yield* load.stop
  const lostOfTasks = yield* tasks.stop(sql)
  const missedByFollowers = yield* followers.stop
  const wrong = [...load.wrong, ...tasks.wrong]
  if (wrong.length > 0)
    broken.push(`${wrong.length} wrong responses, such as ${[...new Set(wrong)].slice(0, 5).join("; ")}`)
  const unreachable = load.replies.Unreachable + tasks.replies.Unreachable
  if (unreachable > 0) broken.push(`${unreachable} calls got no response`)
  return yield* makeReport({
    url,
    load,
    receiver,
    rounds,
    broken: [...broken, ...lostOfTasks, ...missedByFollowers]
  })
}, Effect.orDie)
