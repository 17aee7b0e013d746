import { assert, describe, it } from "@effect/vitest"
import { Redacted, Result } from "effect"
import { onTestFinished, vi } from "vitest"
import { signatureHeaders, makeSigningKey } from "../../src/domain/delivery/WebhookSignature.ts"
import {
  catchUp,
  type Claim,
  handler,
  memorySeen,
  type ReceiverOptions,
  type WebhookEvent
} from "../../src/webhook/index.ts"
import * as Events from "./events.ts"
import { unhandledRejections } from "./unhandledRejections.ts"

const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
const keys = { current: Result.getOrThrow(makeSigningKey(Redacted.make(secret))), previous: null }
const at = 1_795_228_385

const headersOf = (body: string) =>
  signatureHeaders(keys, { eventId: "evt_unsigned", eventType: "unsigned", timestamp: at, body })

const delivery = (event: unknown = Events.test, init: RequestInit = {}) => {
  const body = JSON.stringify(event)
  return new Request("https://receiver.example.com/hook", {
    method: "POST",
    headers: headersOf(body),
    body,
    ...init
  })
}

const setUp = (options: Partial<ReceiverOptions> = {}) => {
  const events: Array<WebhookEvent> = []
  const refused: Array<string> = []
  const errors: Array<unknown> = []
  const receive = handler({
    secret,
    now: () => at * 1000,
    seen: memorySeen(),
    onEvent: (event) => events.push(event),
    onRefused: (refusal) => refused.push(refusal.reason),
    onError: (error) => errors.push(error),
    ...options
  })
  return { receive, events, refused, errors }
}

