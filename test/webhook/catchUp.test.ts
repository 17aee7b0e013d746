import { assert, describe, it } from "@effect/vitest"
import { catchUp, type CatchUpOptions, memorySeen, type NotificationEvent } from "../../src/webhook/index.ts"
import * as Events from "./events.ts"
import { unhandledRejections } from "./unhandledRejections.ts"

const requested = Object(Events.all[0])
const numbered = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    ...requested,
    id: `evt_${String(index).padStart(32, "0")}`
  }))

/** A list of events in pages of two, whose cursors are places. */
const listOf =
  (events: ReadonlyArray<unknown>): CatchUpOptions["list"] =>
  async (cursor) => {
    const start = Number(cursor ?? 0)
    const page = events.slice(start, start + 2)
    const next = start + page.length
    return { events: page, next_cursor: String(next), has_more: next < events.length }
  }

const setUp = (events: ReadonlyArray<unknown>, options: Partial<CatchUpOptions> = {}) => {
  const handled: Array<string> = []
  const cursors: Array<string> = []
  const run = () =>
    catchUp({
      list: listOf(events),
      seen: memorySeen(),
      onCursor: (cursor) => cursors.push(cursor),
      onEvent: ({ id }) => handled.push(id),
      ...options
    })
  return { run, handled, cursors }
}

describe("catchUp", () => {
  it("handles every listed event once, in order, and stores the cursor of each page", async () => {
    const events = numbered(5)
    const { cursors, handled, run } = setUp(events)
    assert.deepStrictEqual(await run(), { complete: true, events: 5 })
    assert.deepStrictEqual(
      handled,
      events.map(({ id }) => id)
    )
    assert.deepStrictEqual(cursors, ["2", "4", "5"])
  })

  it("does not handle what the webhook handler has handled", async () => {
    const events = numbered(3)
    const seen = memorySeen()
    seen.add(events[1]?.id ?? "")
    const { handled, run } = setUp(events, { seen })
    assert.deepStrictEqual(await run(), { complete: true, events: 3 })
    assert.deepStrictEqual(handled, [events[0]?.id, events[2]?.id])
  })

  it("stops without the page's cursor if handling fails, and releases the claim", async () => {
    const released: Array<string> = []
    const events = numbered(3)
    const { cursors, run } = setUp(events, {
      seen: {
        claim: () => "claimed",
        complete: () => undefined,
        release: (id) => released.push(id)
      },
      onEvent: ({ id }) => {
        if (id === events[2]?.id) throw new Error("no database")
      }
    })
    const failure = await run().then(
      () => "none",
      (error: unknown) => String(error)
    )
    assert.include(failure, "no database")
    assert.deepStrictEqual(cursors, ["2"])
    assert.deepStrictEqual(released, [events[2]?.id])
  })

  it("stops without the page's cursor at an event that another caller is handling", async () => {
    const events = numbered(3)
    const { cursors, run } = setUp(events, {
      seen: {
        claim: (id) => (id === events[1]?.id ? "busy" : "claimed"),
        complete: () => undefined,
        release: () => undefined
      }
    })
    assert.deepStrictEqual(await run(), { complete: false, events: 1 })
    assert.deepStrictEqual(cursors, [])
  })

  it("skips an event of an unknown type and reports it, and fails at one that it cannot read", async () => {
    const skipped: Array<string> = []
    const [first] = numbered(1)
    const { handled, run } = setUp([{ ...first, type: "approval.forwarded" }, first], {
      onSkipped: ({ reason }) => skipped.push(reason)
    })
    assert.deepStrictEqual(await run(), { complete: true, events: 1 })
    assert.deepStrictEqual([skipped, handled], [["unknown_event_type"], [first?.id ?? ""]])
    const broken = setUp([{ ...first, occurred_at: "soon" }])
    const failure = await broken.run().then(
      () => "none",
      (error: unknown) => String(error)
    )
    assert.include(failure, "occurred_at")
    assert.deepStrictEqual(broken.cursors, [])
  })

  it("goes on if onSkipped fails, and fails with the error of onEvent if onError fails too", async () => {
    const [first] = numbered(1)
    const fail = () => {
      throw new Error("the log is away")
    }
    for (const broken of [fail, () => Promise.reject(new Error("the log is away"))]) {
      const unhandled = await unhandledRejections(async () => {
        const skipping = setUp([{ ...first, type: "approval.forwarded" }, first], { onSkipped: broken })
        assert.deepStrictEqual(await skipping.run(), { complete: true, events: 1 })
        const failing = setUp([first], {
          seen: { claim: () => "claimed", complete: () => undefined, release: fail },
          onEvent: () => Promise.reject(new Error("no database")),
          onError: broken
        })
        const failure = await failing.run().then(
          () => "none",
          (error: unknown) => String(error)
        )
        assert.include(failure, "no database")
      })
      assert.deepStrictEqual(unhandled, [])
    }
  })

  it("reads events whose times the client has decoded", async () => {
    const times: Array<string> = []
    const dated = { ...requested, occurred_at: new Date(requested.occurred_at) }
    const { run } = setUp([dated], {
      onEvent: (event: NotificationEvent) => times.push(event.occurred_at)
    })
    await run()
    assert.deepStrictEqual(times, [dated.occurred_at.toISOString()])
  })
})
