import type { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect, Exit } from "effect"
import type { SqlClient } from "effect/sql"
import fc from "fast-check"
import type { Health } from "../../../src/domain/delivery/Cooldown.ts"
import type { Conclusion } from "../../../src/domain/delivery/DeliveryState.ts"
import { EventId, OrgId } from "../../../src/domain/Ids.ts"
import type { QueueRow } from "../../../src/server/delivery/Delivery/QueuedDelivery.ts"
import type { PreparedDelivery } from "../../../src/server/delivery/Delivery/QueueWrites.ts"
import { shardOf, SHARDS } from "../../../src/server/delivery/Delivery/shardOf.ts"
import { TestDatabase } from "../../support/postgres.ts"
import {
  type Blocker,
  concluded,
  laneOf,
  makeModelSubject,
  makeSqlSubject,
  type OpenTransaction,
  QUEUE_LIMIT,
  type Subject
} from "./subjects.ts"

/** Sequences of statements that are compared. */
const RUNS = 25

/** Timeout on a busy machine. */
const TEST_MILLIS = 120_000

/** The two clocks differ by less, in milliseconds; all durations of the commands are whole seconds and a half. */
const CLOCK_MILLIS = 400

const hex = (number: number): string => number.toString(16).padStart(32, "0")

/** Two of them are in one shard. */
const destinations = [0, 1, 2, 197].map((number) => {
  const destination_id = `nep_${hex(number)}`
  return { org_id: OrgId.make(`org_${hex(number % 2)}`), destination_id, shard: shardOf(destination_id) }
})

const destination = fc.integer({ min: 0, max: destinations.length - 1 })
const owner = fc.constantFrom("one", "two")
const shards = [...new Set(destinations.map((one) => one.shard))]
const shard = fc.constantFrom(...shards)
/** All shards, or some of the first. */
const wanted = fc.constantFrom(0, 5, 16, 100, SHARDS)

/** A result to record, for the queue row at a place of the destination; `attempt` and `epoch` may be wrong. */
const result = fc.record({
  destination,
  place: fc.integer({ min: 0, max: 2 }),
  attempt: fc.constantFrom(0, 0, 0, -1, 1),
  epoch: fc.constantFrom(0, 0, 0, -1, 1),
  verdict: fc.constantFrom<Conclusion>(
    { _tag: "Delivered" },
    { _tag: "Failed", error: "HTTP 400" },
    { _tag: "RetryLater", delay: 2_500, error: "HTTP 503" }
  )
})

const savedHealth = fc.record({
  destination,
  epoch: fc.constantFrom(0, 0, 0, -1),
  health: fc.constantFrom<Health>(
    { _tag: "Healthy", failures: 0 },
    { _tag: "Healthy", failures: 2 },
    { _tag: "CoolingDown", failures: 3, round: 1, until: 3_500 },
    { _tag: "Probing", failures: 5, round: 2 }
  )
})

const command = fc.oneof(
  fc.record({
    tag: fc.constant("insert"),
    destination,
    // One at a time: a statement numbers its rows in any order.
    count: fc.constant(1),
    queueLimit: fc.constantFrom(QUEUE_LIMIT, 300, 300, 300)
  }),
  fc.record({ tag: fc.constant("insertUnderLock"), destination, count: fc.integer({ min: 1, max: 4 }) }),
  fc.record({
    tag: fc.constant("open"),
    blocker: fc.constantFrom("Insert", "Attempt", "Log", "Health"),
    destination
  }),
  fc.record({ tag: fc.constant("end"), how: fc.constantFrom("commit", "rollback") }),
  fc.record({ tag: fc.constant("claim"), owner, wanted }),
  fc.record({ tag: fc.constant("heartbeat"), owner, draining: fc.boolean() }),
  fc.record({ tag: fc.constant("release"), owner, destinations: fc.array(destination, { maxLength: 3 }) }),
  fc.record({ tag: fc.constant("deregister"), owner }),
  fc.record({ tag: fc.constant("endLease"), owner }),
  fc.record({ tag: fc.constant("expire"), owner }),
  fc.record({
    tag: fc.constant("tail"),
    reread: fc.nat({ max: 5 }),
    read: fc.nat({ max: 5 }),
    limit: fc.integer({ min: 1, max: 5 })
  }),
  fc.record({
    tag: fc.constant("sweep"),
    shards: fc.uniqueArray(shard),
    after: fc.option(destination),
    horizonMillis: fc.constantFrom(0, 1_000, 60_000)
  }),
  fc.record({
    tag: fc.constant("refill"),
    destinations: fc.array(destination, { maxLength: 3 }),
    rows: fc.integer({ min: 1, max: 3 })
  }),
  fc.record({ tag: fc.constant("record"), results: fc.array(result, { minLength: 1, maxLength: 3 }) }),
  fc.record({ tag: fc.constant("saveHealth"), list: fc.array(savedHealth, { minLength: 1, maxLength: 2 }) }),
  fc.record({ tag: fc.constant("replay"), destination, place: fc.integer({ min: 0, max: 6 }) }),
  fc.record({ tag: fc.constant("endCooldown"), destination }),
  fc.record({ tag: fc.constant("discard"), destination }),
  fc.record({ tag: fc.constant("advance"), millis: fc.constantFrom(1_000, 3_000, 60_000) })
)
type Command = typeof command extends fc.Arbitrary<infer A> ? A : never

