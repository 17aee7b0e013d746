import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Deferred, Duration, Effect, Fiber, Layer, Schema, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { RateLimited } from "../../../src/api/Problems.ts"
import { OrgId } from "../../../src/domain/Ids.ts"
import { LoopTurns, makeLoopTurns, nextTurn } from "../../../src/server/admission/LoopTurns.ts"
import { makeFairReads } from "../../../src/server/admission/FairReads.ts"
import {
  defaultUnsentLimits,
  makeUnsentResponses,
  UnsentResponses
} from "../../../src/server/admission/UnsentResponses.ts"
import { LimitUse } from "../../../src/server/observability/LimitUse.ts"
import { WorkLimits } from "../../../src/server/admission/WorkLimits.ts"
import { rowsOf } from "../../../src/server/store/rows.ts"
import { virtualTime } from "../../support/virtualLoopTime.ts"
import { layerNoLimits } from "../../support/layerNoLimits.ts"

const ok = Effect.succeed(HttpServerResponse.text("ok"))

const GET = { method: "GET" }

/** Turns that are always free, so that only permits make a read wait. */
const turnsWith = (options: {
  readonly hasCompany?: boolean
  readonly isContended?: boolean
  readonly hasTurns?: boolean
  readonly onTake?: () => void
  /** The wait for a turn within a request. */
  readonly wait?: Effect.Effect<void>
  readonly onCharge?: (key: string, millis: number) => void
}): LoopTurns => ({
  hasCompany: () => options.hasCompany ?? false,
  isContended: () => options.isContended ?? false,
  charge: (key, millis) => options.onCharge?.(key, millis),
  take: () =>
    Effect.andThen(
      options.wait ?? Effect.void,
      Effect.sync(() => options.onTake?.())
    ),
  takeWithin: () =>
    Effect.sync(() => {
      options.onTake?.()
      return options.hasTurns ?? true
    })
})

const freeTurns = turnsWith({})

/** With the default limits, where a test has no others. */
const defaultFairReads = Effect.contextWith((own: Context.Context<never>) =>
  Effect.provide(
    makeFairReads,
    Layer.effectContext(Effect.map(Layer.build(layerNoLimits), (limits) => Context.merge(limits, own)))
  )
)

/** Four reads of an organization that are in progress until `release`. */
const setUp = Effect.gen(function* () {
  const reads = yield* defaultFairReads
  const [org, other] = [yield* OrgId.generate, yield* OrgId.generate]
  const end = yield* Deferred.make<void>()
  const busy = yield* Effect.forkChild(
    Effect.replicateEffect(reads.run(org, GET)(Effect.andThen(Deferred.await(end), ok)), 4, {
      concurrency: "unbounded"
    })
  )
  yield* Effect.yieldNow
  return { reads, org, other, release: Effect.andThen(Deferred.succeed(end, undefined), Fiber.join(busy)) }
})

