import { afterEach, assert, beforeEach, describe, it, vi } from "@effect/vitest"
import { build } from "esbuild"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import { type EndUserFeedback, FeedbackError, sendFeedback } from "../../src/feedback/index.ts"

const directory = new URL("../../src/feedback/", import.meta.url)

const grant = { token: "cft_token", url: "https://countersign.example.com/v1/runs/1/end-user-feedback" }

type Reply = Response | Error

/** Answers the requests in turn, the last reply again and again, and records them. */
const replyWith = (...replies: ReadonlyArray<() => Reply>) => {
  const requests: Array<readonly [url: string, init: RequestInit]> = []
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    const reply = replies[Math.min(requests.length, replies.length - 1)]?.() ?? new Error("no reply")
    requests.push([url, init])
    return reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply)
  })
  return requests
}

const stored = () => new Response(null, { status: 204 })
const problem = (status: number, code: string) => () =>
  Response.json({ code, detail: `about ${code}` }, { status })

/** Sends feedback while the time passes; returns the error. */
const failureOf = async (feedback: EndUserFeedback, signal?: AbortSignal): Promise<unknown> => {
  const sent = sendFeedback(grant, feedback, signal === undefined ? {} : { signal }).then(
    () => undefined,
    (error: unknown) => error
  )
  await vi.runAllTimersAsync()
  return sent
}

describe("sendFeedback", () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => {
    vi.useRealTimers()
    vi.unstubAllGlobals()
  })

  it("sends the feedback with the token, without cookies or the page's address", async () => {
    const requests = replyWith(stored)
    assert.isUndefined(await failureOf({ score: 1, comment: "good" }))
    assert.lengthOf(requests, 1)
    const [url, init] = requests[0] ?? assert.fail("a request")
    assert.strictEqual(url, grant.url)
    assert.deepInclude(init, {
      method: "POST",
      body: '{"score":1,"comment":"good"}',
      credentials: "omit",
      referrerPolicy: "no-referrer",
      redirect: "error"
    })
    assert.deepStrictEqual(init.headers, {
      authorization: "Bearer cft_token",
      "content-type": "application/json"
    })
  })

  it("repeats the request while the network or the service is unavailable", async () => {
    const requests = replyWith(() => new TypeError("Failed to fetch"), problem(503, "UNAVAILABLE"), stored)
    assert.isUndefined(await failureOf({ score_value: 0.5 }))
    assert.lengthOf(requests, 3)
    assert.strictEqual(new Set(requests.map(([, { body }]) => body)).size, 1)
  })

  it("fails with the code of the service, without repeating a refused request", async () => {
    const requests = replyWith(problem(401, "INVALID_FEEDBACK_TOKEN"))
    const error = await failureOf({ score: 0 })
    assert.instanceOf(error, FeedbackError)
    assert.deepInclude(error, { code: "INVALID_FEEDBACK_TOKEN", status: 401 })
    assert.lengthOf(requests, 1)
  })

  it("fails as unreachable after three attempts", async () => {
    const requests = replyWith(() => new TypeError("Failed to fetch"))
    const error = await failureOf({ score: 0 })
    assert.instanceOf(error, FeedbackError)
    assert.deepInclude(error, { code: "UNREACHABLE", status: undefined })
    assert.lengthOf(requests, 3)
  })

  it("stops when it is cancelled", async () => {
    const requests = replyWith(() => new TypeError("Failed to fetch"))
    const cancelled = new AbortController()
    const reason = new Error("The page was closed")
    setTimeout(() => cancelled.abort(reason), 100)
    assert.strictEqual(await failureOf({ score: 0 }, cancelled.signal), reason)
    assert.lengthOf(requests, 1)
  })

  it("stops without a pause when it is cancelled while a response is read, with any reason", async () => {
    const cancelled = new AbortController()
    const begun = Date.now()
    replyWith(() => {
      cancelled.abort("The page was closed")
      return problem(503, "UNAVAILABLE")()
    })
    assert.strictEqual(await failureOf({ score: 0 }, cancelled.signal), "The page was closed")
    assert.strictEqual(Date.now(), begun)
  })

  it("stops in a pause with any reason", async () => {
    replyWith(() => new TypeError("Failed to fetch"))
    const cancelled = new AbortController()
    setTimeout(() => cancelled.abort("The page was closed"), 100)
    assert.strictEqual(await failureOf({ score: 0 }, cancelled.signal), "The page was closed")
  })
})

describe("countersign/feedback", () => {
  it("imports nothing but its own files", () => {
    for (const file of readdirSync(directory)) {
      const text = readFileSync(new URL(file, directory), "utf8")
      for (const [, from] of text.matchAll(/^(?! \*).*\bfrom\s+["']([^"']+)["']/gm)) {
        assert.match(from ?? "", /^\.\/[a-zA-Z]+\.ts$/, file)
      }
    }
  })

  it("adds less than 1.5 KB to a page", async () => {
    const { outputFiles } = await build({
      entryPoints: [fileURLToPath(new URL("index.ts", directory))],
      bundle: true,
      minify: true,
      format: "esm",
      platform: "browser",
      write: false
    })
    assert.isBelow(gzipSync(outputFiles[0]?.contents ?? "").length, 1_536)
  })
})
