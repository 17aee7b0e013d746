import { assert, describe, it } from "@effect/vitest"
import { afterEach, onTestFinished, vi } from "vitest"
import { isProblem } from "../../../src/client/index.ts"
import { Closing } from "../../../src/client/connect/wait.ts"
import type { Log } from "../../../src/client/connect/Log.ts"
import { send } from "../../../src/client/connect/send.ts"
import { unhandledRejections } from "../../webhook/unhandledRejections.ts"
import { after, fakeService, realService, type ScriptedResponse } from "./fakeService.ts"

const busy = (status: number, retryAfter?: string, type = "text/plain"): ScriptedResponse => ({
  status,
  headers: { "content-type": type, ...(retryAfter === undefined ? {} : { "retry-after": retryAfter }) },
  body: "busy"
})
const ok = { status: 200 }

const get = { method: "GET", headers: {} }
const post = { method: "POST", headers: {} }
const postWithKey = { method: "POST", headers: { "idempotency-key": "k" } }

/** The final status of a request or the code of its error, how often it was sent, and its duration on the fake clock. */
const outcome = async (
  script: ReadonlyArray<ScriptedResponse>,
  request: { readonly method: string; readonly headers: Readonly<Record<string, string>> },
  {
    log,
    retries = 3,
    timeout = 30_000
  }: { readonly log?: Log; readonly retries?: number; readonly timeout?: number } = {}
) => {
  const fetched = fakeService(script)
  const { signal } = new AbortController()
  const connection = { url: "http://service", key: "csk_key", log, closing: new Closing() }
  const url = new URL("http://service/v1/tasks")
  const sent = send(connection, { ...request, operation: "tasks.list", url, timeout, retries }, signal)
  const { error, took, value } = await after(600_000, sent)
  return {
    ended: isProblem(error, "SERVICE_UNREACHABLE") ? error.reason : value?.status,
    asked: fetched.length,
    seconds: took / 1_000
  }
}

describe("a request of the promise client", () => {
  afterEach(realService)

  for (const [what, request] of [
    ["a GET", get],
    ["a POST with an idempotency key", postWithKey]
  ] as const) {
    it(`waits with ${what} for as long as the service asks`, async () => {
      assert.deepStrictEqual(await outcome([busy(503, "7"), ok], request), {
        ended: 200,
        asked: 2,
        seconds: 7
      })
    })
  }

  it("does not fail because of a log that throws or rejects", async () => {
    const print = vi.spyOn(console, "error").mockImplementation(() => undefined)
    onTestFinished(() => print.mockRestore())
    const throwing = () => {
      throw new Error("The disk is full")
    }
    const unhandled = await unhandledRejections(async () => {
      for (const log of [throwing, async () => throwing()]) {
        assert.deepInclude(await outcome([ok], get, { log }), { ended: 200, asked: 1 })
      }
      realService()
    })
    assert.deepStrictEqual(unhandled, [])
    assert.lengthOf(print.mock.calls, 2)
  })

  it("is retried after a proxy's 502, but not after the service's own", async () => {
    assert.deepInclude(await outcome([busy(502), ok], postWithKey), { ended: 200, asked: 2 })
    const own = busy(502, undefined, "application/problem+json")
    assert.deepStrictEqual(await outcome([own, ok], postWithKey), { ended: 502, asked: 1, seconds: 0 })
  })

  it("follows a Retry-After date, and ignores what is no HTTP date", async () => {
    fakeService([])
    const date = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 9_000).toUTCString()
    const dated = await outcome([busy(429, date), ok], get)
    assert.isTrue(dated.seconds > 8 && dated.seconds <= 10, String(dated.seconds))
    for (const retryAfter of ["1.5", "-1", "1970-01-01T00:00:09Z", "9 seconds"]) {
      const result = await outcome([busy(429, retryAfter), ok], get)
      assert.deepInclude(result, { ended: 200, asked: 2 })
      assert.isAtMost(result.seconds, 0.2)
    }
  })

  it("is not retried if it is not idempotent, unless it was rejected before processing", async () => {
    assert.deepInclude(await outcome([busy(503), ok], post), { ended: 503, asked: 1 })
    assert.deepInclude(await outcome(["no connection", ok], post), { ended: "ECONNREFUSED", asked: 1 })
    assert.deepStrictEqual(await outcome([busy(429, "2"), ok], post), { ended: 200, asked: 2, seconds: 2 })
  })

  it("returns the last response after three retries", async () => {
    const result = await outcome([busy(503)], get)
    assert.deepInclude(result, { ended: 503, asked: 4 })
    assert.isAtLeast(result.seconds, 0.7)
    assert.isAtMost(result.seconds, 1.4)
    assert.deepInclude(await outcome(["no connection"], get), { ended: "ECONNREFUSED", asked: 4 })
    assert.deepInclude(await outcome([busy(503)], get, { retries: 0 }), { ended: 503, asked: 1 })
  })

  it("does not wait for a Retry-After over 30 seconds, and is not retried after a permanent failure", async () => {
    assert.deepStrictEqual(await outcome([busy(429, "31")], get), { ended: 429, asked: 1, seconds: 0 })
    for (const status of [200, 400, 404, 409, 500]) {
      assert.deepInclude(await outcome([busy(status)], get), { ended: status, asked: 1 })
    }
  })

  it("times out, and is then retried only if it is a GET: another may still be processed", async () => {
    const timeout = 3_000
    assert.deepStrictEqual(await outcome(["never"], post, { timeout }), {
      ended: "TIMEOUT",
      asked: 1,
      seconds: 3
    })
    assert.deepInclude(await outcome(["never", ok], get, { timeout }), { ended: 200, asked: 2 })
    assert.deepStrictEqual(await outcome(["never", ok], postWithKey, { timeout }), {
      ended: "TIMEOUT",
      asked: 1,
      seconds: 3
    })
  })
})
