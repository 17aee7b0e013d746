import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Latch, Stream } from "effect"
import { TestClock } from "effect/testing"
import fc from "fast-check"
import { KeyId, OrgId, SessionId } from "../../../../src/domain/Ids.ts"
import { type Hub, makeHub } from "../../../../src/server/approvals/SessionStream/Hub.ts"
import type { ReadResult } from "../../../../src/server/approvals/SessionStream/Subscription.ts"

/**
 * A hub over one session in memory; `store` counts its events and the reads of pages. `resultYields`: how often other fibers run
 * between the snapshot of a read and its result.
 */
const hubOver = Effect.fnUntraced(function* (
  options: { readonly pageEvents?: number; readonly resultYields?: () => number } = {}
) {
  const key_id = yield* KeyId.generate
  const session = { org_id: yield* OrgId.generate, session_id: yield* SessionId.generate }
  const store: {
    newest: number
    reads: number
    gap: boolean
    /** Runs between the snapshot of a read and its result. */
    duringRead: (() => void) | undefined
  } = { newest: 0, reads: 0, gap: false, duringRead: undefined }
  const read = (after: number): ReadResult => {
    store.reads++
    if (store.gap) return { _tag: "Gap" }
    if (store.newest <= after) return { _tag: "UpToDate", newest: store.newest }
    const last = Math.min(store.newest, after + (options.pageEvents ?? 100))
    return {
      _tag: "EventsRead",
      bytes: Buffer.from(`${after + 1}-${last};`),
      last,
      newest: store.newest,
      closes: false
    }
  }
  const hub = makeHub({
    clock: yield* Clock.Clock,
    maxStreams: 20_000,
    maxPerOrganization: 15_000,
    heartbeatMillis: 15_000,
    sendTimeoutMillis: 30_000,
    read: Effect.fnUntraced(function* (_, after) {
      yield* Effect.yieldNow
      const result = read(after)
      store.duringRead?.()
      yield* yields(options.resultYields?.() ?? 0)
      return result
    }),
    fork: (reading) => void Effect.runFork(reading)
  })
  const add = (count: number) => {
    store.newest += count
    hub.signal([{ session_id: session.session_id, newest: store.newest }])
  }
  return {
    add,
    hub,
    key_id,
    session,
    store,
    stream: (cursor = 0) => Stream.unwrap(Effect.orDie(hub.open(session, key_id, cursor)))
  }
})

/** Reads a stream in a fiber, and by default until the stream waits; `text` is the text so far. */
const follow = Effect.fnUntraced(function* (stream: Stream.Stream<Uint8Array>, times = 50) {
  const received = { text: "" }
  const fiber = yield* stream.pipe(
    Stream.decodeText(),
    Stream.runForEach((text) => Effect.sync(() => void (received.text += text))),
    Effect.forkChild
  )
  yield* yields(times)
  return Object.assign(received, { fiber })
})

/** Lets other fibers run so many times. */
const yields = (times: number) =>
  times === 0 ? Effect.void : Effect.repeat(Effect.yieldNow, { times: times - 1 })

/** Lets every fiber run until it suspends: nothing here waits for I/O. */
const settled = yields(100)

const PREAMBLE = "retry: 3000\n"
const HEARTBEAT = ": heartbeat\n"

const sizes = (hub: Hub) => ({ streams: hub.size(), sessions: hub.followedSessions().length })