describe("FairReads", () => {
  it.effect("while other organizations send requests, a third concurrent read waits", () =>
    Effect.gen(function* () {
      const reads = yield* defaultFairReads
      const org = yield* OrgId.generate
      const end = yield* Deferred.make<void>()
      let started = 0
      const held = Effect.andThen(
        Effect.sync(() => void started++),
        Effect.andThen(Deferred.await(end), ok)
      )
      const all = yield* Effect.forkChild(
        Effect.replicateEffect(reads.run(org, GET)(held), 3, { concurrency: "unbounded" })
      )
      yield* Effect.yieldNow
      assert.strictEqual(started, 2)
      yield* Deferred.succeed(end, undefined)
      assert.lengthOf(yield* Fiber.join(all), 3)
    }).pipe(Effect.provideService(LoopTurns, turnsWith({ hasCompany: true })))
  )

  it.effect("a fifth concurrent read waits, while writes and other organizations' reads do not", () =>
    Effect.gen(function* () {
      const { org, other, reads, release } = yield* setUp
      const fifth = yield* Effect.forkChild(reads.run(org, GET)(ok))
      yield* Effect.yieldNow
      assert.strictEqual((yield* reads.run(other, GET)(ok)).status, 200)
      assert.strictEqual((yield* reads.run(org, { method: "POST" })(ok)).status, 200)
      assert.isUndefined(fifth.pollUnsafe())
      yield* release
      assert.strictEqual((yield* Fiber.join(fifth)).status, 200)
    }).pipe(Effect.provideService(LoopTurns, freeTurns))
  )

  it.effect(
    "with a limit of one read, a second one waits, also while other organizations send requests",
    () =>
      Effect.gen(function* () {
        const reads = yield* defaultFairReads
        const org = yield* OrgId.generate
        const end = yield* Deferred.make<void>()
        let started = 0
        const held = Effect.andThen(
          Effect.sync(() => void started++),
          Effect.andThen(Deferred.await(end), ok)
        )
        const both = yield* Effect.forkChild(
          Effect.replicateEffect(reads.run(org, GET)(held), 2, { concurrency: "unbounded" })
        )
        yield* Effect.yieldNow
        assert.strictEqual(started, 1)
        yield* Deferred.succeed(end, undefined)
        assert.lengthOf(yield* Fiber.join(both), 2)
      }).pipe(
        Effect.provideService(LoopTurns, turnsWith({ hasCompany: true })),
        Effect.provideService(WorkLimits, { reads: 1, largeBodyBytes: 0 })
      )
  )

  it.effect("a write takes a turn while the event loop is contended", () =>
    Effect.gen(function* () {
      const org = yield* OrgId.generate
      let taken = 0
      const write = Effect.fnUntraced(function* (isContended: boolean) {
        const reads = yield* defaultFairReads.pipe(
          Effect.provideService(
            LoopTurns,
            turnsWith({ hasCompany: true, isContended, onTake: () => taken++ })
          )
        )
        yield* reads.run(org, { method: "POST" })(ok)
        return taken
      })
      assert.strictEqual(yield* write(false), 0)
      assert.strictEqual(yield* write(true), 1)
    })
  )

  it.effect.each(["POST", "GET"])(
    "a %s without a turn for five seconds fails with 429, and is not executed",
    (method) => {
      const refusals: Array<string> = []
      return Effect.gen(function* () {
        const reads = yield* defaultFairReads
        const org = yield* OrgId.generate
        const problem = yield* Effect.flip(reads.run(org, { method })(Effect.die("must not start")))
        assert.instanceOf(problem, RateLimited)
        assert.include(problem.detail, "waited 5 s for its turn")
        assert.deepStrictEqual(refusals, ["event_loop_turns"])
      }).pipe(
        Effect.provideService(LoopTurns, turnsWith({ isContended: true, hasTurns: false })),
        Effect.provideService(LimitUse, {
          used: () => undefined,
          refused: (limit) => void refusals.push(limit),
          collect: Effect.void
        })
      )
    }
  )

  it.effect(
    "a read is charged for its time and the size of its response, up to a limit, and a write is",
    () =>
      Effect.gen(function* () {
        const org = yield* OrgId.generate
        const charged: Array<number> = []
        const reads = yield* defaultFairReads.pipe(
          Effect.provideService(
            LoopTurns,
            turnsWith({ hasCompany: true, onCharge: (_, millis) => charged.push(millis) })
          )
        )
        const page = (kibibytes: number, millis = 0) =>
          Effect.as(Effect.sleep(millis), HttpServerResponse.uint8Array(new Uint8Array(kibibytes * 1_024)))
        yield* reads.run(org, GET)(page(100))
        yield* reads.run(org, GET)(page(10_000))
        yield* reads.run(org, { method: "POST" })(page(100))
        const slow = yield* Effect.forkChild(reads.run(org, GET)(page(0, 10)))
        yield* Effect.yieldNow
        yield* TestClock.adjust(10)
        yield* Fiber.join(slow)
        assert.deepStrictEqual(charged, [1.5, 20, 0.5, 3.5])
      })
  )

  it.effect("a read is not charged for its waits for turns", () =>
    Effect.gen(function* () {
      const org = yield* OrgId.generate
      const charged: Array<number> = []
      const reads = yield* defaultFairReads.pipe(
        Effect.provideService(
          LoopTurns,
          turnsWith({ wait: Effect.sleep(100), onCharge: (_, millis) => charged.push(millis) })
        )
      )
      const statement = Effect.sleep(5)
      const read = yield* Effect.forkChild(
        reads.run(org, GET)(Effect.andThen(Effect.all([nextTurn, statement, nextTurn]), ok))
      )
      for (const millis of [100, 5, 100]) {
        yield* Effect.yieldNow
        yield* TestClock.adjust(millis)
      }
      yield* Fiber.join(read)
      assert.lengthOf(charged, 1)
      assert.approximately(charged[0]!, 0.5 + 5 * 0.3, 0.001)
    })
  )

  it.effect(
    "beside an organization with few requests, reads are not throttled below a fifth of the event loop",
    () =>
      Effect.gen(function* () {
        const { elapse, time, work } = virtualTime()
        const clock: Clock.Clock = Object.assign({}, yield* Clock.Clock, {
          monotonicTimeNanosUnsafe: () => BigInt(Math.round(time.now() * 1e6)),
          sleep: (duration: Duration.Duration) => sleep(Duration.toMillis(duration))
        })
        const sleep = (millis: number) =>
          Effect.callback<void>((resume) => {
            const cancel = time.after(millis, () => resume(Effect.void))
            return Effect.sync(cancel)
          })
        const reads = yield* defaultFairReads.pipe(Effect.provideService(LoopTurns, makeLoopTurns(time)))
        const [org, other] = [yield* OrgId.generate, yield* OrgId.generate]
        const step = Effect.andThen(
          nextTurn,
          Effect.sync(() => work(1))
        )
        let done = 0
        const read = (org_id: OrgId) =>
          reads.run(org_id, GET)(Effect.andThen(Effect.all([sleep(5), step, step]), ok))
        const reader = Effect.forever(Effect.tap(read(org), () => Effect.sync(() => done++)))
        const run = Effect.gen(function* () {
          const readers = yield* Effect.forkChild(
            Effect.replicateEffect(reader, 8, { concurrency: "unbounded", discard: true })
          )
          yield* Effect.replicateEffect(Effect.andThen(read(other), sleep(400)), 10, { discard: true })
          yield* Fiber.interrupt(readers)
        })
        yield* Effect.provideService(elapse(run), Clock.Clock, clock)
        // Each takes two milliseconds of it. If they were charged for their waits, they would get 3 %.
        assert.isAtLeast((2 * done) / time.now(), 0.2)
      })
  )

  it.effect("a read that fails or is interrupted is charged too", () =>
    Effect.gen(function* () {
      const org = yield* OrgId.generate
      const charged: Array<number> = []
      const reads = yield* defaultFairReads.pipe(
        Effect.provideService(LoopTurns, turnsWith({ onCharge: (_, millis) => charged.push(millis) }))
      )
      const run = (read: Effect.Effect<HttpServerResponse.HttpServerResponse, string>) =>
        Effect.forkChild(Effect.exit(reads.run(org, GET)(Effect.andThen(Effect.sleep(10), read))))
      const failed = yield* run(Effect.fail("failed"))
      yield* Effect.yieldNow
      yield* TestClock.adjust(10)
      yield* Fiber.join(failed)
      const interrupted = yield* run(Effect.never)
      yield* Effect.yieldNow
      yield* TestClock.adjust(20)
      yield* Fiber.interrupt(interrupted)
      assert.deepStrictEqual(charged, [0.5 + 10 * 0.3, 0.5 + 20 * 0.3])
    })
  )

  it.effect("the rows of a read are decoded in a turn of their own, also within the parts of an export", () =>
    Effect.gen(function* () {
      let taken = 0
      const reads = yield* defaultFairReads.pipe(
        Effect.provideService(LoopTurns, turnsWith({ onTake: () => taken++ }))
      )
      const org = yield* OrgId.generate
      const rows = rowsOf(Schema.Struct({ n: Schema.Number }))
      const read = (count: number) =>
        rows.all(Effect.succeed(Array.from({ length: count }, (_, n) => ({ n }))))
      const takenBy = Effect.fnUntraced(function* <E>(operation: Effect.Effect<unknown, E>, method: string) {
        taken = 0
        yield* reads.run(org, { method })(Effect.andThen(operation, ok))
        return taken
      })
      assert.strictEqual(yield* takenBy(read(100), "GET"), 1 + 1)
      assert.strictEqual(yield* takenBy(read(2), "GET"), 1)
      assert.strictEqual(yield* takenBy(read(100), "POST"), 0)
      taken = 0
      const part = Stream.fromEffect(Effect.as(read(100), Buffer.from("a")))
      const { body } = yield* reads.run(
        org,
        GET
      )(Effect.succeed(HttpServerResponse.stream(part, { contentType: "application/x-ndjson" })))
      if (body._tag === "Stream") yield* Stream.runDrain(body.stream)
      // The request, the rows, and the part.
      assert.strictEqual(taken, 3)
    })
  )

  it.effect("each part of an export takes a turn, and the events of a stream do not", () =>
    Effect.gen(function* () {
      let taken = 0
      const reads = yield* defaultFairReads.pipe(
        Effect.provideService(LoopTurns, turnsWith({ onTake: () => taken++ }))
      )
      const org = yield* OrgId.generate
      const streamed = Effect.fnUntraced(function* (contentType: string) {
        taken = 0
        const parts = ["a", "b", "c"].map((text) => Stream.succeed(Buffer.from(text)))
        const stream = Stream.concat(Stream.concat(parts[0]!, parts[1]!), parts[2]!)
        const { body } = yield* reads.run(
          org,
          GET
        )(Effect.succeed(HttpServerResponse.stream(stream, { contentType })))
        assert.strictEqual(body._tag, "Stream")
        if (body._tag !== "Stream") return []
        const read = yield* Stream.runCollect(body.stream)
        return [Buffer.concat([...read]).toString(), taken]
      })
      assert.deepStrictEqual(yield* streamed("application/x-ndjson"), ["abc", 1 + 3])
      assert.deepStrictEqual(yield* streamed("text/event-stream"), ["abc", 1])
    })
  )

  it.effect("a read that waits five seconds fails with 429, which says how many run at a time", () => {
    const refusals: Array<string> = []
    return Effect.gen(function* () {
      const { org, reads, release } = yield* setUp
      const fifth = yield* Effect.forkChild(Effect.flip(reads.run(org, GET)(Effect.die("must not start"))))
      yield* Effect.yieldNow
      yield* TestClock.adjust("5 seconds")
      const problem = yield* Fiber.join(fifth)
      assert.instanceOf(problem, RateLimited)
      assert.include(problem.detail, "4 run at a time")
      assert.deepStrictEqual(refusals, ["concurrent_reads"])
      yield* release
    }).pipe(
      Effect.provideService(LoopTurns, freeTurns),
      Effect.provideService(LimitUse, {
        used: () => undefined,
        refused: (limit) => void refusals.push(limit),
        collect: Effect.void
      })
    )
  })

  it.effect("a read of an organization that does not read its responses waits, then gets 429", () =>
    Effect.gen(function* () {
      const unsent = makeUnsentResponses()
      const reads = yield* defaultFairReads.pipe(Effect.provideService(UnsentResponses, unsent))
      const [org, other] = [yield* OrgId.generate, yield* OrgId.generate]
      const bytes = defaultUnsentLimits.bytesPerOwner
      const sent = unsent.add({ owner: org, bytes, length: bytes, limited: true, cut: () => undefined })
      let executed = 0
      const read = Effect.andThen(
        Effect.sync(() => executed++),
        ok
      )
      const refused = yield* Effect.forkChild(Effect.flip(reads.run(org, GET)(read)))
      yield* Effect.yieldNow
      assert.strictEqual((yield* reads.run(other, GET)(ok)).status, 200)
      assert.strictEqual((yield* reads.run(org, { method: "POST" })(ok)).status, 200)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(refused))._tag, "RATE_LIMITED")
      assert.strictEqual(executed, 0)
      sent()
      yield* reads.run(org, GET)(read)
      assert.strictEqual(executed, 1)
    }).pipe(Effect.provideService(LoopTurns, freeTurns))
  )

  it.effect("a large response keeps its bytes and headers, not its text", () =>
    Effect.gen(function* () {
      const reads = yield* defaultFairReads
      const org = yield* OrgId.generate
      const text = JSON.stringify({ text: "ä".repeat(600_000) })
      const response = HttpServerResponse.text(text, {
        status: 201,
        contentType: "application/json",
        headers: { "x-a": "b" }
      })
      const sent = yield* reads.run(org, { method: "POST" })(Effect.succeed(response))
      assert.strictEqual(sent.status, 201)
      assert.deepStrictEqual({ ...sent.headers }, { ...response.headers })
      assert(sent.body._tag === "Uint8Array")
      assert.isUndefined(sent.body.text)
      assert.strictEqual(Buffer.from(sent.body.body).toString(), text)
    }).pipe(Effect.provideService(LoopTurns, freeTurns))
  )
})
