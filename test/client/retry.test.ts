import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { type RetryOptions, withRetries } from "../../src/client/retry.ts"

type Answer =
  | { readonly status: number; readonly retryAfter?: string; readonly type?: string }
  | "no connection"
  | "never"

/** A client with retries over answers in memory, and how often they were asked for. */
const over = (answers: ReadonlyArray<Answer>, options: RetryOptions = {}) => {
  let asked = 0
  const inner = HttpClient.make((request) => {
    const answer = answers[Math.min(asked++, answers.length - 1)] ?? "never"
    if (answer === "never") return Effect.never
    if (answer === "no connection") {
      return Effect.fail(
        new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request }) })
      )
    }
    const { retryAfter, status, type = "text/plain" } = answer
    const headers = { "content-type": type, ...(retryAfter !== undefined && { "retry-after": retryAfter }) }
    return Effect.succeed(HttpClientResponse.fromWeb(request, new Response("busy", { status, headers })))
  })
  return { client: withRetries(options)(inner), asked: () => asked }
}

const get = HttpClientRequest.get("http://service/")
const post = HttpClientRequest.post("http://service/")
const keyed = HttpClientRequest.setHeader(post, "idempotency-key", "k")

/** The status that a call ends with, and how much of the test's clock it took. */
const outcome = Effect.fnUntraced(function* (
  answers: ReadonlyArray<Answer>,
  request: HttpClientRequest.HttpClientRequest,
  options?: RetryOptions
) {
  const { client, asked } = over(answers, options)
  const fiber = yield* Effect.forkChild(
    client.execute(request).pipe(
      Effect.map((response): number | string => response.status),
      Effect.catch((error) => Effect.succeed(error.reason._tag)),
      Effect.timed
    )
  )
  yield* TestClock.adjust("10 minutes")
  const [took, ended] = yield* Fiber.join(fiber)
  return { ended, asked: asked(), seconds: Duration.toSeconds(took) }
})

describe("withRetries", () => {
  for (const [what, request] of [
    ["a GET", get],
    ["a POST with an idempotency key", keyed]
  ] as const) {
    it.effect(`waits with ${what} for as long as the service asks`, () =>
      Effect.gen(function* () {
        const answers = [{ status: 503, retryAfter: "7" }, { status: 200 }]
        assert.deepStrictEqual(yield* outcome(answers, request), { ended: 200, asked: 2, seconds: 7 })
      })
    )
  }

  it.effect("sends anew what a proxy answered 502, and not what the service did", () =>
    Effect.gen(function* () {
      const ofProxy = yield* outcome([{ status: 502, type: "text/html" }, { status: 200 }], keyed)
      assert.deepInclude(ofProxy, { ended: 200, asked: 2 })
      const ofService = yield* outcome(
        [{ status: 502, type: "application/problem+json" }, { status: 200 }],
        keyed
      )
      assert.deepStrictEqual(ofService, { ended: 502, asked: 1, seconds: 0 })
    })
  )

  it.effect("reads a date, too", () =>
    Effect.gen(function* () {
      const retryAfter = new Date(9_000).toUTCString()
      const result = yield* outcome([{ status: 429, retryAfter }, { status: 200 }], get)
      assert.deepStrictEqual(result, { ended: 200, asked: 2, seconds: 9 })
    })
  )

  it.effect("reads no date that is none of HTTP's", () =>
    Effect.gen(function* () {
      for (const retryAfter of ["1.5", "-1", "1970-01-01T00:00:09Z", "9 seconds"]) {
        const result = yield* outcome([{ status: 429, retryAfter }, { status: 200 }], get)
        assert.deepInclude(result, { ended: 200, asked: 2 })
        assert.isAtMost(result.seconds, 0.2)
      }
    })
  )

  it.effect("sends nothing again that could happen twice", () =>
    Effect.gen(function* () {
      assert.deepInclude(yield* outcome([{ status: 503 }, { status: 200 }], post), { ended: 503, asked: 1 })
      assert.deepInclude(yield* outcome(["no connection", { status: 200 }], post), {
        ended: "TransportError",
        asked: 1
      })
    })
  )

  it.effect("sends anything again that was refused before it was begun", () =>
    Effect.gen(function* () {
      const answers = [{ status: 429, retryAfter: "2" }, { status: 201 }]
      assert.deepStrictEqual(yield* outcome(answers, post), { ended: 201, asked: 2, seconds: 2 })
    })
  )

  it.effect("gives up after three more attempts, with the last answer", () =>
    Effect.gen(function* () {
      const result = yield* outcome([{ status: 503 }], get)
      assert.deepInclude(result, { ended: 503, asked: 4 })
      assert.isAtLeast(result.seconds, 0.7)
      assert.isAtMost(result.seconds, 1.4)
      assert.deepInclude(yield* outcome(["no connection"], get), { ended: "TransportError", asked: 4 })
      assert.deepInclude(yield* outcome([{ status: 503 }], get, { retries: 0 }), { ended: 503, asked: 1 })
    })
  )

  it.effect("does not wait for a service that asks for more patience than half a minute", () =>
    Effect.gen(function* () {
      const result = yield* outcome([{ status: 429, retryAfter: "31" }], get)
      assert.deepStrictEqual(result, { ended: 429, asked: 1, seconds: 0 })
    })
  )

  it.effect("sends nothing again for an answer that would be the same", () =>
    Effect.gen(function* () {
      for (const status of [200, 400, 404, 409, 500]) {
        assert.deepInclude(yield* outcome([{ status }], get), { ended: status, asked: 1 })
      }
    })
  )

  it.effect("ends an attempt that is not answered in time", () =>
    Effect.gen(function* () {
      const result = yield* outcome(["never"], post, { timeout: "3 seconds" })
      assert.deepStrictEqual(result, { ended: "TransportError", asked: 1, seconds: 3 })
    })
  )

  it.effect("sends a GET again that it waited for no longer, and nothing that may still be at work", () =>
    Effect.gen(function* () {
      const timeout = "3 seconds"
      assert.deepInclude(yield* outcome(["never", { status: 200 }], get, { timeout }), {
        ended: 200,
        asked: 2
      })
      assert.deepStrictEqual(yield* outcome(["never", { status: 200 }], keyed, { timeout }), {
        ended: "TransportError",
        asked: 1,
        seconds: 3
      })
    })
  )
})