const gate = () => {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

describe("handler", () => {
  it("calls onEvent once and responds 204 to each delivery", async () => {
    const { errors, events, receive, refused } = setUp()
    for (const _ of [1, 2, 3]) {
      const answer = await receive(delivery())
      assert.strictEqual(answer.status, 204)
      assert.isNull(answer.body)
    }
    assert.deepStrictEqual<unknown>(events, [Events.test])
    assert.deepStrictEqual([refused, errors], [[], []])
  })

  it("answers a signed challenge of its organization without onEvent, and refuses others", async () => {
    const { events, receive } = setUp({ orgId: Events.verification.org_id })
    const answer = await receive(delivery(Events.verification))
    assert.strictEqual(answer.status, 200)
    assert.deepStrictEqual(await answer.json(), { challenge: Events.verification.verification.challenge })
    assert.lengthOf(events, 0)
    const other = await receive(delivery({ ...Events.verification, org_id: "org_other" }))
    assert.strictEqual(other.status, 403)
    const unsigned = delivery(Events.verification)
    unsigned.headers.delete("x-svc-signature")
    assert.strictEqual((await receive(unsigned)).status, 401)
  })

  it("deduplicates by the id in the signed body, not by a header", async () => {
    const { events, receive } = setUp()
    const other = { ...Events.test, id: "evt_other" }
    await receive(delivery())
    await receive(delivery(other))
    await receive(delivery(other))
    assert.deepStrictEqual(
      events.map((event) => event.id),
      [Events.test.id, "evt_other"]
    )
  })

  it("handles an event again whose handling never ended, after five minutes", async () => {
    vi.useFakeTimers({ toFake: ["clearTimeout", "setTimeout"] })
    onTestFinished(() => void vi.useRealTimers())
    const { open: begin, opened: begun } = gate()
    let calls = 0
    const { errors, receive } = setUp({
      onEvent: () => {
        begin()
        return ++calls === 1 ? new Promise(() => undefined) : undefined
      }
    })
    const hanging = receive(delivery())
    await begun
    await vi.advanceTimersByTimeAsync(300_000)
    assert.strictEqual((await hanging).status, 500)
    assert.include(String(errors[0]), "evt_")
    assert.strictEqual(calls, 1)
    assert.strictEqual((await receive(delivery())).status, 204)
    assert.strictEqual(calls, 2)
    assert.strictEqual(vi.getTimerCount(), 0)
  })

  it("handles two concurrent deliveries of one event once and gives both the same response", async () => {
    const { open, opened } = gate()
    const started = gate()
    let calls = 0
    const { receive } = setUp({
      onEvent: async ({ id }) => {
        if (id !== Events.test.id) return
        calls++
        started.open()
        await opened
      }
    })
    const first = receive(delivery())
    await started.opened
    // While the first is handled. A later delivery of another event has its response before the second one is let go on.
    const second = receive(delivery())
    assert.strictEqual((await receive(delivery({ ...Events.test, id: "evt_other" }))).status, 204)
    open()
    assert.deepStrictEqual(
      (await Promise.all([first, second])).map((answer) => answer.status),
      [204, 204]
    )
    assert.strictEqual(calls, 1)
  })

  it("responds 500 if onEvent fails, and handles the retry", async () => {
    let broken = true
    const { errors, receive } = setUp({
      onEvent: () => {
        if (broken) throw new Error("the database is unreachable")
      }
    })
    const first = await receive(delivery())
    assert.strictEqual(first.status, 500)
    assert.notInclude(await first.text(), "store")
    assert.deepStrictEqual(errors.map(String), ["Error: the database is unreachable"])
    broken = false
    assert.strictEqual((await receive(delivery())).status, 204)
  })

  it("claims events across processes: a busy event is retried, a failure releases the claim", async () => {
    const claims = new Map<string, Claim>()
    const seen = {
      claim: (id: string) => {
        const state = claims.get(id)
        if (state === undefined) claims.set(id, "busy")
        return Promise.resolve(state ?? "claimed")
      },
      complete: (id: string) => claims.set(id, "done"),
      release: (id: string) => claims.delete(id)
    }
    const { open, opened } = gate()
    const claimed = gate()
    let fails = true
    const one = setUp({
      seen,
      onEvent: async () => {
        claimed.open()
        await opened
        if (fails) throw new Error("lost")
      }
    })
    // Another process: its record is another object over the same claims.
    const two = setUp({ seen: { ...seen } })
    const working = one.receive(delivery())
    await claimed.opened
    const meanwhile = await two.receive(delivery())
    assert.deepStrictEqual([meanwhile.status, meanwhile.headers.get("retry-after")], [503, "5"])
    open()
    assert.strictEqual((await working).status, 500)
    fails = false
    assert.strictEqual((await two.receive(delivery())).status, 204)
    assert.strictEqual(two.events.length, 1)
    assert.strictEqual((await one.receive(delivery())).status, 204)
    assert.strictEqual(claims.get(Events.test.id), "done")
  })

  it("responds 500 if the record of events is unavailable", async () => {
    const { errors, events, receive } = setUp({
      seen: { has: () => Promise.reject(new Error("away")), add: () => undefined }
    })
    assert.strictEqual((await receive(delivery())).status, 500)
    assert.deepStrictEqual([events.length, errors.length], [0, 1])
  })

  it("answers as it would without the callbacks that only inform, if these fail", async () => {
    const requests: ReadonlyArray<readonly [status: number, request: () => Request]> = [
      [401, () => delivery(Events.test, { body: "{}" })],
      [202, () => delivery({ ...Events.test, type: "later" })],
      [500, () => delivery()]
    ]
    const fail = () => {
      throw new Error("the log is away")
    }
    for (const broken of [fail, () => Promise.reject(new Error("the log is away"))]) {
      const unhandled = await unhandledRejections(async () => {
        const { receive } = setUp({
          seen: { claim: () => "claimed", complete: () => undefined, release: fail },
          onEvent: fail,
          onRefused: broken,
          onError: broken
        })
        for (const [status, request] of requests) {
          assert.strictEqual((await receive(request())).status, status)
        }
      })
      assert.deepStrictEqual(unhandled, [])
    }
  })

  it("does not wait for a slow log before it answers", async () => {
    const { receive } = setUp({ onRefused: () => new Promise(() => undefined) })
    assert.strictEqual((await receive(delivery(Events.test, { body: "{}" }))).status, 401)
  })

  it("refuses events of another organization", async () => {
    const { events, receive, refused } = setUp({ orgId: "org_mine" })
    const answer = await receive(delivery())
    assert.strictEqual(answer.status, 403)
    assert.deepStrictEqual([events.length, refused], [0, ["wrong_organization"]])
    // The signature is checked first: a body that anybody can send tells nothing of the organization.
    assert.strictEqual((await receive(delivery(Events.test, { body: "{}" }))).status, 401)
    assert.strictEqual((await receive(delivery({ ...Events.test, org_id: "org_mine" }))).status, 204)
  })

  const unsigned = { method: "POST", body: "{}" }
  const refusals: ReadonlyArray<readonly [status: number, reason: string, request: () => Request]> = [
    [405, "method_not_allowed", () => new Request("https://receiver.example.com/hook")],
    [401, "missing_signature", () => new Request("https://receiver.example.com/hook", unsigned)],
    [400, "malformed_signature", () => delivery(Events.test, { headers: { "x-svc-signature": "v1=ab" } })],
    [401, "no_matching_signature", () => delivery(Events.test, { body: "{}" })],
    [202, "unknown_event_type", () => delivery({ ...Events.test, type: "later" })],
    [422, "malformed_event", () => delivery({ ...Events.test, id: 1 })],
    [413, "body_too_large", () => delivery({ ...Events.test, more: "x".repeat(300_000) })]
  ]
  for (const [status, reason, request] of refusals) {
    it(`answers ${status} ${reason}`, async () => {
      const { events, receive, refused } = setUp()
      const answer = await receive(request())
      assert.strictEqual(answer.status, status)
      assert.strictEqual(JSON.parse(await answer.text()).reason, reason)
      assert.deepStrictEqual([events.length, refused], [0, [reason]])
      assert.strictEqual(answer.headers.get("allow"), status === 405 ? "POST" : null)
    })
  }

  it("stops reading an endless body at its limit", async () => {
    let pulled = 0
    let cancelled = false
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        pulled++
        controller.enqueue(new Uint8Array(1_000))
      },
      cancel: () => {
        cancelled = true
      }
    })
    const { receive, refused } = setUp({ maxBodyBytes: 10_000 })
    const init: RequestInit = { body: endless, duplex: "half" }
    assert.strictEqual((await receive(delivery(Events.test, init))).status, 413)
    assert.deepStrictEqual(refused, ["body_too_large"])
    assert.isBelow(pulled, 20)
    assert.isTrue(cancelled)
  })

  it("takes a body of exactly its limit, and refuses one byte more by its length or by its bytes", async () => {
    const body = JSON.stringify(Events.test)
    const chunks = () =>
      new ReadableStream<Uint8Array>({
        start: (controller) => {
          for (const character of body) controller.enqueue(new TextEncoder().encode(character))
          controller.close()
        }
      })
    const sized = { ...headersOf(body), "content-length": String(body.length) }
    const unread = new ReadableStream<Uint8Array>(
      { pull: () => assert.fail("the body was read") },
      { highWaterMark: 0 }
    )
    for (const [maxBodyBytes, init, status] of [
      [body.length, { headers: sized }, 204],
      [body.length, { body: chunks(), duplex: "half" }, 204],
      [body.length - 1, { body: unread, headers: sized, duplex: "half" }, 413],
      [body.length - 1, { body: chunks(), duplex: "half" }, 413]
    ] as const) {
      const { receive } = setUp({ maxBodyBytes })
      assert.strictEqual((await receive(delivery(Events.test, init))).status, status)
    }
  })

  it("answers 400 to a signed request without a body", async () => {
    const { receive, refused } = setUp()
    const request = new Request("https://receiver.example.com/hook", {
      method: "POST",
      headers: headersOf("")
    })
    assert.strictEqual((await receive(request)).status, 400)
    assert.deepStrictEqual(refused, ["body_not_json"])
  })

  it("does not read the body if the header is enough to refuse", async () => {
    const body = new ReadableStream<Uint8Array>(
      { pull: () => assert.fail("the body was read") },
      { highWaterMark: 0 }
    )
    const { receive } = setUp()
    const request = new Request("https://receiver.example.com/hook", { method: "POST", body, duplex: "half" })
    assert.strictEqual((await receive(request)).status, 401)
  })

  it("responds 400 if the connection closes within the body", async () => {
    const body = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error("gone")) })
    const { receive, refused } = setUp()
    assert.strictEqual((await receive(delivery(Events.test, { body, duplex: "half" }))).status, 400)
    assert.deepStrictEqual(refused, ["body_unreadable"])
  })

  it("reports a body that was already consumed", async () => {
    const { errors, receive } = setUp()
    const request = delivery()
    await request.text()
    assert.strictEqual((await receive(request)).status, 500)
    assert.match(String(errors[0]), /mount the handler before the parser/)
  })

  it("throws for options that cannot work", () => {
    assert.throws(() => setUp({ secret: "" }), TypeError)
  })
})

