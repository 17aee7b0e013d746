import { type PgClient, PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import {
  DateTime,
  Deferred,
  Effect,
  Exit,
  Fiber,
  Layer,
  Option,
  Queue,
  Redacted,
  Schedule,
  Scope
} from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { Outcome } from "../../src/domain/DeliveryState.ts"
import { DeliveryId, EventId, OrgId } from "../../src/domain/Ids.ts"
import { MAX_CONNECTIONS } from "../../src/server/Database.ts"
import { transaction } from "../../src/server/Database/transaction.ts"
import {
  type Channel,
  Delivery,
  ENGINE_CONNECTIONS,
  type LoggedDelivery,
  type Settled
} from "../../src/server/Delivery.ts"
import { SHARDS, shardOf } from "../../src/server/Delivery/Shards.ts"
import { defaultSlots } from "../../src/server/Delivery/Slots.ts"
import { StoreClock } from "../../src/server/StoreClock.ts"
import { named, TestDatabase } from "../support/postgres.ts"
import {
  answering,
  delivered,
  destination,
  elsewhere,
  engineIn,
  failing,
  type Held,
  heldChannel,
  publish,
  quick,
  records,
  withEngine
} from "./Delivery/support.ts"
import { eventually, someoneWaits } from "../support/eventually.ts"

const all = (status: string) => (list: ReadonlyArray<{ readonly status: string }>) =>
  list.length > 0 && list.every((record) => record.status === status)

const idOf = (record: LoggedDelivery | undefined): string => {
  assert.isDefined(record)
  return record?.id ?? ""
}

/** One attempt. */
const once = { ...quick().retry, delays: [0] }

/** A shard of which nothing is under way is another's within this time. */
const HANDOVER_MILLIS = 1_000

/** No failure leads to a cooldown. */
const patient = { after: 1_000, first: 1, longest: 1 }

const queued = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ readonly count: number }>`SELECT count(*)::int AS count FROM delivery_queue`
).pipe(Effect.map((rows) => rows[0]?.count))

/**
 * Makes all that there is older than is kept, where that is an hour: ids tell their time, too. The run that each start begins with is
 * over by then, and removes nothing of it.
 */
const aged = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const delivery = yield* Delivery
  yield* delivery.runRetention
  const older = sql.literal("left(delivery_id, 4) || '0000' || right(delivery_id, 28)")
  yield* sql`UPDATE delivery_queue SET delivery_id = ${older}`
  yield* sql`UPDATE deliveries SET delivery_id = ${older}, created_at = created_at - interval '1 day'`
})

/** What is published to another destination is the next that is sent, and nothing else is. */
const onlyAnotherIsSent = Effect.fnUntraced(function* (attempts: Queue.Dequeue<Held>) {
  const other = yield* destination
  yield* publish(other)
  const next = yield* Queue.take(attempts)
  assert.strictEqual(next.parcel.destination_id, other.destination_id)
  yield* next.end(delivered)
  yield* records(other, all("delivered"))
  assert.strictEqual(yield* Queue.size(attempts), 0)
})

/** The channel's destinations that cool down, as the engine counts them. */
const coolingOf = Effect.flatMap(Delivery, ({ figures }) =>
  Effect.map(figures, ({ channels }) => channels.get("held")?.cooling)
)

/** Longest test, on a machine that has much else to do. */
const TEST_MILLIS = 60_000

/** Each on a database of its own, with the real clock: engines take every shard there is. */
const test = <E>(
  name: string,
  effect: () => Effect.Effect<void, E, SqlClient.SqlClient | PgClient.PgClient | TestDatabase | Scope.Scope>
) =>
  it.live(
    name,
    () => Effect.suspend(effect).pipe(Effect.provide(Layer.fresh(TestDatabase.layerSql))),
    TEST_MILLIS
  )

