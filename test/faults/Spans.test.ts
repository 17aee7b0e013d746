import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, type Scope } from "effect"
import { randomBytes } from "node:crypto"
import { connect, type CountersignClient } from "../../src/client/index.ts"
import { eventually } from "../support/eventually.ts"
import { accepted, startCollector, type CollectorResponse } from "../support/otlp/collector.ts"
import { cloneDatabase } from "../support/postgres.ts"
import { type CliProcess, spawnCli } from "../support/process.ts"
import { sortingTask } from "../support/tasks.ts"

/** A process of the service, and an admin's client of it. */
interface Replica {
  readonly process: CliProcess
  readonly url: string
  readonly client: CountersignClient
}

/** A database, a collector, and any number of replicas that share them. */
const startDeployment = Effect.fnUntraced(function* (
  answer: CollectorResponse,
  variables: Readonly<Record<string, string>>
) {
  const peer = yield* startCollector(answer)
  const shared = {
    PORT: "0",
    DATABASE_URL: Redacted.value(yield* cloneDatabase),
    COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
    COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1/32",
    COUNTERSIGN_EGRESS_HTTP: "true",
    ...variables
  }
  let key = ""
  const replica = (more: Readonly<Record<string, string>> = {}): Effect.Effect<Replica, never, Scope.Scope> =>
    Effect.gen(function* () {
      const process = yield* spawnCli(["serve"], { ...shared, ...more })
      const out = yield* process.waitForStdout(/requests +.+\n(?:\n {2}First admin key.*\n\n {4}csk_\w+\n)?/)
      const url = /address +(http:\S+)/.exec(out)?.[1] ?? assert.fail(out)
      key = /csk_\w+/.exec(out)?.[0] ?? key
      const client = yield* Effect.acquireRelease(
        Effect.sync(() => connect({ url, key })),
        (made) => Effect.promise(() => made.close())
      )
      return { process, url, client }
    })
  const first = yield* replica()
  yield* Effect.promise(() => first.client.telemetryDestinations.create({ payload: { url: peer.url } }))
  const { id } = yield* Effect.promise(() => first.client.tasks.create({ payload: sortingTask }))
  return {
    peer,
    first,
    replica,
    /** Makes runs of one span each; returns their traces. */
    runs: ({ client }: Replica, count: number) =>
      Effect.promise(() =>
        Promise.all(
          Array.from({ length: count }, async () => {
            const run = await client.tasks.run({
              params: { id: id },
              payload: { input: { text: "a" }, answer: { category: "other" } }
            })
            return run.trace_id
          })
        )
      )
  }
})

const counts = ({ client }: Replica) =>
  Effect.map(
    Effect.promise(() => client.telemetryDestinations.list()),
    ({ destinations: [one] }) => [one?.pending_spans ?? 0, one?.dropped_spans ?? 0] as const
  )

const listBatches = ({ client }: Replica) =>
  Effect.promise(async () => {
    const { destinations } = await client.telemetryDestinations.list()
    const [one] = destinations
    if (one === undefined) return assert.fail("a destination")
    return (await client.telemetryDestinations.listDeliveries({ params: { id: one.id } })).deliveries
  })

/** Waits until the database counts these spans, as seen by a replica that recorded none of them. */
const awaitStored = (other: Replica, spans: number) =>
  eventually(counts(other), ([pending]) => pending === spans)

const timeout = 120_000

describe("Spans of several replicas", () => {
  it.live(
    "every replica reports the same counts of pending and dropped spans",
    () =>
      Effect.gen(function* () {
        const { first, replica, runs } = yield* startDeployment("never", {
          COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "1",
          COUNTERSIGN_TELEMETRY_QUEUE_LIMIT: "20"
        })
        const second = yield* replica()
        yield* runs(first, 9)
        yield* runs(second, 8)
        yield* awaitStored(first, 17)
        yield* awaitStored(second, 17)
        // Three more spans fit, on either replica; each replica drops its excess.
        yield* Effect.all([runs(first, 10), runs(second, 10)], { concurrency: 2 })
        const all = ([pending, dropped]: readonly [number, number]) =>
          pending + dropped === 37 && pending <= 20
        const one = yield* eventually(counts(first), all)
        const other = yield* eventually(counts(second), all)
        assert.deepStrictEqual(one, other)
        assert.isAtLeast(one[0], 17)
      }),
    timeout
  )

  it.live(
    "a killed replica loses only its unflushed spans; another replica sends the flushed ones",
    () =>
      Effect.gen(function* () {
        const { first, peer, replica, runs } = yield* startDeployment("never", {
          COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "1"
        })
        const flushed = yield* runs(first, 5)
        yield* eventually(listBatches(first), (list) => list.length > 0)
        const second = yield* replica()
        yield* awaitStored(second, 5)
        yield* runs(first, 3)
        yield* first.process.kill("SIGKILL")
        yield* first.process.ended
        peer.answer(accepted)
        // Spans in flight when the replica died are sent again by the next owner of the shard.
        yield* eventually(listBatches(second), (list) =>
          list.every(({ status }) => status === "delivered")
        ).pipe(Effect.retry({ times: 3 }))
        const arrived = new Set<string>(peer.spans().map(({ traceId }) => traceId))
        assert.isTrue(flushed.every((trace_id) => arrived.has(trace_id)))
        assert.deepStrictEqual(peer.faults, [])
        // Unflushed spans died with their replica: they are not counts as pending.
        assert.deepStrictEqual(yield* counts(second), [0, 0])
      }),
    timeout
  )

  it.live(
    "a stopping replica stores its spans, and the next one sends them",
    () =>
      Effect.gen(function* () {
        const { first, peer, replica, runs } = yield* startDeployment("never", {
          COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: "300"
        })
        const recorded = yield* runs(first, 7)
        yield* first.process.kill("SIGTERM")
        const { code } = yield* first.process.ended
        assert.strictEqual(code, 0)
        peer.answer(accepted)
        const second = yield* replica()
        yield* eventually(counts(second), ([pending]) => pending === 0)
        const arrived = new Set<string>(peer.spans().map(({ traceId }) => traceId))
        assert.isTrue(recorded.every((trace_id) => arrived.has(trace_id)))
        assert.deepStrictEqual(yield* counts(second), [0, 0])
      }),
    timeout
  )
})