describe("handler and catchUp", () => {
  const other = { ...Events.test, id: "evt_other" }

  for (const fails of [false, true]) {
    it(`share an event that the handler is handling, ${fails ? "and its failure" : "and handle it once"}`, async () => {
      const { open, opened } = gate()
      const started = gate()
      const seen = memorySeen()
      const handled: Array<string> = []
      const onEvent = async ({ id }: WebhookEvent) => {
        handled.push(id)
        if (id !== Events.test.id) return
        started.open()
        await opened
        if (fails) throw new Error("lost")
      }
      const { receive } = setUp({ seen, onEvent })
      const delivered = receive(delivery())
      await started.opened
      const cursors: Array<string> = []
      const caughtUp = catchUp({
        list: async () => ({ events: [Events.test], next_cursor: "1", has_more: false }),
        onCursor: (cursor) => cursors.push(cursor),
        seen,
        onEvent
      }).then(
        ({ complete, events }) => `${complete} ${events}`,
        (error: unknown) => String(error)
      )
      // While the event is handled: the response to another one comes after the page was read.
      assert.strictEqual((await receive(delivery(other))).status, 204)
      open()
      assert.strictEqual((await delivered).status, fails ? 500 : 204)
      assert.strictEqual(await caughtUp, fails ? "Error: lost" : "true 1")
      assert.deepStrictEqual(handled, [Events.test.id, "evt_other"])
      assert.deepStrictEqual(cursors, fails ? [] : ["1"])
    })
  }

  it("share an event that catchUp is handling", async () => {
    const { open, opened } = gate()
    const started = gate()
    const seen = memorySeen()
    const { events, receive } = setUp({ seen })
    let calls = 0
    const caughtUp = catchUp({
      list: async () => ({ events: [Events.test], next_cursor: "1", has_more: false }),
      onCursor: () => undefined,
      seen,
      onEvent: async () => {
        calls++
        started.open()
        await opened
      }
    })
    await started.opened
    const delivered = receive(delivery())
    assert.strictEqual((await receive(delivery(other))).status, 204)
    open()
    assert.strictEqual((await delivered).status, 204)
    assert.deepStrictEqual(await caughtUp, { complete: true, events: 1 })
    assert.deepStrictEqual([calls, events.map(({ id }) => id)], [1, ["evt_other"]])
  })
})

describe("memorySeen", () => {
  it("evicts the oldest id first", () => {
    const seen = memorySeen(2)
    for (const id of ["a", "b", "b", "c"]) seen.add(id)
    assert.deepStrictEqual(
      ["a", "b", "c"].map((id) => seen.has(id)),
      [false, true, true]
    )
  })
})
