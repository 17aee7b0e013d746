/* oxlint-disable no-unmodified-loop-condition -- events of the simulation end these loops */
/** The statements of the delivery engine over PostgreSQL and over the model, with one interface for both. */
import { type PgClient, PgConnection } from "@effect/sql-pg"
import { type Clock, DateTime, Deferred, Effect, Exit, Fiber, type Scope } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { healthy } from "../../../src/domain/delivery/Cooldown.ts"
import type { Conclusion } from "../../../src/domain/delivery/DeliveryState.ts"
import { EventId, type OrgId } from "../../../src/domain/Ids.ts"
import { type Channel, defaultChannelPolicy } from "../../../src/server/delivery/Channel.ts"
import { makeDeliveryQueue } from "../../../src/server/delivery/Delivery/DeliveryQueue.ts"
import { type DeliveryStore, makeDeliveryStore } from "../../../src/server/delivery/Delivery/DeliveryStore.ts"
import { Lane } from "../../../src/server/delivery/Delivery/Lane.ts"
import type { QueueRow } from "../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import { toQueuedDelivery } from "../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import {
  type InsertedDelivery,
  makeQueueWrites,
  type PreparedDelivery
} from "../../../src/server/delivery/Delivery/QueueWrites.ts"
import { makeReplay } from "../../../src/server/delivery/Delivery/Replay.ts"
import { makeShardStore, type ShardStore } from "../../../src/server/delivery/Delivery/ShardStore.ts"
import { endStoredCooldown } from "../../../src/server/delivery/Delivery/writeHealth.ts"
import type { ConcludedAttempt } from "../../../src/server/delivery/Delivery/writeResults.ts"
import type { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Host } from "../../../scripts/simulate/core/Host.ts"
import { Simulation } from "../../../scripts/simulate/core/Simulation.ts"
import { type Statement, Store } from "../../../scripts/simulate/core/Store.ts"
import { StoreClient, StoreNetwork } from "../../../scripts/simulate/core/StoreClient.ts"
import { DeliveryModel } from "../../../scripts/simulate/delivery/DeliveryModel.ts"
import { modelDeliveryStore, modelShardStore } from "../../../scripts/simulate/delivery/stores.ts"
import { ownedShard } from "../../support/delivery.ts"
import { monotonicMillis } from "../../../src/server/concurrency/monotonicMillis.ts"
import { TestDatabase } from "../../support/postgres.ts"

/** The queue limit of the contract's destinations: small, so that it is reached. */
export const QUEUE_LIMIT = 6

/** An open transaction, which holds its locks until it ends. */
export interface OpenTransaction {
  readonly end: (how: "commit" | "rollback") => Effect.Effect<void>
}

/** A transaction that another statement may have to wait for. */
export type Blocker =
  | { readonly _tag: "Insert"; readonly list: ReadonlyArray<PreparedDelivery> }
  /** Locks the queue rows of a destination and counts one more attempt of each. */
  | { readonly _tag: "Attempt"; readonly to: { readonly org_id: OrgId; readonly destination_id: string } }
  /** Locks the deliveries of a destination in the log. */
  | { readonly _tag: "Log"; readonly to: { readonly org_id: OrgId; readonly destination_id: string } }
  /** Locks the stored health of a destination. */
  | { readonly _tag: "Health"; readonly to: { readonly org_id: OrgId; readonly destination_id: string } }

/** A store under test. */
export interface Subject {
  readonly store: DeliveryStore
  readonly shards: (owner: string) => ShardStore
  readonly insert: (
    list: ReadonlyArray<PreparedDelivery>
  ) => Effect.Effect<ReadonlyArray<InsertedDelivery>, SqlError.SqlError>
  readonly insertUnderLock: (
    list: ReadonlyArray<PreparedDelivery>
  ) => Effect.Effect<number, SqlError.SqlError>
  readonly replay: (
    org_id: OrgId,
    destination_id: string,
    delivery_id: string
  ) => Effect.Effect<string, SqlError.SqlError>
  readonly endCooldown: (org_id: OrgId, destination_id: string) => Effect.Effect<void, SqlError.SqlError>
  readonly discard: (org_id: OrgId, destination_id: string) => Effect.Effect<void, SqlError.SqlError>
  readonly expireLease: (owner: string) => Effect.Effect<void, SqlError.SqlError>
  readonly open: (blocker: Blocker) => Effect.Effect<OpenTransaction>
  /** Starts an effect; `result` waits for its end. */
  readonly start: <A>(
    effect: Effect.Effect<A, SqlError.SqlError>
  ) => Effect.Effect<{ readonly result: Effect.Effect<A, SqlError.SqlError> }>
  readonly run: <A>(effect: Effect.Effect<A, SqlError.SqlError>) => Effect.Effect<A, SqlError.SqlError>
  /** The rows of all tables, without numbers and times. */
  readonly dump: Effect.Effect<ReadonlyArray<string>, SqlError.SqlError>
  /** Moves the time of the store. */
  readonly advance: (millis: number) => void
  /** The clock from which waits are counted. */
  readonly monotonicMillis: () => number
}

