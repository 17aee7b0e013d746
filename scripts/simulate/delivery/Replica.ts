import { Effect, Latch } from "effect"
import type { SqlError } from "effect/sql"
import type { AttemptOutcome } from "../../../src/domain/delivery/DeliveryState.ts"
import type { OrgId } from "../../../src/domain/Ids.ts"
import { monotonicMillis } from "../../../src/server/concurrency/monotonicMillis.ts"
import {
  type AdmitNetwork,
  AttemptHeld,
  type Channel,
  type ChannelPolicy,
  type CompletedDelivery,
  type DeliveryRef,
  refuse,
  type SendAttempt
} from "../../../src/server/delivery/Channel.ts"
import { toQueueRows } from "../../../src/server/delivery/Delivery/DeliveryQueue.ts"
import { type Engine, makeEngine } from "../../../src/server/delivery/Delivery/Engine.ts"
import type { QueuedDelivery } from "../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import type { InsertedDelivery, PreparedDelivery } from "../../../src/server/delivery/Delivery/QueueWrites.ts"
import { shardOf } from "../../../src/server/delivery/Delivery/shardOf.ts"
import type { Wakeups } from "../../../src/server/delivery/Delivery/Wakeups.ts"
import { Host } from "../core/Host.ts"
import type { Statement } from "../core/Store.ts"
import { StoreClient } from "../core/StoreClient.ts"
import { observedDeliveryStore, observedShardStore, timed } from "./observedStores.ts"
import { CurrentTransaction, modelDeliveryStore, modelShardStore } from "./stores.ts"
import type { World } from "./World.ts"

/** As in Wakeups.ts and PgNotify.ts. */
const NOTIFY_INTERVAL_MILLIS = 20
const RECONNECT_MILLIS = 200

/** The name of the simulated channel. */
const CHANNEL = "simulated"

/** The chance that a load reads the store, instead of having the event at hand. */
const SLOW_LOAD_CHANCE = 0.3

/** A destination of deliveries. */
export interface Destination {
  readonly number: number
  readonly org_id: OrgId
  readonly destination_id: string
}

/** One process of the service: the engine as it is, over the model of the store. */
export class Replica {
  readonly world: World
  readonly number: number
  readonly host: Host
  /** The name of its leases, which is also that of its host. */
  readonly owner: string
  engine: Engine | undefined
  /** Whether it takes requests. */
  isReady = false
  /** When its graceful shutdown began. */
  stoppingSince: number | undefined
  readonly #stop = Latch.makeUnsafe(false)
  readonly #callers: StoreClient
  readonly #engineClient: StoreClient

