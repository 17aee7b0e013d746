import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { INBOX_PING_MS } from "../../../../src/api/Console.ts"
import {
  type LeaderLock,
  makeSharedStream,
  type SharedStream,
  type TabChannel
} from "../../../../src/console/state/inbox/SharedStream.ts"
import type { StreamListener } from "../../../../src/console/state/inbox/StreamConnection.ts"

type LockRequest = Parameters<LeaderLock["request"]>[0]

interface Tab {
  readonly stream: SharedStream
  readonly told: Array<string>
  /** The streams that the tab opened. */
  readonly opened: Array<StreamListener & { closed: boolean }>
  /** `frozen`: its scripts do not run. */
  readonly state: { hidden: boolean; frozen: boolean }
}

/** A browser with tabs of one session: one lock and one channel. */
const simulatedBrowser = (hasLocks = true) => {
  const channels = new Set<(message: unknown) => void>()
  let holder: LockRequest | undefined
  let waiting: Array<LockRequest> = []
  const counts = { requests: 0, count: 0 }
  const grantNext = () => {
    holder = waiting.shift()
    holder?.granted()
  }
  const lock: LeaderLock = {
    request: (request) => {
      if (request.steal) {
        const before = holder
        holder = request
        before?.lost()
        request.granted()
      } else {
        waiting.push(request)
        if (holder === undefined) grantNext()
      }
      return () => {
        waiting = waiting.filter((one) => one !== request)
        if (holder === request) grantNext()
      }
    }
  }
  const openTab = Effect.gen(function* () {
    const opened: Tab["opened"] = []
    const told: Array<string> = []
    const state = { hidden: false, frozen: false }
    let receive: (message: unknown) => void = () => {}
    const channel: TabChannel = {
      post: (message) => {
        const sent = structuredClone(message)
        for (const other of channels) if (other !== receive) other(sent)
      },
      listen: (onMessage) => {
        receive = (message) => {
          if (!state.frozen) onMessage(message)
        }
        channels.add(receive)
        return () => void channels.delete(receive)
      }
    }
    let ids = 0
    const name = String(channels.size)
    const stream = yield* makeSharedStream(
      {
        connect: (listener) => {
          const one = { ...listener, closed: false }
          opened.push(one)
          return () => void (one.closed = true)
        },
        isStillSignedIn: Effect.succeed(true),
        isHidden: () => state.hidden,
        randomId: () => `${name} ${ids++}`,
        count: Effect.sync(() => {
          counts.requests++
          return { count: counts.count, more: false }
        }),
        tabs: hasLocks ? { lock, channel } : undefined
      },
      {
        opened: () => void told.push("opened"),
        approval: () => void told.push("approval"),
        resync: () => void told.push("resync"),
        broken: () => void told.push("broken"),
        count: ({ count }) => void told.push(`count ${count}`)
      }
    )
    const tab: Tab = { stream, told, opened, state }
    return tab
  })
  return { counts, openTab }
}

const settled = Effect.repeat(Effect.yieldNow, { times: 30 })

/** What a tab was told since the last look. */
const take = (tab: Tab): ReadonlyArray<string> => tab.told.splice(0)