/** A result to record, in terms of the row that it is about. */
export const concluded = (
  row: QueueRow,
  epoch: number,
  attempt: number,
  verdict: Conclusion
): ConcludedAttempt => {
  const delivery = { ...toQueuedDelivery(row, 0), attempt }
  const owned = { ...ownedShard(0), shard: row.shard, epoch }
  const lane = new Lane("", channelOf(), owned, delivery, healthy)
  const error = verdict._tag === "Delivered" ? "" : verdict.error
  return {
    verdict,
    result: {
      lane,
      delivery,
      outcome:
        verdict._tag === "Delivered"
          ? { _tag: "Delivered", status: 200 }
          : { _tag: "Failed", error, status: 500 },
      startedAt: 0,
      durationMillis: 1
    }
  }
}

/** A lane whose health is to be saved. */
export const laneOf = (
  to: { readonly org_id: OrgId; readonly destination_id: string; readonly shard: number },
  epoch: number
): Lane => {
  const row: QueueRow = {
    ...to,
    seq: 0,
    delivery_id: "",
    channel: "contract",
    event_id: EventId.make(`evt_${"0".repeat(32)}`),
    attempt: 0,
    first_attempt: 0,
    wait_ms: 0,
    left_ms: null,
    consecutive_failures: null,
    cooldown_round: null,
    cooldown_ms: null
  }
  return new Lane(
    `${to.org_id}/${to.destination_id}`,
    channelOf(),
    { ...ownedShard(0), shard: to.shard, epoch },
    toQueuedDelivery(row, 0),
    healthy
  )
}

const channelOf = (): Channel => ({
  name: "contract",
  ids: { generate: Effect.succeed("") },
  policy: { ...defaultChannelPolicy, queueLimit: QUEUE_LIMIT },
  load: () => Effect.die("Nothing is sent here"),
  expire: () => Effect.succeed(0)
})

/**
 * Whether a statement waits for a lock. Asked over a connection of its own: the client may send the question over that of the statement,
 * where it would wait until the statement has ended.
 */
const observeLockWaits: Effect.Effect<Effect.Effect<boolean>, never, TestDatabase | Scope.Scope> = Effect.gen(
  function* () {
    const { url } = yield* TestDatabase
    const connection = yield* Effect.orDie(PgConnection.make({ url }))
    return connection
      .query(
        `SELECT FROM pg_stat_activity
        WHERE datname = current_database()
          AND wait_event_type = 'Lock'`
      )
      .pipe(
        Effect.map(({ rows }) => rows.length > 0),
        Effect.orDie
      )
  }
)

/** PostgreSQL, with the statements of the service. */
export const makeSqlSubject: Effect.Effect<
  Subject,
  SqlError.SqlError,
  TestDatabase | SqlClient.SqlClient | PgClient.PgClient | Scope.Scope
> = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const isWaiting = yield* observeLockWaits
  let now = Date.UTC(2026, 0, 1)
  const clock: StoreClock["Service"] = {
    now: Effect.die("Not used"),
    millisUnsafe: () => now,
    clock: fixedClock(() => now),
    simulated: () => new Date(now)
  }
  const writes = makeQueueWrites(sql, clock)
  const channels = new Map([["contract", channelOf()]])
  const at = { ...clock, now: Effect.sync(() => DateTime.makeUnsafe(now)) }
  const queue = makeDeliveryQueue(sql, at, channels, () => () => Effect.void)
  const { replay } = makeReplay(sql, at, channels, queue)
  const withSql = <A, E>(effect: Effect.Effect<A, E, SqlClient.SqlClient>) =>
    Effect.provideService(effect, SqlClient.SqlClient, sql)
  for (const table of [
    "deliveries",
    "delivery_queue",
    "delivery_attempts",
    "delivery_destinations",
    "delivery_owners",
    "delivery_leases"
  ]) {
    yield* sql`DELETE FROM ${sql.literal(table)}`
  }
  yield* sql`UPDATE delivery_shards SET owner = NULL, epoch = 0`
  const insert = (list: ReadonlyArray<PreparedDelivery>) =>
    isNonEmpty(list) ? writes.insertUnlocked(list, DateTime.makeUnsafe(now)) : Effect.succeed([])
  const blocked = (blocker: Blocker) => {
    switch (blocker._tag) {
      case "Insert":
        return insert(blocker.list)
      case "Attempt":
        return sql`
            UPDATE delivery_queue SET attempt = attempt + 1
            WHERE org_id = ${blocker.to.org_id} AND destination_id = ${blocker.to.destination_id}
          `
      case "Log":
        return sql`
            SELECT FROM deliveries
            WHERE org_id = ${blocker.to.org_id} AND destination_id = ${blocker.to.destination_id} FOR UPDATE
          `
      case "Health":
        return sql`
            SELECT FROM delivery_destinations
            WHERE org_id = ${blocker.to.org_id} AND destination_id = ${blocker.to.destination_id} FOR UPDATE
          `
    }
  }
  return {
    store: makeDeliveryStore(sql, clock),
    shards: (owner) => makeShardStore(sql, owner, false),
    insert,
    insertUnderLock: (list) =>
      isNonEmpty(list)
        ? withSql(transaction(writes.insertUnderLock(list, DateTime.makeUnsafe(now))))
        : Effect.succeed(0),
    replay: (org_id, destination_id, delivery_id) =>
      replay(org_id, destination_id, delivery_id).pipe(
        Effect.as("queued"),
        Effect.catch((error) => Effect.succeed(error.code.toLowerCase().replaceAll("_", " ")))
      ),
    endCooldown: (org_id, destination_id) => endStoredCooldown(sql, clock, org_id, destination_id),
    discard: (org_id, destination_id) => withSql(transaction(queue.discard(org_id, destination_id))),
    expireLease: (owner) =>
      Effect.asVoid(
        sql`UPDATE delivery_leases SET lease_until = now() - interval '1 minute' WHERE owner = ${owner}`
      ),
    open: (blocker) =>
      Effect.gen(function* () {
        const began = yield* Deferred.make<void>()
        const decision = yield* Deferred.make<"commit" | "rollback">()
        const fiber = yield* Effect.forkDetach(
          withSql(
            transaction(
              Effect.gen(function* () {
                yield* blocked(blocker)
                yield* Deferred.succeed(began, undefined)
                if ((yield* Deferred.await(decision)) === "rollback") return yield* Effect.fail("rolled back")
              })
            )
          )
        )
        yield* Deferred.await(began)
        return {
          end: (how) => Effect.andThen(Deferred.succeed(decision, how), Effect.asVoid(Fiber.await(fiber)))
        }
      }),
    start: (effect) =>
      Effect.gen(function* () {
        const fiber = yield* Effect.forkDetach(effect)
        // Until it has ended, or waits for the open transaction.
        while (fiber.pollUnsafe() === undefined) {
          if (yield* isWaiting) break
        }
        return { result: Fiber.join(fiber) }
      }),
    run: (effect) => effect,
    dump: Effect.gen(function* () {
      const rows = yield* sql<{ readonly line: string }>`
          SELECT 'queue ' || delivery_id || ' ' || attempt || ' ' || first_attempt AS line FROM delivery_queue
          UNION ALL
          SELECT 'log ' || delivery_id || ' ' || status || ' ' || attempts || ' ' || replays || ' ' || coalesce(status_code, 0) || ' '
            || coalesce(last_error, '') FROM deliveries
          UNION ALL
          SELECT 'attempt ' || delivery_id || ' ' || attempt || ' ' || coalesce(status, 0) FROM delivery_attempts
          UNION ALL
          SELECT 'health ' || destination_id || ' ' || consecutive_failures || ' ' || cooldown_round || ' '
            || (cooldown_until IS NOT NULL) FROM delivery_destinations
          UNION ALL
          SELECT 'shard ' || shard || ' ' || coalesce(owner, '') || ' ' || epoch FROM delivery_shards
          UNION ALL
          SELECT 'lease ' || owner FROM delivery_leases
          UNION ALL
          SELECT 'owner ' || owner FROM delivery_owners
        `
      return rows.map(({ line }) => line).toSorted()
    }),
    advance: (millis) => {
      now += millis
    },
    monotonicMillis: () => now
  }
})

