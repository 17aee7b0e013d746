import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { type RetryOptions, withRetries } from "../../src/client/retry.ts"

type Answer =
  | { readonly status: number; readonly retryAfter?: string; readonly type?: string }
  | "no connection"
  | "never"

/** A client with retries over scripted responses, and the number of requests. */
const clientWith = (answers: ReadonlyArray<Answer>, options: RetryOptions = {}) => {
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
const postWithKey = HttpClientRequest.setHeader(post, "idempotency-key", "k")

/** The final status of a call, and its duration on the test clock. */
const outcome = Effect.fnUntraced(function* (
  answers: ReadonlyArray<Answer>,
  request: HttpClientRequest.HttpClientRequest,
  options?: RetryOptions
) {
  const { client, asked } = clientWith(answers, options)
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
    ["a POST with an idempotency key", postWithKey]
  ] as const) {
    it.effect(`waits with ${what} for as long as the service asks`, () =>
      Effect.gen(function* () {
        const answers = [{ status: 503, retryAfter: "7" }, { status: 200 }]
        assert.deepStrictEqual(yield* outcome(answers, request), { ended: 200, asked: 2, seconds: 7 })
      })
    )
  }

  it.effect("retries a proxy's 502, but not the service's own", () =>
    Effect.gen(function* () {
      const ofProxy = yield* outcome([{ status: 502, type: "text/html" }, { status: 200 }], postWithKey)
      assert.deepInclude(ofProxy, { ended: 200, asked: 2 })
      const ofService = yield* outcome(
        [{ status: 502, type: "application/problem+json" }, { status: 200 }],
        postWithKey
      )
      assert.deepStrictEqual(ofService, { ended: 502, asked: 1, seconds: 0 })
    })
  )

  it.effect("a JSON body that does not end has the same timeout as the headers", () =>
    Effect.gen(function* () {
      const inner = HttpClient.make((request) => {
        const headers = { "content-type": "application/json" }
        return Effect.succeed(
          HttpClientResponse.fromWeb(request, new Response(new ReadableStream(), { headers }))
        )
      })
      const call = yield* Effect.forkChild(
        Effect.timed(Effect.flip(withRetries({ timeout: "2 seconds" })(inner).execute(get)))
      )
      yield* TestClock.adjust("10 minutes")
      const [took, { reason }] = yield* Fiber.join(call)
      assert.strictEqual(reason._tag, "TransportError")
      assert.strictEqual(Duration.toSeconds(took), 2)
    })
  )

  it.effect("follows a Retry-After date", () =>
    Effect.gen(function* () {
      const retryAfter = new Date(9_000).toUTCString()
      const result = yield* outcome([{ status: 429, retryAfter }, { status: 200 }], get)
      assert.deepStrictEqual(result, { ended: 200, asked: 2, seconds: 9 })
    })
  )

  it.effect("ignores a Retry-After that is not an HTTP date", () =>
    Effect.gen(function* () {
      for (const retryAfter of ["1.5", "-1", "1970-01-01T00:00:09Z", "9 seconds"]) {
        const result = yield* outcome([{ status: 429, retryAfter }, { status: 200 }], get)
        assert.deepInclude(result, { ended: 200, asked: 2 })
        assert.isAtMost(result.seconds, 0.2)
      }
    })
  )

  it.effect("does not retry a request that is not idempotent", () =>
    Effect.gen(function* () {
      assert.deepInclude(yield* outcome([{ status: 503 }, { status: 200 }], post), { ended: 503, asked: 1 })
      assert.deepInclude(yield* outcome(["no connection", { status: 200 }], post), {
        ended: "TransportError",
        asked: 1
      })
    })
  )

  it.effect("retries any request that was rejected before processing", () =>
    Effect.gen(function* () {
      const answers = [{ status: 429, retryAfter: "2" }, { status: 201 }]
      assert.deepStrictEqual(yield* outcome(answers, post), { ended: 201, asked: 2, seconds: 2 })
    })
  )

  it.effect("returns the last response after three retries", () =>
    Effect.gen(function* () {
      const result = yield* outcome([{ status: 503 }], get)
      assert.deepInclude(result, { ended: 503, asked: 4 })
      assert.isAtLeast(result.seconds, 0.7)
      assert.isAtMost(result.seconds, 1.4)
      assert.deepInclude(yield* outcome(["no connection"], get), { ended: "TransportError", asked: 4 })
      assert.deepInclude(yield* outcome([{ status: 503 }], get, { retries: 0 }), { ended: 503, asked: 1 })
    })
  )

  it.effect("does not wait for a Retry-After over 30 seconds", () =>
    Effect.gen(function* () {
      const result = yield* outcome([{ status: 429, retryAfter: "31" }], get)
      assert.deepStrictEqual(result, { ended: 429, asked: 1, seconds: 0 })
    })
  )

  it.effect("does not retry a permanent failure", () =>
    Effect.gen(function* () {
      for (const status of [200, 400, 404, 409, 500]) {
        assert.deepInclude(yield* outcome([{ status }], get), { ended: status, asked: 1 })
      }
    })
  )

  it.effect("times out an attempt without a response", () =>
    Effect.gen(function* () {
      const result = yield* outcome(["never"], post, { timeout: "3 seconds" })
      assert.deepStrictEqual(result, { ended: "TransportError", asked: 1, seconds: 3 })
    })
  )

  it.effect("retries a GET after a timeout, but no request that may still be processed", () =>
    Effect.gen(function* () {
      const timeout = "3 seconds"
      assert.deepInclude(yield* outcome(["never", { status: 200 }], get, { timeout }), {
        ended: 200,
        asked: 2
      })
      assert.deepStrictEqual(yield* outcome(["never", { status: 200 }], postWithKey, { timeout }), {
        ended: "TransportError",
        asked: 1,
        seconds: 3
      })
    })
  )
})