describe("Delivery", () => {
  test("sends what was committed, and nothing else", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* answering(quick(), () => delivered)
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        yield* Effect.flip(transaction(Effect.andThen(publish(to), Effect.fail("rolled back"))))
        const [event_id] = yield* publish(to)
        const parcel = yield* Queue.take(sent)
        assert.strictEqual(parcel.event_id, event_id)
        const [record] = yield* records(to, all("delivered"))
        assert.strictEqual(record?.attempts, 1)
        assert.strictEqual(record?.last_error, null)
        assert.isNotNull(record?.finished_at)
        const { attempt_log } = yield* delivery.get(to.org_id, to.destination_id, idOf(record))
        assert.deepStrictEqual(
          attempt_log.map(({ attempt, error, status }) => ({ attempt, error, status })),
          [{ attempt: 1, error: null, status: 200 }]
        )
        assert.strictEqual(yield* queued, 0)
        assert.lengthOf(yield* delivery.list(to.org_id, to.destination_id), 1)
      }).pipe(withEngine([channel]))
    }))

  test("carries what this process committed though nobody reads the queue", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* answering(quick(), () => delivered)
      yield* Effect.gen(function* () {
        const to = yield* destination
        // One of them a read that every start begins with may find.
        for (let count = 0; count < 5; count++) {
          const [event_id] = yield* publish(to)
          assert.strictEqual((yield* Queue.take(sent)).event_id, event_id)
          yield* records(to, all("delivered"))
        }
      }).pipe(withEngine([channel], { reader: { pollMillis: 60_000, sweepMillis: 60_000 } }))
    }))

  test("carries nothing of a part that was rolled back when the rest is committed", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* answering(quick(), () => delivered)
      yield* Effect.gen(function* () {
        const undone = yield* destination
        const kept = yield* destination
        yield* transaction(
          Effect.andThen(
            Effect.flip(transaction(Effect.andThen(publish(undone), Effect.fail("rolled back")))),
            publish(kept)
          )
        )
        yield* records(kept, all("delivered"))
        const parcels = yield* Queue.takeAll(sent)
        assert.deepStrictEqual(
          parcels.map((parcel) => parcel.destination_id),
          [kept.destination_id]
        )
      }).pipe(withEngine([channel]))
    }))

  test("tries again until it arrives, and tells of each attempt", () =>
    Effect.gen(function* () {
      const { channel } = yield* answering(quick(), (_, nth) => (nth < 3 ? failing : delivered))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        yield* publish(to)
        const [record] = yield* records(to, all("delivered"))
        assert.strictEqual(record?.attempts, 3)
        const { attempt_log } = yield* delivery.get(to.org_id, to.destination_id, idOf(record))
        assert.deepStrictEqual(
          attempt_log.map(({ attempt, error, status }) => [attempt, status, error]),
          [
            [1, 503, "HTTP 503"],
            [2, 503, "HTTP 503"],
            [3, 200, null]
          ]
        )
      }).pipe(withEngine([channel]))
    }))

  test("gives up at the end of the schedule; a replay has the whole schedule again and counts on", () =>
    Effect.gen(function* () {
      const { channel } = yield* answering(quick({ cooldown: patient }), (_, nth) =>
        nth < 7 ? failing : delivered
      )
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        const [event_id] = yield* publish(to)
        const [failed] = yield* records(to, all("failed"))
        assert.strictEqual(failed?.attempts, 4)
        assert.strictEqual(failed?.last_error, "HTTP 503")
        yield* delivery.replay(to.org_id, to.destination_id, idOf(failed))
        const [record] = yield* records(to, all("delivered"))
        assert.strictEqual(record?.id, failed?.id)
        assert.strictEqual(record?.event_id, event_id)
        assert.strictEqual(record?.attempts, 7)
        assert.strictEqual(record?.replays, 1)
        assert.strictEqual(record?.last_error, null)
      }).pipe(withEngine([channel]))
    }))

  test("replays a failed delivery once, whoever asks at the same time, and no other", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ retry: once }))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        yield* publish(to)
        yield* (yield* Queue.take(attempts)).end(failing)
        const [record] = yield* records(to, all("failed"))
        const id = idOf(record)
        const replay = Effect.exit(delivery.replay(to.org_id, to.destination_id, id))
        const exits = yield* Effect.all([replay, replay, replay], { concurrency: "unbounded" })
        assert.lengthOf(exits.filter(Exit.isSuccess), 1)
        assert.strictEqual(
          (yield* Effect.flip(delivery.replay(to.org_id, to.destination_id, id))).code,
          "NOT_REPLAYABLE"
        )
        yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(to, all("delivered"))
        const again = yield* Effect.flip(delivery.replay(to.org_id, to.destination_id, id))
        assert.strictEqual(again.code, "NOT_REPLAYABLE")
        const elsewhere = yield* Effect.flip(delivery.replay(yield* OrgId.generate, to.destination_id, id))
        assert.strictEqual(elsewhere.code, "NOT_FOUND")
        assert.strictEqual(yield* Queue.size(attempts), 0)
      }).pipe(withEngine([channel]))
    }))

  test("holds no more than the capacity of a destination, and loses nothing beyond it", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ capacity: 5, retry: once }))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        yield* Effect.all(
          Array.from({ length: 8 }, () => publish(to)),
          { concurrency: "unbounded" }
        )
        const list = yield* delivery.list(to.org_id, to.destination_id)
        const full = list.filter((record) => record.status === "failed")
        assert.deepStrictEqual(
          full.map((record) => [record.attempts, record.last_error]),
          Array.from({ length: 3 }, () => [0, "queue full"])
        )
        const health = (yield* delivery.health(to.org_id, [to.destination_id])).get(to.destination_id)
        assert.strictEqual(health?.pending_deliveries, 5)
        const [first] = full
        const id = idOf(first)
        const refused = yield* Effect.flip(delivery.replay(to.org_id, to.destination_id, id))
        assert.strictEqual(refused.code, "QUEUE_FULL")
        yield* (yield* Queue.take(attempts)).end(delivered)
        yield* eventually(queued, (count) => count === 4)
        yield* delivery.replay(to.org_id, to.destination_id, id)
        for (let i = 0; i < 5; i++) yield* (yield* Queue.take(attempts)).end(delivered)
        yield* eventually(queued, (count) => count === 0)
      }).pipe(withEngine([channel]))
    }))

  test("holds little more than the capacity of a destination, though two transactions bring much at once", () =>
    Effect.gen(function* () {
      const { channel } = yield* heldChannel(quick({ capacity: 1_000 }))
      yield* Effect.gen(function* () {
        const to = yield* destination
        const first = yield* Deferred.make<void>()
        const second = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const bring = (brought: Deferred.Deferred<void>) =>
          Effect.forkChild(
            transaction(
              publish(to, 700).pipe(
                Effect.andThen(Deferred.succeed(brought, undefined)),
                Effect.andThen(Deferred.await(commit))
              )
            )
          )
        const one = yield* bring(first)
        yield* Deferred.await(first)
        const other = yield* bring(second)
        yield* Effect.race(Deferred.await(second), someoneWaits)
        yield* Deferred.succeed(commit, undefined)
        yield* Effect.all([Fiber.join(one), Fiber.join(other)])
        assert.strictEqual(yield* queued, 1_000)
      }).pipe(elsewhere(channel))
    }))

  test("queues the failed deliveries of a window again, the oldest first, up to the capacity", () =>
    Effect.gen(function* () {
      const { channel } = yield* answering(
        quick({ capacity: 4, retry: once, cooldown: patient }),
        () => failing
      )
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        const since = yield* DateTime.now
        for (let i = 0; i < 2; i++) {
          yield* publish(to, 3)
          yield* records(to, all("failed"))
        }
        const before = yield* DateTime.now
        const window = { since, until: null }
        assert.deepStrictEqual(yield* delivery.replayWindow(to.org_id, to.destination_id, window), {
          queued: 4,
          skipped: 2
        })
        const list = yield* records(to, all("failed"))
        assert.deepStrictEqual(
          list.map((record) => record.replays),
          [0, 0, 1, 1, 1, 1]
        )
        assert.deepStrictEqual(
          yield* delivery.replayWindow(to.org_id, to.destination_id, { since: before, until: null }),
          { queued: 0, skipped: 0 }
        )
        assert.deepStrictEqual(
          yield* delivery.replayWindow(to.org_id, to.destination_id, { since, until: since }),
          { queued: 0, skipped: 0 }
        )
      }).pipe(withEngine([channel]))
    }))

  test("leaves a destination alone that fails again and again, then sends one probe", () =>
    Effect.gen(function* () {
      const cooldown = { after: 3, first: 2_000, longest: 2_000 }
      const retry = { ...quick().retry, delays: [0, 0, 0, 0, 0, 0, 0, 0] }
      const { attempts, channel } = yield* heldChannel(quick({ concurrency: 1, cooldown, retry }))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        const health = Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) =>
          map.get(to.destination_id)
        )
        yield* publish(to, 6)
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(attempts)).end(failing)
        const third = yield* Queue.take(attempts)
        const failedAt = (yield* DateTime.now).epochMilliseconds
        yield* third.end(failing)
        const cooling = yield* eventually(health, (now) => (now?.cooldown_until ?? null) !== null)
        assert.strictEqual(cooling?.consecutive_failures, 3)
        assert.strictEqual(cooling?.pending_deliveries, 6)
        // Another destination is not held up, so time passes here without an attempt at the first.
        const other = yield* destination
        yield* publish(other)
        yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(other, all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        const probe = yield* Queue.take(attempts)
        assert.strictEqual(probe.parcel.destination_id, to.destination_id)
        // A millisecond aside: the cooldown runs on another clock of this machine.
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, failedAt + cooldown.first - 1)
        yield* publish(other)
        yield* (yield* Queue.take(attempts)).end(delivered)
        yield* eventually(delivery.list(other.org_id, other.destination_id), all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        yield* probe.end(delivered)
        for (let i = 0; i < 5; i++) yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(to, all("delivered"))
        assert.strictEqual((yield* health)?.consecutive_failures, 0)
        assert.strictEqual((yield* health)?.cooldown_until, null)
      }).pipe(withEngine([channel]))
    }))

  test("finds again by the sweep who was let go for a cooldown, and who for a late retry", () =>
    Effect.gen(function* () {
      const cooldown = { after: 2, first: 800, longest: 800 }
      const retry = { ...quick().retry, delays: [0, 0, 0, 0], jitter: 0 }
      const cooling = yield* heldChannel(quick({ concurrency: 1, cooldown, retry }))
      const late = yield* heldChannel(quick({ cooldown: patient, retry: { ...retry, delays: [0, 800] } }))
      const channels = [cooling.channel, { ...late.channel, name: "late" }]
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        // So many that some share a shard.
        const others = yield* Effect.replicateEffect(destination, SHARDS + 4)
        yield* publish(to, 3)
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(cooling.attempts)).end(failing)
        const health = yield* eventually(
          Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) => map.get(to.destination_id)),
          (now) => (now?.cooldown_until ?? null) !== null
        )
        for (const other of others) yield* publish(other, 1, "late")
        const first = yield* Queue.takeN(late.attempts, others.length)
        const failedAt = (yield* DateTime.now).epochMilliseconds
        for (const held of first) yield* held.end(failing)
        // What is new waits as well, also where it is handed over.
        yield* publish(to)
        const probe = yield* Queue.take(cooling.attempts)
        const until = health?.cooldown_until?.epochMilliseconds ?? Infinity
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, until - 50)
        const second = yield* Queue.takeN(late.attempts, others.length)
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, failedAt + 750)
        for (const held of second) yield* held.end(delivered)
        yield* probe.end(delivered)
        for (let i = 0; i < 3; i++) yield* (yield* Queue.take(cooling.attempts)).end(delivered)
        yield* records(to, all("delivered"))
        for (const other of others) yield* records(other, all("delivered"))
      }).pipe(withEngine(channels, { reader: { sweepMillis: 50 } }))
    }))

  test("counts whom it let go for a cooldown, and sends them nothing that is new", () =>
    Effect.gen(function* () {
      const cooldown = { after: 1, first: 600_000, longest: 600_000 }
      const { attempts, channel } = yield* heldChannel(quick({ cooldown }))
      yield* Effect.gen(function* () {
        const to = yield* Effect.replicateEffect(destination, 3)
        for (const one of to) yield* publish(one)
        for (const held of yield* Queue.takeN(attempts, 3)) yield* held.end(failing)
        yield* eventually(coolingOf, (count) => count === 3)
        for (const one of to) yield* publish(one)
        yield* onlyAnotherIsSent(attempts)
      }).pipe(withEngine([channel], { reader: { sweepMillis: 50 } }))
    }))

  test("sends nothing to who was let go while a transaction was on its way that knows nothing of it yet", () =>
    Effect.gen(function* () {
      const cooldown = { after: 1, first: 600_000, longest: 600_000 }
      const { attempts, channel } = yield* heldChannel(quick({ cooldown }))
      yield* Effect.gen(function* () {
        const to = yield* destination
        const queuedEarly = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        yield* publish(to)
        const first = yield* Queue.take(attempts)
        const slow = yield* Effect.forkChild(
          transaction(
            publish(to).pipe(
              Effect.andThen(Deferred.succeed(queuedEarly, undefined)),
              Effect.andThen(Deferred.await(commit))
            )
          )
        )
        yield* Deferred.await(queuedEarly)
        yield* first.end(failing)
        yield* eventually(coolingOf, (count) => count === 1)
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.join(slow)
        yield* onlyAnotherIsSent(attempts)
        assert.strictEqual(yield* queued, 2)
      }).pipe(withEngine([channel], { reader: { sweepMillis: 50 } }))
    }))

  test("waits for a cooldown that began before the process did", () =>
    Effect.gen(function* () {
      const cooldown = { after: 1, first: 700, longest: 700 }
      const policy = quick({ cooldown, retry: { ...quick().retry, delays: [0, 0] } })
      const before = yield* answering(policy, () => failing)
      const after = yield* answering(policy, () => delivered)
      const to = yield* destination
      const until = yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        yield* publish(to)
        const health = yield* eventually(
          Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) => map.get(to.destination_id)),
          (now) => (now?.cooldown_until ?? null) !== null
        )
        return health?.cooldown_until?.epochMilliseconds ?? Infinity
      }).pipe(withEngine([before.channel]))
      yield* Effect.gen(function* () {
        yield* Queue.take(after.sent)
        assert.isAtLeast((yield* DateTime.now).epochMilliseconds, until - 50)
        yield* records(to, all("delivered"))
      }).pipe(withEngine([after.channel]))
    }))

  test("has no more under way at one destination than its policy allows, nor of one organization", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ concurrency: 4 }))
      const slots = { slots: 64, retrySlots: 48, organizationSlots: 6 }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const one = yield* destination
        const two = { ...one, destination_id: (yield* destination).destination_id }
        const other = yield* destination
        yield* publish(one, 10)
        const first = yield* Queue.takeN(attempts, 4)
        yield* publish(two, 10)
        const second = yield* Queue.takeN(attempts, 2)
        yield* publish(other, 1)
        const third = yield* Queue.take(attempts)
        assert.strictEqual(third.parcel.org_id, other.org_id)
        yield* third.end(delivered)
        yield* records(other, all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        const list = yield* delivery.list(one.org_id, one.destination_id)
        assert.lengthOf(
          list.filter((record) => record.status === "delivering"),
          4
        )
        for (const held of [...first, ...second]) yield* held.end(delivered)
        for (let i = 0; i < 14; i++) yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(one, all("delivered"))
        yield* records(two, all("delivered"))
      }).pipe(withEngine([channel], { slots }))
    }))

  test("lets ten thousand deliveries to a destination that hangs hold up nobody, not in its own organization either", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ capacity: 20_000, deadlineMillis: 600_000 }))
      yield* Effect.gen(function* () {
        const hanging = yield* destination
        const other = { ...hanging, destination_id: (yield* destination).destination_id }
        for (let count = 0; count < 20; count++) yield* publish(hanging, 500)
        // None of these ever ends.
        const stuck = yield* Queue.takeN(attempts, 8)
        assert.isTrue(stuck.every(({ parcel }) => parcel.destination_id === hanging.destination_id))
        for (let count = 0; count < 50; count++) {
          const [event_id] = yield* publish(other)
          const next = yield* Queue.take(attempts)
          assert.strictEqual(next.parcel.event_id, event_id)
          yield* next.end(delivered)
        }
        yield* records(other, all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
      }).pipe(withEngine([channel], { drainMillis: 100 }))
    }))

  test("lets forty receivers of four organizations that take their time hold up nobody else", () =>
    Effect.gen(function* () {
      const held = yield* heldChannel(quick({ deadlineMillis: 600_000 }))
      const slow = new Set<string>()
      const channel: Channel = {
        ...held.channel,
        load: (parcel) =>
          slow.has(parcel.destination_id)
            ? held.channel.load(parcel)
            : Effect.succeed(Effect.succeed(delivered))
      }
      yield* Effect.gen(function* () {
        for (let count = 0; count < 4; count++) {
          const { org_id } = yield* destination
          for (const { destination_id } of yield* Effect.replicateEffect(destination, 10)) {
            slow.add(destination_id)
            yield* publish({ org_id, destination_id }, 20)
          }
        }
        // As many as their organizations may have under way, and none of these ends.
        yield* eventually(Queue.size(held.attempts), (count) => count === 4 * defaultSlots.organizationSlots)
        const fast = yield* Effect.replicateEffect(destination, 5)
        for (const to of fast) yield* publish(to, 40)
        for (const to of fast) yield* records(to, (list) => list.length === 40 && all("delivered")(list))
      }).pipe(withEngine([channel], { drainMillis: 100 }))
    }))

  test("keeps room for first attempts while retries wait", () =>
    Effect.gen(function* () {
      const retry = { ...quick().retry, delays: [0, 0, 0] }
      const { attempts, channel } = yield* heldChannel(quick({ retry, cooldown: patient }))
      const slots = { slots: 4, retrySlots: 2, organizationSlots: 4 }
      yield* Effect.gen(function* () {
        const failed = yield* destination
        yield* publish(failed, 4)
        for (const held of yield* Queue.takeN(attempts, 4)) yield* held.end(failing)
        const retries = yield* Queue.takeN(attempts, 2)
        const fresh = yield* destination
        yield* publish(fresh, 2)
        for (const held of yield* Queue.takeN(attempts, 2)) {
          assert.strictEqual(held.parcel.destination_id, fresh.destination_id)
          yield* held.end(delivered)
        }
        yield* records(fresh, all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        for (const held of retries) yield* held.end(delivered)
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(failed, all("delivered"))
      }).pipe(withEngine([channel], { slots }))
    }))

  test("works off more than a lane holds in memory, each delivery once", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* answering(quick(), () => delivered)
      yield* Effect.gen(function* () {
        const to = yield* destination
        const events = yield* publish(to, 700)
        yield* eventually(queued, (count) => count === 0)
        const parcels = yield* Queue.takeAll(sent)
        assert.lengthOf(parcels, 700)
        assert.sameMembers(
          parcels.map((parcel) => parcel.event_id),
          events
        )
      }).pipe(withEngine([channel]))
    }))

  test("drops what waits for a destination that is removed", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ concurrency: 1 }))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        yield* publish(to, 3)
        const held = yield* Queue.take(attempts)
        yield* transaction(delivery.discard(to.org_id, to.destination_id))
        yield* held.end(failing)
        // A channel finds the destination gone when it reads it; this one does not read.
        for (let i = 0; i < 2; i++) yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(to, all("failed"))
        assert.strictEqual(yield* queued, 0)
        const list = yield* delivery.list(to.org_id, to.destination_id)
        assert.deepStrictEqual(
          new Set(list.map((record) => record.last_error)),
          new Set(["the destination was removed"])
        )
      }).pipe(withEngine([channel]))
    }))

  test("removes a destination without holding what whoever writes results down comes to later", () =>
    Effect.gen(function* () {
      const { channel } = yield* heldChannel(quick())
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        const to = yield* destination
        yield* publish(to, 2)
        // The second is due first.
        yield* sql`UPDATE delivery_queue SET due_at = now() - seq * interval '1 second'`
        const [first, second] = yield* sql<{ readonly seq: number }>`
          SELECT seq::float8 AS seq FROM delivery_queue ORDER BY seq
        `
        const lock = (row: typeof first) => sql`
          SELECT seq FROM delivery_queue WHERE seq = ${row?.seq ?? 0}::float8::bigint FOR UPDATE NOWAIT
        `
        const locked = yield* Deferred.make<void>()
        const waited = yield* Deferred.make<void>()
        const writer = yield* Effect.forkChild(
          transaction(
            lock(first).pipe(
              Effect.andThen(Deferred.succeed(locked, undefined)),
              Effect.andThen(Deferred.await(waited)),
              Effect.andThen(lock(second))
            )
          )
        )
        yield* Deferred.await(locked)
        const removal = yield* Effect.forkChild(transaction(delivery.discard(to.org_id, to.destination_id)))
        yield* someoneWaits
        yield* Deferred.succeed(waited, undefined)
        yield* Fiber.join(writer)
        yield* Fiber.join(removal)
        assert.strictEqual(yield* queued, 0)
      }).pipe(elsewhere(channel))
    }))

  test("switches off who wants nothing more, however long the store refuses it, and writes what became of others", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick())
      const off = yield* Deferred.make<string>()
      let tries = 0
      const away = new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause: "away" }) })
      const switched: Channel = {
        ...channel,
        switchOff: (_, destination_id) =>
          Effect.suspend(() =>
            ++tries < 6 ? Effect.fail(away) : Effect.asVoid(Deferred.succeed(off, destination_id))
          )
      }
      yield* Effect.gen(function* () {
        const gone = yield* destination
        const other = yield* destination
        yield* publish(gone)
        yield* (yield* Queue.take(attempts)).end({ _tag: "Gone", status: 410, error: "HTTP 410" })
        yield* records(gone, all("failed"))
        yield* publish(other)
        yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(other, all("delivered"))
        assert.strictEqual(yield* Deferred.await(off), gone.destination_id)
      }).pipe(withEngine([switched]))
    }))

  test("writes a group without the one result that cannot be written, which counts as failed", () =>
    Effect.gen(function* () {
      const poison = { ...failing, error: "no\u0000text" }
      const bad = yield* destination
      const { channel, sent } = yield* answering(quick({ concurrency: 4 }), (parcel) =>
        parcel.destination_id === bad.destination_id ? poison : delivered
      )
      yield* Effect.gen(function* () {
        const good = yield* destination
        yield* publish(bad)
        yield* publish(good, 5)
        yield* records(good, all("delivered"))
        yield* Queue.takeN(sent, 6)
        const [record] = yield* records(bad, all("failed"))
        assert.strictEqual(record?.attempts, 1)
        assert.strictEqual(record?.last_error, "internal error: the result could not be written")
        assert.strictEqual(yield* queued, 0)
      }).pipe(withEngine([channel]))
    }))

  test("lets a former owner's result change nothing", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick())
      const lease = { leaseMillis: 2_000, marginMillis: 500, renewMillis: 100 }
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const to = yield* destination
        const delivery = yield* Delivery
        yield* publish(to)
        const stale = yield* Queue.take(attempts)
        // Another process takes every shard for half a second.
        yield* sql`
          UPDATE delivery_shards
          SET owner = 'another', epoch = epoch + 1, lease_until = now() + interval '500 milliseconds'
        `
        yield* sql`
          INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures)
          VALUES (${to.org_id}, ${to.destination_id}, 4)
        `
        yield* stale.end(failing)
        const second = yield* Queue.take(attempts)
        assert.strictEqual(second.parcel.event_id, stale.parcel.event_id)
        const health = yield* delivery.health(to.org_id, [to.destination_id])
        assert.strictEqual(health.get(to.destination_id)?.consecutive_failures, 4)
        const [record] = yield* delivery.list(to.org_id, to.destination_id)
        assert.strictEqual(record?.attempts, 0)
        assert.strictEqual(record?.status, "delivering")
        yield* second.end(delivered)
        // One that began before the loss was noticed is refused as well, and comes again.
        yield* Effect.forkChild(
          Effect.forever(Effect.flatMap(Queue.take(attempts), (held) => held.end(delivered)))
        )
        const [done] = yield* records(to, all("delivered"))
        assert.strictEqual(done?.attempts, 1)
      }).pipe(withEngine([channel], { lease, reader: { sweepMillis: 200 } }))
    }))

  test("leaves what it held to another owner, also where the round fails in which it notices the loss", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ concurrency: 1 }))
      const lease = { leaseMillis: 60_000, marginMillis: 500, renewMillis: 50 }
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        const to = yield* destination
        yield* publish(to, 3)
        const stale = yield* Queue.take(attempts)
        // Renewals pass, but nobody can claim; of what another process took, a part is free already, so that it is tried.
        yield* sql`
          CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'
        `
        yield* sql`
          UPDATE delivery_shards
          SET
            owner = 'another',
            epoch = epoch + 1,
            lease_until = now() + CASE WHEN shard % 2 = ${shardOf(to.destination_id) % 2} THEN interval '1 hour' ELSE '0' END
        `
        yield* sql`
          CREATE TRIGGER refuse BEFORE UPDATE OF owner ON delivery_shards FOR EACH ROW EXECUTE FUNCTION refuse()
        `
        yield* eventually(delivery.figures, ({ shards }) => shards < SHARDS)
        // The other carries out what waits, and goes.
        yield* sql`DELETE FROM delivery_queue`
        yield* sql`UPDATE deliveries SET status = 'delivered', finished_at = now()`
        yield* sql`DROP TRIGGER refuse ON delivery_shards`
        yield* sql`UPDATE delivery_shards SET owner = NULL, lease_until = NULL WHERE owner = 'another'`
        yield* eventually(delivery.figures, ({ shards }) => shards === SHARDS)
        yield* stale.end(delivered)
        yield* onlyAnotherIsSent(attempts)
      }).pipe(withEngine([channel], { lease }))
    }))

  test("writes what became of others while a destination is held by whoever queues much for it again", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ retry: once }))
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        const other = yield* destination
        const since = yield* DateTime.now
        yield* publish(to)
        const first = yield* Queue.take(attempts)
        const held = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const replay = yield* Effect.forkChild(
          transaction(
            delivery
              .replayWindow(to.org_id, to.destination_id, { since, until: null })
              .pipe(Effect.andThen(Deferred.succeed(held, undefined)), Effect.andThen(Deferred.await(commit)))
          )
        )
        yield* Deferred.await(held)
        yield* first.end(failing)
        yield* records(to, all("failed"))
        yield* publish(other)
        yield* (yield* Queue.take(attempts)).end(delivered)
        yield* records(other, all("delivered"))
        const health = Effect.map(delivery.health(to.org_id, [to.destination_id]), (map) =>
          map.get(to.destination_id)
        )
        yield* eventually(health, (now) => now?.consecutive_failures === 1)
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.join(replay)
      }).pipe(withEngine([channel]))
    }))

  test("writes how others fare while a destination is being removed, and of that one afterwards", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ retry: { ...once, delays: [0, 0, 0] } }))
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        const to = yield* destination
        const other = yield* destination
        const failures = (of: typeof to) =>
          Effect.map(
            delivery.health(of.org_id, [of.destination_id]),
            (map) => map.get(of.destination_id)?.consecutive_failures
          )
        yield* publish(to)
        yield* (yield* Queue.take(attempts)).end(failing)
        yield* eventually(failures(to), (count) => count === 1)
        const second = yield* Queue.take(attempts)
        const held = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const removal = yield* Effect.forkChild(
          transaction(
            sql`DELETE FROM delivery_destinations`.pipe(
              Effect.andThen(Deferred.succeed(held, undefined)),
              Effect.andThen(Deferred.await(commit))
            )
          )
        )
        yield* Deferred.await(held)
        yield* second.end(failing)
        yield* publish(other)
        yield* Effect.forkChild(
          Effect.forever(Effect.flatMap(Queue.take(attempts), (held) => held.end(failing)))
        )
        yield* records(other, all("failed"))
        yield* eventually(failures(other), (count) => count === 3)
        yield* records(to, all("failed"))
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.join(removal)
        yield* eventually(failures(to), (count) => count === 3)
      }).pipe(withEngine([channel]))
    }))

  test("shares its shards with another process, and hands all of them over when it stops", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const lease = { leaseMillis: 60_000, marginMillis: 6_000, renewMillis: 50 }
      const counts = Effect.map(
        sql<{ readonly count: number }>`
          SELECT count(*)::int AS count
          FROM delivery_shards
          WHERE owner IS NOT NULL
          GROUP BY owner
        `,
        (rows) => rows.map((row) => row.count)
      )
      const one = yield* heldChannel(quick())
      const two = yield* heldChannel(quick())
      const first = yield* Scope.make()
      const to = yield* Effect.replicateEffect(destination, 40)
      yield* Effect.gen(function* () {
        assert.deepStrictEqual(yield* counts, [SHARDS])
        yield* Effect.gen(function* () {
          yield* eventually(
            counts,
            (list) => list.length === 2 && list.every((count) => count === SHARDS / 2)
          )
          yield* Effect.forEach(to, (one) => publish(one), { discard: true })
          const here = yield* eventually(
            Effect.map(Effect.all([Queue.size(one.attempts), Queue.size(two.attempts)]), ([a, b]) => ({
              a,
              b
            })),
            ({ a, b }) => a + b === to.length
          )
          assert.isAbove(here.a, 0)
          assert.isAbove(here.b, 0)
          // The first stops while its attempts are under way: they end, and are written, before their shards go.
          const stopping = yield* Effect.forkChild(Scope.close(first, Exit.void))
          for (const held of yield* Queue.takeAll(one.attempts)) yield* held.end(delivered)
          for (const held of yield* Queue.takeAll(two.attempts)) yield* held.end(delivered)
          yield* Fiber.join(stopping)
          yield* eventually(counts, (list) => list.length === 1 && list[0] === SHARDS)
          yield* eventually(queued, (count) => count === 0)
          yield* Effect.forEach(to, (one) => publish(one), { discard: true })
          for (let i = 0; i < to.length; i++) yield* (yield* Queue.take(two.attempts)).end(delivered)
          assert.strictEqual(yield* Queue.size(one.attempts), 0)
          yield* eventually(queued, (count) => count === 0)
        }).pipe(withEngine([two.channel], { lease }))
      }).pipe(Effect.provideService(Delivery, yield* engineIn(first, [one.channel], { lease })))
    }))

  test("hands over each shard at once when it stops, though nobody looks by himself for a minute", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const lease = { leaseMillis: 180_000, marginMillis: 6_000, renewMillis: 60_000 }
      const { attempts, channel } = yield* heldChannel(quick())
      const first = yield* Scope.make()
      const leaving = yield* engineIn(first, [channel], { lease })
      const [before] = yield* sql<{ readonly owner: string }>`SELECT owner FROM delivery_owners`
      const taken = Effect.map(
        sql<{ readonly count: number }>`
          SELECT count(*)::int AS count
          FROM delivery_shards
          WHERE owner <> ${before?.owner ?? ""}
        `,
        ([row]) => row?.count
      )
      yield* Effect.provideService(Effect.flatMap(destination, publish), Delivery, leaving)
      const held = yield* Queue.take(attempts)
      yield* Effect.gen(function* () {
        assert.strictEqual(yield* taken, 0)
        const told = performance.now()
        const stopping = yield* Effect.forkChild(Scope.close(first, Exit.void))
        // All but the one whose attempt is under way; that one as soon as it has ended.
        yield* eventually(taken, (count) => count === SHARDS - 1)
        assert.isAtMost(performance.now() - told, HANDOVER_MILLIS)
        const ended = performance.now()
        yield* held.end(delivered)
        yield* Fiber.join(stopping)
        yield* eventually(taken, (count) => count === SHARDS)
        assert.isAtMost(performance.now() - ended, HANDOVER_MILLIS)
      }).pipe(withEngine([channel], { lease }))
    }))

  test("waits at its stop for what is under way, also while the store is away for a moment", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { url } = yield* TestDatabase
      const { attempts, channel } = yield* heldChannel(quick())
      const scope = yield* Scope.make()
      const engine = yield* engineIn(scope, [channel])
      const to = yield* destination
      yield* Effect.provideService(publish(to), Delivery, engine)
      const held = yield* Queue.take(attempts)
      const name = new URL(Redacted.value(url)).pathname.slice(1)
      const admin = yield* PgConnection.make({ url: named(url, "postgres") })
      yield* admin.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS false`)
      yield* admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`)
      const stopping = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      // Long enough for a stop that waits for nothing: this one cannot end before its attempt.
      assert.isTrue(Option.isNone(yield* Effect.timeoutOption(Fiber.join(stopping), 500)))
      yield* admin.query(`ALTER DATABASE "${name}" ALLOW_CONNECTIONS true`)
      yield* held.end(delivered)
      yield* Fiber.join(stopping)
      const patiently = Effect.retry({ schedule: Schedule.spaced(50) })
      assert.deepStrictEqual(yield* patiently(sql`SELECT status, attempts FROM deliveries`), [
        { status: "delivered", attempts: 1 }
      ])
      assert.deepStrictEqual(
        yield* patiently(sql`SELECT shard FROM delivery_shards WHERE owner IS NOT NULL`),
        []
      )
    }))

  test("sends and writes while callers' transactions hold every connection of theirs", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick())
      yield* Effect.gen(function* () {
        const to = yield* destination
        yield* publish(to)
        const begun = yield* Queue.unbounded<void>()
        const release = yield* Deferred.make<void>()
        const holder = transaction(Effect.andThen(Queue.offer(begun, undefined), Deferred.await(release)))
        const holders = yield* Effect.forkChild(
          Effect.all(
            Array.from({ length: MAX_CONNECTIONS }, () => holder),
            { concurrency: "unbounded" }
          )
        )
        for (let i = 0; i < MAX_CONNECTIONS; i++) yield* Queue.take(begun)
        yield* (yield* Queue.take(attempts)).end(failing)
        // It comes again only once the first result has been written.
        yield* (yield* Queue.take(attempts)).end(delivered)
        yield* Deferred.succeed(release, undefined)
        yield* Fiber.join(holders)
        const [record] = yield* records(to, all("delivered"))
        assert.strictEqual(record?.attempts, 2)
      }).pipe(withEngine([channel]))
    }))

  test("renews its leases while the store lets it read nothing", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const lease = { leaseMillis: 60_000, marginMillis: 500, renewMillis: 50 }
      const { channel } = yield* heldChannel(quick())
      // What it reads goes by connections of the engine's, and waits there.
      const slow = Effect.map(SqlClient.SqlClient, (own): ReadonlyArray<Channel> => [
        { ...channel, load: () => Effect.as(own`SELECT pg_advisory_xact_lock(1)`, Effect.succeed(delivered)) }
      ])
      const renewed = sql<{ readonly renewed: boolean }>`
        SELECT count(*) >= ${ENGINE_CONNECTIONS - 2}::int
          AND max(a.query_start) < (SELECT min(lease_until) - interval '1 minute' FROM delivery_shards) AS renewed
        FROM pg_stat_activity a
        WHERE a.datname = current_database()
          AND a.wait_event_type = 'Lock'
      `
      yield* Effect.gen(function* () {
        const done = yield* Deferred.make<void>()
        const held = yield* Deferred.make<void>()
        const holder = yield* Effect.forkChild(
          transaction(
            sql`SELECT pg_advisory_xact_lock(1)`.pipe(
              Effect.andThen(Deferred.succeed(held, undefined)),
              Effect.andThen(Deferred.await(done))
            )
          )
        )
        yield* Deferred.await(held)
        for (let count = 0; count < 2 * ENGINE_CONNECTIONS; count++) yield* publish(yield* destination)
        // Before the store ends the first of the reads, after 15 s, and its connection is free.
        yield* Effect.timeout(
          eventually(renewed, ([row]) => row?.renewed === true),
          "12 seconds"
        )
        yield* Deferred.succeed(done, undefined)
        yield* Fiber.join(holder)
      }).pipe(
        Effect.provide(Delivery.layer(slow, { lease }).pipe(Layer.provide(StoreClock.layer)), { local: true })
      )
    }))

  test("finds a row at once that was written before, and committed after, one that it has read", () =>
    Effect.gen(function* () {
      const { channel, sent } = yield* answering(quick(), () => delivered)
      yield* Effect.gen(function* () {
        const early = yield* destination
        const late = yield* destination
        const written = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const slow = yield* Effect.forkChild(
          transaction(
            Effect.andThen(
              publish(early),
              Effect.andThen(Deferred.succeed(written, undefined), Deferred.await(commit))
            )
          ).pipe(elsewhere(channel))
        )
        yield* Deferred.await(written)
        yield* publish(late).pipe(elsewhere(channel))
        assert.strictEqual((yield* Queue.take(sent)).destination_id, late.destination_id)
        yield* Deferred.succeed(commit, undefined)
        assert.strictEqual((yield* Queue.take(sent)).destination_id, early.destination_id)
        yield* Fiber.join(slow)
        yield* records(early, all("delivered"))
      }).pipe(withEngine([channel], { reader: { pollMillis: 60_000, sweepMillis: 60_000 } }))
    }))

  test("has a partition for the attempts of each day, and drops the days that are over", () =>
    Effect.gen(function* () {
      const { channel } = yield* answering(quick(), () => delivered)
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        yield* sql.unsafe(
          "CREATE TABLE delivery_attempts_20200101 PARTITION OF delivery_attempts FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')"
        )
        const to = yield* destination
        yield* publish(to)
        yield* records(to, all("delivered"))
        // Whoever was killed cannot take its name out.
        yield* sql`INSERT INTO delivery_owners (owner, lease_until) VALUES ('dead', now() - interval '2 days')`
        // An attempt that ended after its destination had been removed says how that fared.
        yield* sql`
          INSERT INTO delivery_destinations (org_id, destination_id, consecutive_failures)
          VALUES ('org', 'removed', 1), (${to.org_id}, ${to.destination_id}, 1)
        `
        // The run that each start begins with is over by the end of this one.
        yield* delivery.runRetention
        assert.lengthOf(yield* sql`SELECT 1 WHERE to_regclass('delivery_attempts_20200101') IS NOT NULL`, 0)
        assert.lengthOf(yield* sql`SELECT owner FROM delivery_owners`, 1)
        assert.deepStrictEqual(yield* sql`SELECT destination_id FROM delivery_destinations`, [
          { destination_id: to.destination_id }
        ])
        assert.strictEqual((yield* delivery.runRetention).days, 0)
        const [place] = yield* sql<{ readonly name: string }>`
          SELECT tableoid::regclass::text AS name
          FROM delivery_attempts
        `
        const today = DateTime.formatIsoDateUtc(yield* DateTime.now).replaceAll("-", "")
        assert.strictEqual(place?.name, `delivery_attempts_${today}`)
        assert.lengthOf(yield* delivery.list(to.org_id, to.destination_id), 1)
      }).pipe(withEngine([channel]))
    }))

  test("goes on removing while there is more than one run takes, also where a partition cannot be made", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { channel } = yield* answering(quick(), () => delivered)
      const tomorrow = DateTime.formatIsoDateUtc(DateTime.add(yield* DateTime.now, { days: 1 }))
      yield* sql.unsafe(`CREATE TABLE delivery_attempts_${tomorrow.replaceAll("-", "")} (taken int)`)
      yield* sql`
        INSERT INTO deliveries
          (org_id, destination_id, delivery_id, channel, event_id, label, status, created_at)
        SELECT 'org', 'nep', 'ndl_' || lpad(n::text, 32, '0'), 'held', 'evt', 'label', 'delivered', '2020-01-01'
        FROM generate_series(1, 1500) n
      `
      yield* eventually(sql`SELECT 1 FROM deliveries LIMIT 1`, (rows) => rows.length === 0).pipe(
        withEngine([channel], { retention: { every: "1 hour", steps: 1 } })
      )
    }))

  test("leaves what is being written down to the next removal, and waits for nobody", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick())
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const delivery = yield* Delivery
        const to = yield* destination
        yield* publish(to)
        const held = yield* Queue.take(attempts)
        yield* aged
        const locked = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        const writer = yield* Effect.forkChild(
          transaction(
            sql`SELECT seq FROM delivery_queue FOR UPDATE`.pipe(
              Effect.andThen(Deferred.succeed(locked, undefined)),
              Effect.andThen(Deferred.await(release))
            )
          )
        )
        yield* Deferred.await(locked)
        assert.strictEqual((yield* delivery.runRetention).deliveries, 0)
        assert.lengthOf(yield* delivery.list(to.org_id, to.destination_id), 1)
        yield* Deferred.succeed(release, undefined)
        yield* Fiber.join(writer)
        assert.strictEqual((yield* delivery.runRetention).deliveries, 1)
        assert.strictEqual(yield* queued, 0)
        yield* held.end(delivered)
      }).pipe(withEngine([channel], { retention: { keep: "1 hour" } }))
    }))

  test("removes what is older than is kept, with what waited for it, of which its channel hears", () =>
    Effect.gen(function* () {
      const { channel } = yield* answering(quick(), (_, nth) => (nth === 1 ? delivered : failing))
      const hold = yield* heldChannel(quick({ concurrency: 1 }))
      const settled: Array<Settled> = []
      const waiting: Channel = {
        ...hold.channel,
        name: "waiting",
        settle: (list) => Effect.sync(() => void settled.push(...list))
      }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        const other = yield* destination
        yield* publish(to, 3)
        const events = yield* publish(other, 2, "waiting")
        yield* records(to, all("delivered"))
        const held = yield* Queue.take(hold.attempts)
        yield* aged
        assert.strictEqual((yield* delivery.runRetention).deliveries, 5)
        assert.lengthOf(yield* delivery.list(to.org_id, to.destination_id), 0)
        assert.lengthOf(yield* delivery.list(other.org_id, other.destination_id), 0)
        assert.strictEqual(yield* queued, 0)
        // The attempts that are under way, or in memory, end nothing any more: each end is told once.
        yield* held.end(delivered)
        yield* (yield* Queue.take(hold.attempts)).end(delivered)
        const another = yield* destination
        events.push(...(yield* publish(another, 1, "waiting")))
        yield* (yield* Queue.take(hold.attempts)).end(delivered)
        yield* records(another, all("delivered"))
        assert.sameDeepMembers(
          settled.map(({ parcel, status }) => [parcel.event_id, status]),
          events.map((event_id, index) => [event_id, index < 2 ? "failed" : "delivered"])
        )
      }).pipe(withEngine([channel, waiting], { retention: { keep: "1 hour" } }))
    }))

  test("carries several channels, each under its own ids, sizes and ends", () =>
    Effect.gen(function* () {
      const partial: Outcome = { _tag: "Partial", rejected: 3, error: "3 were rejected", status: 200 }
      const refusal: Outcome = { _tag: "Failed", error: "HTTP 400", status: 400 }
      const settled: Array<Settled> = []
      const held = yield* answering(quick(), () => delivered)
      const batches = yield* answering(quick({ cooldown: patient }), (_, nth) =>
        nth === 1 ? failing : partial
      )
      const other: Channel = {
        ...batches.channel,
        name: "batches",
        ids: { generate: Effect.map(DeliveryId.generate, (id) => id.replace("ndl", "tdl")) },
        settle: (list) => Effect.sync(() => void settled.push(...list))
      }
      const strict: Channel = {
        ...(yield* answering(quick(), () => refusal)).channel,
        name: "strict"
      }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        const event_id = yield* EventId.generate
        const [id] = yield* transaction(
          delivery.enqueue([{ ...to, channel: "batches", event_id, label: "spans", size: 512 }])
        )
        const [record] = yield* records(to, all("partial"))
        assert.strictEqual(record?.id, id)
        assert.match(record?.id ?? "", /^tdl_[0-9a-f]{32}$/)
        assert.strictEqual(record?.size, 512)
        assert.strictEqual(record?.rejected, 3)
        assert.strictEqual(record?.status_code, 200)
        assert.strictEqual(record?.attempts, 2)
        assert.strictEqual(record?.last_error, "3 were rejected")
        // Its end is told once; the attempt that was made again is no end.
        assert.deepStrictEqual(
          settled.map(({ outcome, parcel, status }) => [status, parcel.delivery_id, outcome]),
          [["partial", idOf(record), partial]]
        )
        const replay = yield* Effect.flip(delivery.replay(to.org_id, to.destination_id, idOf(record)))
        assert.strictEqual(replay.code, "NOT_REPLAYABLE")
        const plain = yield* destination
        yield* publish(plain)
        yield* records(plain, all("delivered"))
        const final = yield* destination
        yield* publish(final, 1, "strict")
        const [failed] = yield* records(final, all("failed"))
        assert.strictEqual(failed?.attempts, 1)
        assert.strictEqual(failed?.status_code, 400)
        // Retention finds each channel's ids.
        yield* aged
        assert.strictEqual((yield* delivery.runRetention).deliveries, 3)
      }).pipe(withEngine([held.channel, other, strict], { retention: { keep: "1 hour" } }))
    }))

  test("records as failed what its channel cannot settle, and writes every other as it ended", () =>
    Effect.gen(function* () {
      const { channel } = yield* answering(quick(), () => delivered)
      const bad: Channel = {
        ...channel,
        name: "bad",
        settle: () =>
          Effect.asVoid(
            Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1 / 0`).pipe(
              Effect.provideService(SqlClient.SqlClient, client)
            )
          )
      }
      const client = yield* SqlClient.SqlClient
      const broken: Channel = {
        ...channel,
        name: "broken",
        settle: () => Effect.die("a fault of the channel")
      }
      const settled: Array<Settled> = []
      const picky: Channel = {
        ...channel,
        name: "picky",
        settle: (list) =>
          list.some(({ status }) => status === "delivered")
            ? Effect.die("a fault of the channel")
            : Effect.sync(() => void settled.push(...list))
      }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const good = yield* destination
        const to = yield* destination
        const unlucky = yield* destination
        yield* publish(to, 1, "bad")
        yield* publish(unlucky, 1, "broken")
        yield* publish(good, 3)
        yield* records(good, all("delivered"))
        const [record] = yield* records(to, all("failed"))
        assert.strictEqual(record?.last_error, "internal error: the result could not be written")
        yield* records(unlucky, all("failed"))
        // A channel that can take in the failure hears of it.
        const other = yield* destination
        const [event_id] = yield* publish(other, 1, "picky")
        yield* records(other, all("failed"))
        assert.deepStrictEqual(
          settled.map(({ parcel, status }) => [parcel.event_id, status]),
          [[event_id, "failed"]]
        )
        assert.strictEqual(yield* queued, 0)
        yield* delivery.replay(to.org_id, to.destination_id, idOf(record))
        yield* records(to, (list) => list[0]?.replays === 1 && list[0].status === "failed")
      }).pipe(withEngine([channel, bad, broken, picky]))
    }))

  test("gives up when the time of the policy is over, counted from the queueing", () =>
    Effect.gen(function* () {
      const retry = { ...quick().retry, delays: Array.from({ length: 500 }, () => 20), within: 400 }
      const { channel } = yield* answering(quick({ cooldown: patient, retry }), () => failing)
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        yield* publish(to)
        const [record] = yield* records(to, all("failed"))
        const first = record?.attempts ?? 0
        assert.isAbove(first, 1)
        assert.isBelow(first, 40)
        // A replay has as much time again.
        yield* delivery.replay(to.org_id, to.destination_id, idOf(record))
        const [again] = yield* records(to, all("failed"))
        assert.isAbove(again?.attempts ?? 0, first + 1)
      }).pipe(withEngine([channel]))
    }))

  test("ends in time what waits for who hangs and is sent to one by one, and keeps it for a replay", () =>
    Effect.gen(function* () {
      const within = 400
      const retry = { ...quick().retry, delays: Array.from({ length: 500 }, () => 20), within }
      const cooldown = { after: 2, first: 0, longest: 0 }
      const { channel: well } = yield* answering(quick({ retry, cooldown }), () => delivered)
      let hangs = true
      let sent = 0
      const channel: Channel = {
        ...well,
        policy: { ...well.policy, deadlineMillis: 100 },
        load: (parcel) =>
          Effect.suspend(() => {
            sent++
            return hangs ? Effect.succeed(Effect.never) : well.load(parcel)
          })
      }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const to = yield* destination
        // More than a lane holds: one by one they would take twenty seconds.
        for (let count = 0; count < 10; count++) yield* publish(to, 10)
        yield* eventually(queued, (count) => count === 0)
        assert.isBelow(sent, 30)
        const list = yield* records(to, all("failed"))
        assert.deepInclude(list[0], { attempts: 0, last_error: "its time was over before its turn came" })
        hangs = false
        yield* delivery.replay(to.org_id, to.destination_id, idOf(list[0]))
        yield* records(to, (after) => after[0]?.status === "delivered")
      }).pipe(withEngine([channel]))
    }))

  test("has no more of a channel under way than its policy allows, and lets the others pass", () =>
    Effect.gen(function* () {
      const { attempts, channel } = yield* heldChannel(quick({ slots: 3 }))
      const other: Channel = { ...channel, name: "other" }
      yield* Effect.gen(function* () {
        const to = yield* Effect.replicateEffect(destination, 6)
        yield* Effect.forEach(to, (one) => publish(one), { discard: true })
        const first = yield* Queue.takeN(attempts, 3)
        const free = yield* destination
        yield* publish(free, 1, "other")
        const passed = yield* Queue.take(attempts)
        assert.strictEqual(passed.parcel.destination_id, free.destination_id)
        yield* passed.end(delivered)
        yield* records(free, all("delivered"))
        assert.strictEqual(yield* Queue.size(attempts), 0)
        for (const held of first) yield* held.end(delivered)
        for (const held of yield* Queue.takeN(attempts, 3)) yield* held.end(delivered)
        yield* eventually(queued, (count) => count === 0)
      }).pipe(withEngine([channel, other]))
    }))

  test("knows how it fares: what waits, what is overdue, what is under way, who cools down", () =>
    Effect.gen(function* () {
      const cooldown = { after: 1, first: 60_000, longest: 60_000 }
      const retry = { ...quick().retry, delays: [0, 0] }
      const { attempts, channel } = yield* heldChannel(quick({ concurrency: 1, cooldown, retry }))
      const other: Channel = { ...channel, name: "other" }
      yield* Effect.gen(function* () {
        const delivery = yield* Delivery
        const cools = yield* destination
        yield* publish(cools, 3, "other")
        yield* (yield* Queue.take(attempts)).end(failing)
        const busy = yield* destination
        yield* publish(busy, 4)
        const held = yield* Queue.take(attempts)
        const figures = yield* eventually(
          delivery.figures,
          ({ channels }) =>
            (channels.get("held")?.overdueSeconds ?? 0) > 0.2 && channels.get("other")?.cooling === 1
        )
        assert.strictEqual(figures.shards, SHARDS)
        const { overdueSeconds, ...of } = figures.channels.get("held") ?? assert.fail("a channel")
        assert.deepStrictEqual(of, { waiting: 4, inFlight: 1, cooling: 0 })
        assert.isBelow(overdueSeconds, 10)
        assert.deepStrictEqual(figures.channels.get("other"), {
          waiting: 3,
          inFlight: 0,
          cooling: 1,
          overdueSeconds: 0
        })
        yield* held.end(delivered)
        for (let i = 0; i < 3; i++) yield* (yield* Queue.take(attempts)).end(delivered)
        yield* eventually(delivery.figures, ({ channels }) => channels.get("held")?.overdueSeconds === 0)
      }).pipe(withEngine([channel, other], { reader: { sweepMillis: 50 } }))
    }))
})