describe("Hub", () => {
  it.effect("streams at the same cursor share one read", () =>
    Effect.gen(function* () {
      const { add, hub, store, stream } = yield* hubOver()
      const readers = yield* Effect.forEach(Array.from({ length: 50 }), () => follow(stream()))
      assert.deepStrictEqual(sizes(hub), { streams: 50, sessions: 1 })
      store.reads = 0
      add(3)
      yield* settled
      for (const { text } of readers) assert.strictEqual(text, `${PREAMBLE}1-3;`)
      assert.strictEqual(store.reads, 1)
      yield* Effect.forEach(readers, ({ fiber }) => Fiber.interrupt(fiber))
      assert.deepStrictEqual(sizes(hub), { streams: 0, sessions: 0 })
    })
  )

  it.effect("pages are read one after the other until a stream is up to date", () =>
    Effect.gen(function* () {
      const { add, store, stream } = yield* hubOver({ pageEvents: 4 })
      store.newest = 6
      const reader = yield* follow(stream(1))
      assert.strictEqual(reader.text, `${PREAMBLE}2-5;6-6;`)
      add(1)
      add(4)
      yield* settled
      assert.strictEqual(reader.text, `${PREAMBLE}2-5;6-6;7-10;11-11;`)
    })
  )

  it.effect("after a premature signal a stream waits, and gets the event after the next signal", () =>
    Effect.gen(function* () {
      const { hub, session, store, stream } = yield* hubOver()
      const reader = yield* follow(stream())
      hub.signal([{ session_id: session.session_id, newest: 1 }])
      yield* settled
      assert.strictEqual(reader.text, PREAMBLE)
      // The poll compares with the newest number of the hub, which must not exceed the last one that was read.
      assert.strictEqual(hub.followedSessions()[0]?.newest, 0)
      store.newest = 1
      hub.signal([{ session_id: session.session_id, newest: 1 }])
      yield* settled
      assert.strictEqual(reader.text, `${PREAMBLE}1-1;`)
    })
  )

  it.effect("a stream gets an event whose signal arrives while an older page is being read", () =>
    Effect.gen(function* () {
      const { add, hub, session, store, stream } = yield* hubOver()
      const reader = yield* follow(stream())
      // The read that this signal starts sees nothing: the event is not visible yet.
      hub.signal([{ session_id: session.session_id, newest: 1 }])
      store.duringRead = () => {
        store.duringRead = undefined
        add(2)
      }
      yield* settled
      assert.strictEqual(reader.text, `${PREAMBLE}1-2;`)
      store.duringRead = () => {
        store.duringRead = undefined
        add(1)
      }
      add(1)
      yield* settled
      assert.strictEqual(reader.text, `${PREAMBLE}1-2;3-3;4-4;`)
    })
  )

  it.effect("a stream that waits gets the events that a new stream reads before their signal arrives", () =>
    Effect.gen(function* () {
      const { add, hub, store, stream } = yield* hubOver()
      const waiting = yield* follow(stream())
      store.newest = 2
      const opened = yield* follow(stream(1))
      assert.strictEqual(opened.text, `${PREAMBLE}2-2;`)
      assert.strictEqual(waiting.text, `${PREAMBLE}1-2;`)
      assert.strictEqual(hub.followedSessions()[0]?.newest, 2)
      // The late signal reads nothing again.
      store.reads = 0
      add(0)
      yield* settled
      assert.strictEqual(store.reads, 0)
    })
  )

  it("every stream gets every event once and in order, whatever the order of commits, signals, reads and new streams", () => {
    const step = fc.oneof(
      fc.constant({ tag: "commit" } as const),
      fc.constant({ tag: "signal" } as const),
      fc.constant({ tag: "poll" } as const),
      fc.record({ tag: fc.constant("open" as const), behind: fc.nat(3) }),
      fc.record({ tag: fc.constant("leave" as const), stream: fc.nat(3) }),
      fc.record({ tag: fc.constant("run" as const), times: fc.integer({ min: 1, max: 12 }) }),
      fc.constant({ tag: "check" } as const)
    )
    const run = Effect.fnUntraced(function* (
      steps: ReadonlyArray<typeof step extends fc.Arbitrary<infer A> ? A : never>,
      resultYields: ReadonlyArray<number>,
      areSignalsLost: boolean
    ) {
      let reads = 0
      const { hub, session, store, stream } = yield* hubOver({
        pageEvents: 2,
        resultYields: () => resultYields[reads++ % resultYields.length] ?? 0
      })
      const readers: Array<{
        readonly cursor: number
        readonly reader: Effect.Success<ReturnType<typeof follow>>
      }> = []
      let signalled = 0
      const signal = (newest: number) => hub.signal([{ session_id: session.session_id, newest }])
      // As the service polls: only sessions of which this replica has not seen the newest event.
      const poll = () => {
        for (const { newest } of hub.followedSessions()) if (newest < store.newest) signal(store.newest)
      }
      /** Signals are late, or lost and made up for by a poll; then every stream has what was committed. */
      const check = Effect.gen(function* () {
        if (areSignalsLost) poll()
        else while (signalled < store.newest) signal(++signalled)
        yield* settled
        for (const { cursor, reader } of readers) {
          const received = [...reader.text.matchAll(/(\d+)-(\d+);/g)].flatMap(([, first, last]) =>
            Array.from({ length: Number(last) - Number(first) + 1 }, (_, index) => Number(first) + index)
          )
          const committed = Array.from({ length: store.newest - cursor }, (_, index) => cursor + 1 + index)
          assert.deepStrictEqual(received, committed)
        }
      })
      for (const one of steps) {
        switch (one.tag) {
          case "commit":
            store.newest++
            break
          case "signal":
            if (signalled < store.newest && !areSignalsLost) signal(++signalled)
            break
          case "poll":
            poll()
            break
          case "open": {
            const cursor = Math.max(0, store.newest - one.behind)
            readers.push({ cursor, reader: yield* follow(stream(cursor), 0) })
            break
          }
          case "leave": {
            const [left] = readers.splice(one.stream, 1)
            if (left !== undefined) yield* Fiber.interrupt(left.reader.fiber)
            break
          }
          case "run":
            yield* yields(one.times)
            break
          case "check":
            yield* check
        }
      }
      yield* check
    })
    return fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40, size: "max" }),
        fc.array(fc.nat(6), { minLength: 1, maxLength: 8 }),
        fc.boolean(),
        (...args) => Effect.runPromise(run(...args))
      ),
      { numRuns: 200 }
    )
  })

  it.effect("a client that does not read its stream causes no reads of the database", () =>
    Effect.gen(function* () {
      const { add, store, stream } = yield* hubOver()
      const read = yield* Latch.make()
      const received: Array<string> = []
      const slow = yield* stream().pipe(
        Stream.decodeText(),
        Stream.runForEach((text) =>
          Effect.andThen(
            Effect.sync(() => received.push(text)),
            read.await
          )
        ),
        Effect.forkChild
      )
      yield* settled
      store.reads = 0
      for (let count = 0; count < 10; count++) {
        add(1)
        yield* settled
      }
      assert.strictEqual(store.reads, 0)
      yield* read.open
      yield* settled
      assert.deepStrictEqual(received, [PREAMBLE, "1-10;"])
      yield* Fiber.interrupt(slow)
    })
  )

  it.effect("a client that disconnects leaves the other streams of its session connected", () =>
    Effect.gen(function* () {
      const { add, hub, session, stream } = yield* hubOver()
      const gone = yield* follow(stream())
      const stays = yield* follow(stream())
      yield* Fiber.interrupt(gone.fiber)
      assert.deepStrictEqual(sizes(hub), { streams: 1, sessions: 1 })
      assert.strictEqual(hub.sizeOfOrganization(session.org_id), 1)
      add(1)
      yield* settled
      assert.strictEqual(stays.text, `${PREAMBLE}1-1;`)
    })
  )

  it.effect("a thousand streams get their heartbeat per sweep, the others by the next sweeps", () =>
    Effect.gen(function* () {
      const { hub, stream } = yield* hubOver()
      const readers = yield* Effect.forEach(Array.from({ length: 1_500 }), () =>
        Effect.forkChild(Stream.runDrain(stream()))
      )
      yield* settled
      yield* TestClock.adjust("15 seconds")
      assert.strictEqual(hub.sweep().heartbeats, 1_000)
      assert.strictEqual(hub.sweep().heartbeats, 500)
      yield* Effect.forEach(readers, (reader) => Fiber.interrupt(reader))
    })
  )

  it.effect("a stream gets a heartbeat every 15 seconds, also between events", () =>
    Effect.gen(function* () {
      const { add, hub, stream } = yield* hubOver()
      const reader = yield* follow(stream())
      yield* TestClock.adjust("14 seconds")
      assert.deepStrictEqual(hub.sweep(), { heartbeats: 0, cut: 0 })
      add(1)
      yield* settled
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(hub.sweep(), { heartbeats: 1, cut: 0 })
      yield* settled
      yield* TestClock.adjust("15 seconds")
      hub.sweep()
      yield* settled
      assert.strictEqual(reader.text, `${PREAMBLE}1-1;${HEARTBEAT}${HEARTBEAT}`)
    })
  )

  it.effect("a slow client is cut and can resume by its cursor", () =>
    Effect.gen(function* () {
      const { add, hub, stream } = yield* hubOver()
      add(3)
      const stuck = yield* stream().pipe(
        Stream.runForEach((bytes) => (bytes[0] === 0x72 ? Effect.void : Effect.never)),
        Effect.forkChild
      )
      const quiet = yield* follow(stream())
      yield* settled
      yield* TestClock.adjust("29 seconds")
      assert.deepStrictEqual(hub.sweep(), { heartbeats: 1, cut: 0 })
      yield* settled
      yield* TestClock.adjust("1 second")
      assert.strictEqual(hub.sweep().cut, 1)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(stuck)))
      assert.deepStrictEqual(sizes(hub), { streams: 1, sessions: 1 })
      assert.isUndefined(quiet.fiber.pollUnsafe())
      assert.strictEqual((yield* follow(stream(1))).text, `${PREAMBLE}2-3;`)
    })
  )

  it.effect("a stream that ends has one second for its last page", () =>
    Effect.gen(function* () {
      const { hub, stream } = yield* hubOver()
      const stuck = yield* stream().pipe(
        Stream.runForEach(() => Effect.never),
        Effect.forkChild
      )
      yield* settled
      hub.endAll()
      yield* TestClock.adjust("999 millis")
      assert.strictEqual(hub.sweep().cut, 0)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(hub.sweep().cut, 1)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(stuck)))
    })
  )

  it.effect(
    "a stream ends when its next event was removed, when its key has ended, and when all are ended",
    () =>
      Effect.gen(function* () {
        const { add, hub, key_id, session, store, stream } = yield* hubOver()
        const first = yield* follow(stream())
        store.gap = true
        add(5)
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(first.fiber)))
        store.gap = false
        const other = yield* KeyId.generate
        const mine = yield* follow(stream(5))
        const theirs = yield* follow(Stream.unwrap(Effect.orDie(hub.open(session, other, 5))))
        assert.strictEqual(hub.keys().length, 2)
        assert.strictEqual(hub.endStreamsOfKeys(new Set([key_id])), 1)
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(mine.fiber)))
        hub.endAll()
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(theirs.fiber)))
        const late = yield* follow(stream(5))
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(late.fiber)))
        assert.strictEqual(late.text, PREAMBLE)
      })
  )
})