describe("SharedStream", () => {
  it.effect("one tab keeps the stream and counts, and the others hear everything from it", () =>
    Effect.gen(function* () {
      const { counts, openTab } = simulatedBrowser()
      const first = yield* openTab
      const second = yield* openTab
      first.opened[0]?.opened()
      yield* settled
      assert.deepStrictEqual([first.opened.length, second.opened.length], [1, 0])
      assert.deepStrictEqual(
        [take(first), take(second)],
        [
          ["opened", "count 0"],
          ["opened", "count 0"]
        ]
      )
      counts.count = 2
      first.opened[0]?.resync()
      yield* settled
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(
        [take(first), take(second)],
        [
          ["resync", "count 2"],
          ["resync", "count 2"]
        ]
      )
      const third = yield* openTab
      assert.deepStrictEqual(take(third), ["count 2", "opened"])
      assert.deepStrictEqual([take(second), counts.requests], [["count 2"], 2])
      assert.deepStrictEqual(
        [first, second, third].map(({ stream }) => stream.isLeader()),
        [true, false, false]
      )
    })
  )

  it.effect("many changes are counted at most once a second, the last one too", () =>
    Effect.gen(function* () {
      const { counts, openTab } = simulatedBrowser()
      const { opened, told } = yield* openTab
      opened[0]?.opened()
      yield* settled
      for (let change = 1; change <= 50; change++) {
        counts.count = change
        opened[0]?.resync()
        yield* TestClock.adjust("100 millis")
      }
      yield* TestClock.adjust("1 second")
      assert.isAtMost(counts.requests, 7)
      assert.strictEqual(told.at(-1), "count 50")
    })
  )

  it.effect("after the leader closes, another tab opens a stream, and all tabs read again", () =>
    Effect.gen(function* () {
      const { openTab } = simulatedBrowser()
      const tabs = [yield* openTab, yield* openTab, yield* openTab]
      tabs[0]!.opened[0]!.opened()
      yield* settled
      tabs.forEach(take)
      tabs[0]!.stream.close()
      assert.isTrue(tabs[0]!.opened[0]!.closed)
      assert.deepStrictEqual([tabs[1]!.opened.length, tabs[2]!.opened.length], [1, 0])
      tabs[1]!.opened[0]!.opened()
      yield* settled
      assert.include(tabs[1]!.told, "opened")
      assert.include(tabs[2]!.told, "opened")
    })
  )

  it.effect("from a leader that is frozen without a word, another tab takes the lock", () =>
    Effect.gen(function* () {
      const { openTab } = simulatedBrowser()
      const first = yield* openTab
      const second = yield* openTab
      first.opened[0]!.opened()
      yield* settled
      for (let beat = 0; beat < 5; beat++) {
        yield* TestClock.adjust(INBOX_PING_MS)
        first.opened[0]!.ping()
      }
      assert.isFalse(second.stream.isLeader())
      first.state.frozen = true
      yield* TestClock.adjust(1.5 * INBOX_PING_MS)
      yield* TestClock.adjust("2 seconds")
      assert.isTrue(second.stream.isLeader())
      assert.strictEqual(second.told.at(-1), "broken")
      second.opened[0]!.opened()
      yield* settled
      assert.include(second.told.slice(-2), "opened")
      first.state.frozen = false
      assert.deepStrictEqual([first.stream.isLeader(), first.opened[0]!.closed], [false, true])
    })
  )

  it.effect("a tab that is shown asks a frozen leader at once, and one that answers keeps the stream", () =>
    Effect.gen(function* () {
      const { openTab } = simulatedBrowser()
      const first = yield* openTab
      const second = yield* openTab
      first.opened[0]!.opened()
      yield* settled
      second.stream.check()
      yield* TestClock.adjust("2 seconds")
      assert.isTrue(first.stream.isLeader())
      first.state.frozen = true
      second.stream.check()
      yield* TestClock.adjust("2 seconds")
      assert.isTrue(second.stream.isLeader())
    })
  )

  it.effect("a visible tab takes over from a hidden leader that has lost its stream", () =>
    Effect.gen(function* () {
      const { openTab } = simulatedBrowser()
      const first = yield* openTab
      const second = yield* openTab
      first.opened[0]!.opened()
      first.state.hidden = true
      first.opened[0]!.broken(false)
      yield* settled
      assert.strictEqual(second.told.at(-1), "broken")
      yield* TestClock.adjust("4 seconds")
      assert.isFalse(second.stream.isLeader())
      yield* TestClock.adjust("1 second")
      assert.isTrue(second.stream.isLeader())
    })
  )

  it.effect("a leader that the browser freezes gives up the lock, and follows after that", () =>
    Effect.gen(function* () {
      const { openTab } = simulatedBrowser()
      const first = yield* openTab
      const second = yield* openTab
      first.opened[0]!.opened()
      yield* settled
      first.stream.freeze()
      first.state.frozen = true
      assert.isTrue(second.stream.isLeader())
      second.opened[0]!.opened()
      yield* settled
      take(first)
      first.state.frozen = false
      first.stream.resume()
      assert.isFalse(first.stream.isLeader())
      assert.include(first.told, "opened")
    })
  )

  it.effect("messages of another form are ignored", () =>
    Effect.gen(function* () {
      let receive: (message: unknown) => void = () => {}
      const told: Array<string> = []
      const tell = (text: string) => () => void told.push(text)
      yield* makeSharedStream(
        {
          connect: () => () => {},
          isStillSignedIn: Effect.succeed(true),
          isHidden: () => false,
          randomId: () => "id",
          count: Effect.succeed({ count: 0, more: false }),
          tabs: {
            lock: { request: () => () => {} },
            channel: {
              post: () => {},
              listen: (onMessage) => {
                receive = onMessage
                return () => {}
              }
            }
          }
        },
        {
          opened: tell("opened"),
          approval: tell("approval"),
          resync: tell("resync"),
          broken: tell("broken"),
          count: tell("count")
        }
      )
      for (const message of [
        null,
        "Resync",
        { _tag: "Count", count: { count: "9", more: false } },
        { _tag: "Approval", approval: { approval_id: "apr_1" } }
      ]) {
        receive(message)
      }
      assert.deepStrictEqual(told, [])
      receive({ _tag: "Resync" })
      assert.deepStrictEqual(told, ["resync"])
    })
  )

  it.effect("whether a tab is visible is asked of the other tabs", () =>
    Effect.gen(function* () {
      const { openTab } = simulatedBrowser()
      const first = yield* openTab
      const second = yield* openTab
      first.state.hidden = true
      assert.isTrue(yield* first.stream.hasVisibleTab)
      second.state.hidden = true
      const asked = yield* Effect.forkChild(first.stream.hasVisibleTab, { startImmediately: true })
      yield* TestClock.adjust("2 seconds")
      assert.isFalse(yield* Fiber.join(asked))
    })
  )

  it.effect("without locks each tab keeps its own stream, while it is visible", () =>
    Effect.gen(function* () {
      const { openTab } = simulatedBrowser(false)
      const first = yield* openTab
      const second = yield* openTab
      assert.deepStrictEqual([first.opened.length, second.opened.length], [1, 1])
      first.opened[0]!.opened()
      yield* settled
      first.state.hidden = true
      first.stream.check()
      assert.deepStrictEqual([first.opened[0]!.closed, first.told.at(-1)], [true, "broken"])
      first.stream.check()
      first.state.hidden = false
      first.stream.check()
      assert.deepStrictEqual([first.opened.length, second.opened.length], [2, 1])
    })
  )
})
