/**
 * Replicas that deliver webhooks share one PostgreSQL and suffer faults: killed during attempts, frozen past their
 * lease, stopped, disconnected from the database, and the database itself restarted under load. At the end the
 * receiver's log is compared with the database.
 */
import { Array as Arr, Effect, Fiber, type Redacted, Ref, Schedule, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { publishWebhookEvents, insertEndpoint, withoutEngine } from "../../test/support/delivery.ts"
import { type DeliveryReplica, makeReplicaStarter } from "./replicas.ts"
import { makeReconciliation, type Totals } from "./reconciliation.ts"
import { persistently } from "./persistently.ts"
import { startReceiver } from "./receiver.ts"

/** The faults; each round publishes its events and then causes one. */
export type Fault = "kill" | "freeze" | "stop" | "break connections" | "restart the database"

/** Extent of a run. */
export interface ChaosOptions {
  readonly url: Redacted.Redacted
  /** Restarts the database server; completes when the restart was requested. */
  readonly restartDatabase: Effect.Effect<void>
  readonly replicas: number
  readonly faults: ReadonlyArray<Fault>
  readonly eventsPerFault: number
  /** In [0, 1), the same sequence for the same run. */
  readonly random: () => number
  readonly progress?: (line: string) => void
}

/** The result; times in milliseconds, the longest of each kind. */
export interface ChaosReport extends Totals {
  readonly faults: Readonly<Record<Fault, number>>
  /** From a kill, or the beginning of a freeze, until the replica's last shard had another owner. */
  readonly takeover: number
  /** From the stop signal until the replica's last shard had another owner, and until the process had exited. */
  readonly drain: number
  readonly exit: number
  /** Processes that exited without being told to. */
  readonly crashes: number
}

const ENDPOINTS = 20
const PER_TRANSACTION = 10
/** About as long as it takes to commit and send the events of one round. */
const FAULT_WITHIN_MILLIS = 300
/** How often more events are published for a fault that found no request in flight, and the wait for one each time. */
const EXTRA_ROUNDS = 5
const BUSY_WITHIN = "1 second"
/** The longest wait for the rest at the end: every lease, and every retry. */
const SETTLE = "3 minutes"

/** Runs the faults. All processes are killed when the scope closes. */
export const chaos = Effect.fnUntraced(function* (options: ChaosOptions) {
  const sql = yield* SqlClient.SqlClient
  const receiver = yield* startReceiver(options.random)
  const reconciliation = makeReconciliation(sql, receiver)
  const startReplica = yield* makeReplicaStarter(options.url)
  const scope = yield* Effect.scope
  const report = { takeover: 0, drain: 0, exit: 0, crashes: 0 }
  const done: Record<Fault, number> = {
    kill: 0,
    freeze: 0,
    stop: 0,
    "break connections": 0,
    "restart the database": 0
  }
  const watches: Array<Fiber.Fiber<unknown>> = []

  const endpoints = yield* Effect.forEach(Arr.range(1, ENDPOINTS), (number) =>
    insertEndpoint(`http://r${number}.acme.com:${receiver.port}/`)
  )
  const start = startReplica().pipe(
    Effect.provideService(Scope.Scope, scope),
    Effect.provideService(SqlClient.SqlClient, sql)
  )
  const replicas = yield* Ref.make<ReadonlyArray<DeliveryReplica>>(
    yield* Effect.replicateEffect(start, options.replicas)
  )
  const remove = (replica: DeliveryReplica) =>
    Ref.update(replicas, (list) => list.filter((one) => one !== replica))
  const replace = Effect.flatMap(start, (replica) => Ref.update(replicas, (list) => [...list, replica]))
  const any = Effect.map(Ref.get(replicas), (list) => {
    const found = list[Math.floor(options.random() * list.length)]
    if (found === undefined) throw new Error("No replica is left")
    return found
  })

  const until = (look: Effect.Effect<boolean>, every: `${number} millis`) =>
    Effect.repeat(look, { until: (holds) => holds, schedule: Schedule.spaced(every) })
  const watch = (effect: Effect.Effect<unknown>) =>
    Effect.map(Effect.forkIn(effect, scope), (fiber) => void watches.push(fiber))

  /** Waits until the replica owns no shard and no shard is unowned, or for so long that the report says so. */
  const awaitReplacement = (owner: string, every: `${number} millis`) =>
    sql<{ readonly count: number }>`
      SELECT count(*)::int AS count FROM delivery_shards WHERE owner = ${owner} OR owner IS NULL
    `.pipe(
      persistently,
      Effect.map((rows) => rows[0]?.count === 0),
      (look) => until(look, every),
      Effect.timeoutOption(SETTLE)
    )
  const watchTakeover = (owner: string, began: number) =>
    Effect.map(awaitReplacement(owner, "100 millis"), () => {
      report.takeover = Math.max(report.takeover, performance.now() - began)
    })

  const publish = Effect.gen(function* () {
    for (let count = 0; count < options.eventsPerFault; count += PER_TRANSACTION) {
      const to = Arr.makeBy(
        PER_TRANSACTION,
        () => endpoints[Math.floor(options.random() * ENDPOINTS)] ?? endpoints[0]
      )
      // The database decides at the end which events were committed, also if the response to a commit was lost.
      yield* persistently(publishWebhookEvents(to, "{}"))
    }
  }).pipe(withoutEngine)

  /** Faults must hit requests in flight: waits until there are some. */
  type Publishing = Effect.Services<typeof publish>
  type Busy = (address?: string) => Effect.Effect<void, never, Publishing>

  const inflict: Readonly<Record<Fault, (busy: Busy) => Effect.Effect<void, never, Publishing>>> = {
    kill: Effect.fnUntraced(function* (busy) {
      const replica = yield* any
      yield* remove(replica)
      yield* busy(replica.address)
      const began = performance.now()
      replica.child.kill("SIGKILL")
      yield* Effect.promise(() => replica.ended)
      yield* receiver.caughtUp
      yield* reconciliation.noteFault("kill", replica.address)
      yield* watch(watchTakeover(replica.owner, began))
      yield* replace
    }),
    freeze: Effect.fnUntraced(function* (busy) {
      const replica = yield* any
      yield* remove(replica)
      yield* busy(replica.address)
      const began = performance.now()
      const frozenAtUnix = Date.now()
      replica.child.kill("SIGSTOP")
      yield* receiver.caughtUp
      yield* reconciliation.noteFault("freeze", replica.address)
      // It resumes when all its shards have another owner, and goes on; no replacement is needed.
      yield* watch(
        watchTakeover(replica.owner, began).pipe(
          Effect.andThen(
            Effect.sync(() => {
              reconciliation.noteResume({ address: replica.address, frozenAt: began, frozenAtUnix })
              replica.child.kill("SIGCONT")
            })
          ),
          Effect.andThen(Ref.update(replicas, (list) => [...list, replica]))
        )
      )
    }),
    stop: Effect.fnUntraced(function* (busy) {
      const replica = yield* any
      yield* remove(replica)
      yield* busy(replica.address)
      const began = performance.now()
      reconciliation.note(`stop ${replica.address}`)
      replica.child.kill("SIGTERM")
      const exit = Effect.map(
        Effect.promise(() => replica.ended),
        () => {
          report.exit = Math.max(report.exit, performance.now() - began)
        }
      )
      const drain = Effect.map(awaitReplacement(replica.owner, "10 millis"), () => {
        report.drain = Math.max(report.drain, performance.now() - began)
      })
      yield* Effect.all([exit, drain], { concurrency: 2, discard: true })
      yield* replace
    }),
    "break connections": Effect.fnUntraced(function* (busy) {
      yield* busy()
      yield* receiver.caughtUp
      yield* reconciliation.noteFault("break connections")
      yield* persistently(sql`
        SELECT pg_terminate_backend(pid)
        FROM pg_stat_activity
        WHERE datname = current_database()
          AND pid <> pg_backend_pid()
          AND backend_type = 'client backend'
      `)
    }),
    "restart the database": Effect.fnUntraced(function* (busy) {
      yield* busy()
      yield* receiver.caughtUp
      yield* reconciliation.noteFault("restart the database")
      yield* options.restartDatabase
    })
  }

  for (const [index, fault] of options.faults.entries()) {
    // A stop is measured alone: earlier deaths have been taken over by then.
    if (fault === "stop") for (const fiber of watches.splice(0)) yield* Fiber.join(fiber)
    // The fault happens at some moment while events are committed and sent.
    const publishing = yield* Effect.forkChild(publish)
    yield* Effect.sleep(options.random() * FAULT_WITHIN_MILLIS)
    yield* inflict[fault](
      Effect.fnUntraced(function* (address?: string) {
        const isBusy = () => receiver.inFlight(address) > 0
        yield* until(
          Effect.sync(() => isBusy() || publishing.pollUnsafe() !== undefined),
          "2 millis"
        )
        // A fast machine may have sent all of them by then.
        for (let round = 0; round < EXTRA_ROUNDS && !isBusy(); round++) {
          yield* publish
          yield* Effect.timeoutOption(until(Effect.sync(isBusy), "2 millis"), BUSY_WITHIN)
        }
      })
    )
    yield* Fiber.join(publishing)
    done[fault]++
    if ((index + 1) % 10 === 0) options.progress?.(`${index + 1} of ${options.faults.length} faults`)
  }
  for (const fiber of watches) yield* Fiber.join(fiber)
  yield* until(reconciliation.settled, "100 millis").pipe(Effect.timeoutOption(SETTLE))
  const left = yield* Ref.get(replicas)
  report.crashes = left.filter(({ child }) => child.exitCode !== null || child.signalCode !== null).length
  const totals = yield* reconciliation.totals
  for (const line of totals.unexplainedEvents.flatMap(reconciliation.timelineOf)) console.error(line)
  const result: ChaosReport = { ...totals, ...report, faults: done }
  return result
})