  constructor(world: World, number: number, incarnation: number) {
    this.world = world
    this.number = number
    this.owner = `replica ${number}${incarnation === 0 ? "" : ` (start ${incarnation + 1})`}`
    this.host = new Host(world.simulation, this.owner, world.plan.maxOpsBeforeYield)
    const { host } = this
    const { network } = world
    this.#callers = new StoreClient(host, network, { connections: 6, lockMillis: 2_000 })
    this.#engineClient = new StoreClient(host, network, {
      connections: 5,
      lockMillis: 0,
      idleMillis: 5_000
    })
    const listener = new StoreClient(host, network, { connections: 1, lockMillis: 0 })
    const leases = new StoreClient(host, network, { connections: 1, lockMillis: 0 })
    const { model } = world
    const policy: ChannelPolicy = world.policy
    const channel: Channel = {
      name: CHANNEL,
      ids: { generate: Effect.sync(() => world.nextId("ndl")) },
      policy,
      load: (ref, admit) => this.#load(ref, admit),
      receiverOf: ({ destination_id }) => world.receiverOf(destination_id),
      ...(world.plan.hasHook ? { onCompleted: (list) => this.#complete(list) } : {}),
      disable: (_, destination_id) => this.#disable(destination_id),
      expire: () => Effect.succeed(0)
    }
    host
      .run(
        Effect.scoped(
          Effect.gen({ self: this }, function* () {
            const engine = yield* makeEngine(
              new Map([[CHANNEL, channel]]),
              {
                shardStore: observedShardStore(this, modelShardStore(model, leases, this.owner)),
                store: observedDeliveryStore(
                  this,
                  modelDeliveryStore(model, this.#engineClient, () => monotonicMillis(host.clock))
                ),
                wakeups: this.#wakeups(listener),
                dueClock: host.clock,
                storeMillis: () => host.clock.currentTimeMillisUnsafe()
              },
              { slots: world.plan.slots }
            )
            this.engine = engine
            yield* engine.start
            this.isReady = true
            yield* this.#stop.await
            this.isReady = false
          })
        )
      )
      .addObserver((exit) => {
        if (exit._tag === "Failure") world.checks.fail(`${this.owner} ended by itself: ${String(exit.cause)}`)
        host.kill()
      })
  }

  /** Begins a graceful shutdown, after which the process ends. */
  stop(): void {
    this.stoppingSince = this.world.simulation.now
    this.isReady = false
    // A frozen process handles the signal when it continues.
    this.host.after(0, () => this.#stop.openUnsafe())
  }

  /** Publishes events to a destination, as a request does. */
  publish(to: Destination, count: number, openMillis: number | null): void {
    const { engine } = this
    if (engine === undefined) return
    const { model, policy } = this.world
    const prepared = Array.from({ length: count }, (): PreparedDelivery => ({
      org_id: to.org_id,
      destination_id: to.destination_id,
      shard: shardOf(to.destination_id),
      delivery_id: this.world.nextId("ndl"),
      channel: CHANNEL,
      event_id: this.world.nextEventId(),
      label: "",
      size: 1,
      queueLimit: policy.queueLimit,
      delayMillis: 0,
      maxElapsedMillis: policy.retry.maxElapsedMillis
    }))
    const ids = prepared.map(({ delivery_id }) => delivery_id)
    const observed = <A>(statement: Statement<A>) => this.world.checks.observed(statement, ids)
    const insert = observed(model.insertUnlocked(prepared))
    const rowsOf = (rows: ReadonlyArray<InsertedDelivery>) =>
      toQueueRows(prepared, new Map(rows.map((row) => [row.delivery_id, row])))
    const leftOf = (rows: ReadonlyArray<InsertedDelivery>) =>
      prepared.filter(({ delivery_id }) =>
        rows.some((row) => row.delivery_id === delivery_id && row.seq === null && !row.is_full)
      )
    const end = engine.beginEnqueue()
    /** A transaction that inserts, then waits for a while, and commits. */
    const inTransaction = (list: ReadonlyArray<PreparedDelivery>, first: typeof insert) =>
      this.#callers.transaction((execute) =>
        Effect.gen(function* () {
          const rows = yield* execute(first)
          const left = leftOf(rows)
          if (left.length > 0) yield* execute(observed(model.insertUnderLock(left)))
          yield* Effect.sleep(openMillis ?? 0)
          return { rows: rowsOf(rows), complete: left.length === 0 && list.length === count }
        })
      )
    const work =
      openMillis !== null
        ? inTransaction(prepared, insert)
        : Effect.flatMap(this.#callers.statement("publish", insert), (rows) => {
            const left = leftOf(rows)
            if (left.length === 0) return Effect.succeed({ rows: rowsOf(rows), complete: true })
            // Deliveries near the limit are counted under a lock.
            return Effect.map(inTransaction(left, observed(model.insertUnlocked(left))), () => ({
              rows: rowsOf(rows),
              complete: false
            }))
          })
    this.host.run(
      work.pipe(
        Effect.matchEffect({
          onFailure: () => end(undefined),
          onSuccess: (committed) =>
            Effect.andThen(
              Effect.sync(() => {
                this.world.checks.acknowledge(ids)
                this.world.checks.knows(this, committed.rows)
              }),
              end(committed)
            )
        })
      )
    )
  }

  /** Replays a delivery, as a request does. */
  replay(to: Destination, delivery_id: string): void {
    const { model, policy } = this.world
    const statement = model.replay(to.org_id, to.destination_id, delivery_id, {
      queueLimit: policy.queueLimit,
      maxElapsedMillis: policy.retry.maxElapsedMillis
    })
    this.host.run(
      this.#callers
        .transaction((execute) => execute(statement))
        .pipe(
          Effect.map(() => this.engine?.signalNewRows()),
          Effect.ignore
        )
    )
  }

  endCooldown(to: Destination): void {
    const { model, notifications } = this.world
    this.host.run(
      this.#callers.statement("end cooldown", model.endCooldown(to.org_id, to.destination_id)).pipe(
        Effect.andThen(
          this.#callers.statement("notify", function* (transaction) {
            notifications.notify(transaction, [`cooldown ${to.org_id} ${to.destination_id}`])
          })
        ),
        Effect.ignore
      )
    )
  }

  remove(to: Destination): void {
    const { disabled, model } = this.world
    this.host.run(
      this.#callers
        .transaction((execute) =>
          Effect.andThen(
            Effect.sync(() => void disabled.add(to.destination_id)),
            execute(model.discard(to.org_id, to.destination_id))
          )
        )
        .pipe(Effect.ignore)
    )
  }

  #load(ref: DeliveryRef, admit: AdmitNetwork): ReturnType<Channel["load"]> {
    const { random } = this.host
    if (!isQueued(ref)) return Effect.die(new Error("A channel gets whole deliveries"))
    this.world.checks.loads(this, ref)
    if (random.chance(this.world.plan.defectChance)) throw new Error("A defect of the channel")
    const network = `network ${this.world.numberOf(ref.destination_id) % 2}`
    const sending: SendAttempt = (began) =>
      this.world.disabled.has(ref.destination_id)
        ? refuse("the destination is disabled")(began)
        : admit(network)
          ? this.#send(ref)
          : Effect.fail(new AttemptHeld())
    if (!random.chance(SLOW_LOAD_CHANCE)) return Effect.succeed(sending)
    const read = this.#engineClient.statement("load", function* () {
      yield { _tag: "Pause" }
    })
    // The payload, and for some the destination.
    return Effect.as(random.chance(0.5) ? read : Effect.andThen(read, read), sending)
  }

  #send(delivery: QueuedDelivery): Effect.Effect<AttemptOutcome> {
    return Effect.callback((resume) => {
      const { host, world } = this
      const attempt = world.checks.starts(this, delivery)
      const finish = (outcome: AttemptOutcome) => {
        if (attempt.outcome !== undefined) return
        cancelDeadline()
        world.checks.finishes(attempt, outcome)
        resume(Effect.succeed(outcome))
      }
      const crash = () => {
        if (attempt.outcome !== undefined) return
        cancelDeadline()
        world.checks.finishes(attempt, { _tag: "Retry", error: "crashed", status: null, retryAfter: null })
        resume(Effect.die(new Error("A defect of the channel")))
      }
      const { defectChance } = world.plan
      if (host.random.chance(defectChance)) host.after(host.random.next() * 100, crash)
      // A channel that does not end by itself is interrupted by the engine.
      const cancelDeadline = host.random.chance(defectChance)
        ? () => {}
        : host.after(world.policy.deadlineMillis, () =>
            finish({ _tag: "Retry", error: "timed out", status: null, retryAfter: null })
          )
      world.receivers.request(
        world.numberOf(delivery.destination_id),
        () => world.checks.arrives(attempt),
        (answer) => {
          world.checks.answers(attempt, answer)
          host.after(host.random.logarithmic(0.3, 30), () => finish(outcomeOf(answer)))
        }
      )
      return Effect.sync(() => {
        cancelDeadline()
        if (attempt.outcome === undefined) world.checks.interrupts(attempt)
      })
    })
  }

  /** Writes in the transaction that finishes these deliveries, as a channel may. */
  #complete(list: ReadonlyArray<CompletedDelivery>): Effect.Effect<void, SqlError.SqlError> {
    const ids = list.map(({ delivery }) => delivery.delivery_id)
    return Effect.flatMap(CurrentTransaction, (execute) => execute(this.world.model.complete(ids)))
  }

  /** Takes a statement, which may take long or fail. */
  #disable(destination_id: string): Effect.Effect<void, SqlError.SqlError> {
    const { disabled } = this.world
    return this.#engineClient.statement("disable", function* (transaction) {
      transaction.onCommit(() => void disabled.add(destination_id))
      yield { _tag: "Pause" }
    })
  }

  #wakeups(client: StoreClient): Wakeups {
    const { notifications } = this.world
    const due = Latch.makeUnsafe(false)
    const notify = (payload: string) =>
      Effect.ignore(
        timed(
          this,
          this.#engineClient.statement("notify", function* (transaction) {
            notifications.notify(transaction, [payload])
          })
        )
      )
    return {
      signalNewRows: () => void due.openUnsafe(),
      notifyFreeShards: notify("shards"),
      notifyCooldownEnded: (org_id, destination_id) => notify(`cooldown ${org_id} ${destination_id}`),
      notifyMadeDue: (org_id, destination_id) => notify(`due ${org_id} ${destination_id}`),
      runNotifier: Effect.forever(
        Effect.gen(function* () {
          yield* due.await
          due.closeUnsafe()
          yield* notify("rows")
          yield* Effect.sleep(NOTIFY_INTERVAL_MILLIS)
        })
      ),
      runListener: (on) =>
        Effect.forever(
          Effect.andThen(
            Effect.callback<void>((resume) =>
              client.reserve((result) => {
                if ("error" in result) return resume(Effect.void)
                const connection = result.value
                notifications.listen(connection, (payload) => {
                  if (payload === "rows") return on({ _tag: "Rows" })
                  if (payload === "shards") return on({ _tag: "Shards" })
                  const [, org_id = "", destination_id = ""] = payload.split(" ")
                  on({ _tag: "CooldownEnded", org_id, destination_id })
                })
                connection.onClose(() => resume(Effect.void))
                on({ _tag: "Shards" })
                on({ _tag: "Rows" })
              })
            ),
            Effect.sleep(RECONNECT_MILLIS)
          )
        )
    }
  }
}

/** The engine passes its whole delivery as the reference. */
const isQueued = (ref: DeliveryRef): ref is QueuedDelivery =>
  "seq" in ref && "attempt" in ref && "shard" in ref

const outcomeOf = ({
  retryAfter,
  status
}: {
  readonly status: number
  readonly retryAfter: number | null
}): AttemptOutcome => {
  const error = `HTTP ${status}`
  if (status === 200) return { _tag: "Delivered", status }
  if (status === 410) return { _tag: "Gone", error, status }
  if (status === 400) return { _tag: "Failed", error, status, fault: "delivery" }
  return { _tag: "Retry", error, status, retryAfter }
}