/** The model of the simulation. */
export const makeModelSubject = (): Subject => {
  const simulation = new Simulation("contract")
  const host = new Host(simulation, "contract", 2_048)
  const store = new Store(simulation)
  const network = new StoreNetwork(store)
  const model = new DeliveryModel(store)
  const client = new StoreClient(host, network, { connections: 8, lockMillis: 0 })
  /** Lets the simulation go on until an effect has ended. */
  const toEnd = <A, E>(fiber: Fiber.Fiber<A, E>) =>
    Effect.suspend((): Exit.Exit<A, E> => {
      let exit: Exit.Exit<A, E> | undefined
      fiber.addObserver((ended) => {
        exit = ended
      })
      while (exit === undefined && simulation.step());
      return exit ?? Exit.die(new Error("It does not end"))
    })
  const run = <A>(effect: Effect.Effect<A, SqlError.SqlError>) =>
    Effect.suspend(() => toEnd(host.run(effect)))
  const statement = <A>(of: Statement<A>) => client.statement("contract", of)
  return {
    store: modelDeliveryStore(model, client, () => monotonicMillis(host.clock)),
    shards: (owner) => modelShardStore(model, client, owner),
    insert: (list) => statement(model.insertUnlocked(list)),
    insertUnderLock: (list) => statement(model.insertUnderLock(list)),
    replay: (org_id, destination_id, delivery_id) =>
      statement(
        model.replay(org_id, destination_id, delivery_id, { queueLimit: QUEUE_LIMIT, maxElapsedMillis: null })
      ),
    endCooldown: (org_id, destination_id) => statement(model.endCooldown(org_id, destination_id)),
    discard: (org_id, destination_id) => statement(model.discard(org_id, destination_id)),
    expireLease: (owner) =>
      statement(function* (transaction) {
        const row = yield* transaction.lock(model.leases, owner)
        if (row === undefined) return
        transaction.write(model.leases, owner, { lease_until: transaction.startedAt - 60_000 })
      }),
    open: (blocker) =>
      Effect.sync(() => {
        let began = false
        const decision = Deferred.makeUnsafe<"commit" | "rollback">()
        const fiber = host.run(
          Effect.ignore(
            client.transaction((execute) =>
              Effect.gen(function* () {
                yield* execute(blockingStatement(model, blocker))
                began = true
                if ((yield* Deferred.await(decision)) === "rollback") return yield* Effect.die("rolled back")
              })
            )
          )
        )
        while (!began && simulation.step());
        return {
          end: (how) =>
            Effect.asVoid(
              Effect.exit(
                Effect.suspend(() => {
                  host.run(Deferred.succeed(decision, how))
                  return toEnd(fiber)
                })
              )
            )
        }
      }),
    start: (effect) =>
      Effect.sync(() => {
        const fiber = host.run(effect)
        // Far enough for it to reach the lock that it waits for, and not to the time-outs of the open transaction.
        let isOver = false
        simulation.schedule(20, () => {
          isOver = true
        })
        while (!isOver && simulation.step());
        return { result: toEnd(fiber) }
      }),
    run,
    dump: Effect.sync(() =>
      [
        ...Array.from(
          model.queue.committed(),
          ([, row]) => `queue ${row.delivery_id} ${row.attempt} ${row.first_attempt}`
        ),
        ...Array.from(
          model.log.committed(),
          ([id, row]) =>
            `log ${id} ${row.status} ${row.attempts} ${row.replays} ${row.status_code ?? 0} ${row.last_error ?? ""}`
        ),
        ...Array.from(
          model.attempts.committed(),
          ([, row]) => `attempt ${row.delivery_id} ${row.attempt} ${row.status ?? 0}`
        ),
        ...Array.from(
          model.health.committed(),
          ([key, row]) =>
            `health ${key.split("/")[1]} ${row.consecutive_failures} ${row.cooldown_round} ${row.cooldown_until !== null}`
        ),
        ...Array.from(
          model.shards.committed(),
          ([, row]) => `shard ${row.shard} ${row.owner ?? ""} ${row.epoch}`
        ),
        ...Array.from(model.leases.committed(), ([owner]) => `lease ${owner}`),
        ...Array.from(model.owners.committed(), ([owner]) => `owner ${owner}`)
      ].toSorted()
    ),
    advance: (millis) => {
      store.skewMillis += millis
    },
    monotonicMillis: () => monotonicMillis(host.clock)
  }
}

function blockingStatement(model: DeliveryModel, blocker: Blocker): Statement<unknown> {
  return function* (transaction) {
    switch (blocker._tag) {
      case "Insert":
        return yield* model.insertUnlocked(blocker.list)(transaction)
      case "Attempt": {
        const found = [...transaction.scan(model.queue)].filter(
          ([, row]) => row.org_id === blocker.to.org_id && row.destination_id === blocker.to.destination_id
        )
        for (const [key] of found) {
          const row = yield* transaction.lock(model.queue, key)
          if (row !== undefined) transaction.write(model.queue, key, { ...row, attempt: row.attempt + 1 })
        }
        return
      }
      case "Log": {
        const found = [...transaction.scan(model.log)].filter(
          ([, row]) => row.org_id === blocker.to.org_id && row.destination_id === blocker.to.destination_id
        )
        for (const [key] of found) yield* transaction.lock(model.log, key)
        return
      }
      case "Health":
        return yield* transaction.lock(model.health, `${blocker.to.org_id}/${blocker.to.destination_id}`)
    }
  }
}

const isNonEmpty = <A>(list: ReadonlyArray<A>): list is readonly [A, ...ReadonlyArray<A>] => list.length > 0

/** A clock that stands still unless its time is set. */
function fixedClock(millis: () => number): Clock.Clock {
  const nanos = () => BigInt(millis()) * 1_000_000n
  return {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: () => Effect.die("Nothing pauses here")
  }
}