/** One subject in the course of a sequence. */
class Course {
  readonly subject: Subject
  #open: OpenTransaction | undefined
  /** Statements that wait for the open transaction. */
  #waiting: Array<{ readonly result: Effect.Effect<unknown, unknown> }> = []
  #ids = 0
  readonly #published: Array<{ readonly destination: number; readonly id: string }> = []

  constructor(subject: Subject) {
    this.subject = subject
  }

  /** Runs a command; what it returns must be the same for both subjects. */
  run(command: Command): Effect.Effect<unknown, unknown> {
    const { subject } = this
    const to = "destination" in command ? destinations[command.destination] : undefined
    switch (command.tag) {
      case "insert": {
        const list = this.#prepare(command.destination, command.count, command.queueLimit)
        return Effect.map(subject.run(subject.insert(list)), (rows) =>
          rows
            .map(({ consecutive_failures, cooldown_round, delivery_id, is_full, seq, waiting }) => ({
              delivery_id,
              is_full,
              waiting,
              isQueued: seq !== null,
              consecutive_failures,
              cooldown_round
            }))
            .toSorted(byId)
        )
      }
      case "insertUnderLock":
        return subject.run(subject.insertUnderLock(this.#prepare(command.destination, command.count)))
      case "open":
        return to === undefined
          ? Effect.void
          : this.#openTransaction(command.blocker, command.destination, to)
      case "end":
        return this.end(command.how)
      case "claim":
        return Effect.map(subject.run(subject.shards(command.owner).claim(command.wanted)), (claimed) =>
          claimed
            .map(({ watermark, ...one }) => ({ ...one, hasRows: watermark > 0 }))
            .toSorted((a, b) => a.shard - b.shard)
        )
      case "heartbeat":
        return Effect.map(
          subject.run(
            subject.shards(command.owner).heartbeat({
              leaseMillis: 3_600_000,
              heartbeatTimeoutMillis: 3_600_000,
              draining: command.draining
            })
          ),
          ({ epochs, ...found }) => ({ ...found, epochs: [...epochs].toSorted((a, b) => a[0] - b[0]) })
        )
      case "release":
        return subject.run(
          subject
            .shards(command.owner)
            .release(
              command.destinations.map((number) => shardOf(destinations[number]?.destination_id ?? ""))
            )
        )
      case "endLease":
        return subject.run(subject.shards(command.owner).endLease)
      case "deregister":
        return subject.run(subject.shards(command.owner).deregister)
      case "expire":
        return subject.run(subject.expireLease(command.owner))
      case "tail":
        return Effect.gen({ self: this }, function* () {
          const seqs = (yield* this.#rows()).map(({ seq }) => seq)
          const reread = seqs[command.reread - 1] ?? 0
          const watermark = Math.max(reread, seqs[command.read - 1] ?? 0)
          const ranges = shards.map((shard) => ({ shard, reread, watermark }))
          return described(yield* subject.run(subject.store.tail(ranges, command.limit)))
        })
      case "sweep":
        return Effect.gen(function* () {
          const nonEmpty = yield* subject.run(subject.store.nonEmpty(command.shards))
          const after = command.after === null ? undefined : destinations[command.after]
          const positions = command.shards.map((shard) =>
            shard === after?.shard ? after : { shard, org_id: "", destination_id: "" }
          )
          const heads = yield* subject.run(subject.store.heads(positions, command.horizonMillis))
          return [
            nonEmpty.toSorted((a, b) => a.shard - b.shard),
            described(heads),
            heads.map(({ cooling_down, lanes, shard }) => [shard, lanes, cooling_down])
          ]
        })
      case "refill": {
        const lanes = [...new Set(command.destinations)].flatMap((number) => destinations[number] ?? [])
        return Effect.map(subject.run(subject.store.refill(lanes, command.rows)), described)
      }
      case "record":
        return this.#record(command.results)
      case "saveHealth": {
        const list = new Map(command.list.map((one) => [one.destination, one]))
        return Effect.flatMap(this.#epochs(), (epochs) => {
          const now = subject.monotonicMillis()
          const lanes = [...list.values()].flatMap(({ destination, epoch, health }) => {
            const of = destinations[destination]
            if (of === undefined) return []
            const lane = laneOf(of, (epochs.get(shardOf(of.destination_id)) ?? 0) + epoch)
            return [
              [
                lane,
                health._tag === "CoolingDown" ? { ...health, until: now + health.until } : health
              ] as const
            ]
          })
          return Effect.map(subject.run(subject.store.saveHealth(new Map(lanes))), (locked) =>
            [...locked].toSorted()
          )
        })
      }
      case "replay": {
        const of = this.#published.filter((one) => one.destination === command.destination)[command.place]
        if (of === undefined || to === undefined || this.#open !== undefined) return Effect.void
        return subject.run(subject.replay(to.org_id, to.destination_id, of.id))
      }
      case "endCooldown":
        if (to === undefined || this.#open !== undefined) return Effect.void
        return subject.run(subject.endCooldown(to.org_id, to.destination_id))
      case "discard":
        if (to === undefined || this.#open !== undefined) return Effect.void
        return subject.run(subject.discard(to.org_id, to.destination_id))
      case "advance":
        subject.advance(command.millis)
        return Effect.void
    }
  }

  /** Ends the open transaction; returns what the statements that waited for it found. */
  end(how: "commit" | "rollback"): Effect.Effect<unknown, unknown> {
    const open = this.#open
    const waiting = this.#waiting
    this.#open = undefined
    this.#waiting = []
    if (open === undefined) return Effect.void
    return Effect.andThen(
      open.end(how),
      Effect.forEach(waiting, ({ result }) =>
        Effect.map(Effect.exit(result), (exit) => (Exit.isSuccess(exit) ? exit.value : "failed"))
      )
    )
  }

  #prepare(number: number, count: number, queueLimit = QUEUE_LIMIT): ReadonlyArray<PreparedDelivery> {
    const of = destinations[number]
    if (of === undefined) return []
    return Array.from({ length: count }, (): PreparedDelivery => {
      const id = `ndl_${hex(++this.#ids)}`
      this.#published.push({ destination: number, id })
      return {
        ...of,
        delivery_id: id,
        channel: "contract",
        event_id: EventId.make(`evt_${hex(this.#ids)}`),
        label: "",
        size: 1,
        queueLimit,
        delayMillis: 500,
        maxElapsedMillis: null
      }
    })
  }

  #openTransaction(
    tag: string,
    number: number,
    to: (typeof destinations)[number]
  ): Effect.Effect<unknown, unknown> {
    if (this.#open !== undefined) return Effect.void
    const blocker: Blocker =
      tag === "Insert"
        ? { _tag: "Insert", list: this.#prepare(number, 1, 300) }
        : { _tag: tag === "Attempt" || tag === "Log" ? tag : "Health", to }
    return Effect.map(this.subject.open(blocker), (open) => {
      this.#open = open
    })
  }

  /** The current fencing token of each shard. */
  #epochs(): Effect.Effect<ReadonlyMap<number, number>, unknown> {
    return Effect.map(
      this.subject.dump,
      (lines) =>
        new Map(
          lines
            .map((line) => line.split(" "))
            .flatMap((words) =>
              words[0] === "shard" ? [[Number(words[1]), Number(words.at(-1))] as const] : []
            )
        )
    )
  }

  /** The queue, in the order of row numbers. */
  #rows() {
    const { run, store } = this.subject
    return Effect.map(run(store.refill(destinations, 100)), (rows) => rows.toSorted((a, b) => a.seq - b.seq))
  }

  #record(
    results: ReadonlyArray<typeof result extends fc.Arbitrary<infer A> ? A : never>
  ): Effect.Effect<unknown, unknown> {
    const { subject } = this
    return Effect.gen({ self: this }, function* () {
      const epochs = yield* this.#epochs()
      const rows = yield* this.#rows()
      const used = new Set<number>()
      const batch = results.flatMap(({ attempt, destination, epoch, place, verdict }) => {
        const of = destinations[destination]
        const row = rows.filter((one) => one.destination_id === of?.destination_id)[place]
        if (row === undefined || used.has(row.seq)) return []
        used.add(row.seq)
        return [
          concluded(
            row,
            (epochs.get(shardOf(row.destination_id)) ?? 0) + epoch,
            row.attempt + attempt,
            verdict
          )
        ]
      })
      const names = new Map(rows.map((row) => [row.seq, row.delivery_id]))
      const namesOf = (rows: ReadonlySet<number>) => Array.from(rows, (seq) => names.get(seq)).toSorted()
      const recorded = Effect.map(subject.store.recordResults(batch), ({ locked, written }) => ({
        written: namesOf(written),
        locked: namesOf(locked)
      }))
      if (this.#open === undefined) return yield* subject.run(recorded)
      // It waits for the open transaction if that has locked its deliveries in the log.
      this.#waiting.push(yield* subject.start(recorded))
      return yield* this.end(results.length % 2 === 0 ? "commit" : "rollback")
    })
  }
}

const byId = (a: { readonly delivery_id: string }, b: { readonly delivery_id: string }) =>
  a.delivery_id < b.delivery_id ? -1 : 1

/** Rows as both subjects must return them; times are rounded, as the subjects' clocks differ a little. */
const described = (rows: ReadonlyArray<QueueRow>) =>
  rows
    .map(
      ({
        attempt,
        consecutive_failures,
        cooldown_ms,
        cooldown_round,
        delivery_id,
        first_attempt,
        left_ms,
        wait_ms
      }) => ({
        delivery_id,
        attempt,
        first_attempt,
        left_ms,
        consecutive_failures,
        cooldown_round,
        wait: Math.round((wait_ms - CLOCK_MILLIS / 2) / 1_000),
        cooldown: cooldown_ms === null ? null : Math.round((cooldown_ms - CLOCK_MILLIS / 2) / 1_000)
      })
    )
    .toSorted(byId)

/** Runs the commands over both, and compares what they return, and the tables at the end. */
const compare = Effect.fnUntraced(function* (commands: ReadonlyArray<Command>) {
  const real = new Course(yield* makeSqlSubject)
  const model = new Course(makeModelSubject())
  yield* Effect.gen(function* () {
    for (const command of commands) {
      const expected = yield* real.run(command)
      assert.deepStrictEqual(yield* model.run(command), expected, JSON.stringify(command))
    }
    assert.deepStrictEqual(yield* model.end("commit"), yield* real.end("commit"))
    assert.deepStrictEqual(yield* model.subject.dump, yield* real.subject.dump)
  }).pipe(Effect.ensuring(Effect.ignore(real.end("rollback"))))
}, Effect.scoped)

layer(TestDatabase.layerSql, { excludeTestServices: true })("The model of the store", (it) => {
  it.effect(
    "does what PostgreSQL does with the statements of the delivery engine, also when they wait for each other",
    () =>
      Effect.gen(function* () {
        const run = Effect.runPromiseWith(
          yield* Effect.context<TestDatabase | SqlClient.SqlClient | PgClient.PgClient>()
        )
        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(fc.array(command, { minLength: 10, maxLength: 40 }), (commands) =>
              run(compare(commands))
            ),
            { numRuns: RUNS }
          )
        )
      }),
    TEST_MILLIS
  )
})
