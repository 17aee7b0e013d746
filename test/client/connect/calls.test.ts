import { assert, describe, it } from "@effect/vitest"
import { afterEach, vi } from "vitest"
import { connect, isProblem, type LoggedAttempt } from "../../../src/client/connect/index.ts"
import { after, fakeService, realService, type ScriptedResponse } from "./fakeService.ts"

const json = (body: unknown, headers: Readonly<Record<string, string>> = {}, status = 200) => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body)
})
const busy: ScriptedResponse = { status: 503, headers: { "x-request-id": "req_1" }, body: "busy" }

const at = "2026-11-21T02:33:05.123Z"
const task_id = `tsk_${"a".repeat(32)}`
const dataset = (version: number) => ({
  id: `dst_${"b".repeat(32)}`,
  task_id,
  version,
  base_dataset_id: null,
  example_count: 1,
  examples_erased: 0,
  content_digest: "c".repeat(64),
  created_at: at,
  created_by: { id: `key_${"d".repeat(32)}`, name: "reviewer" }
})
const deletion = { deletions: [], next_cursor: null }

const client = (options = {}) => connect({ url: "http://service", key: "csk_key", ...options })

describe("a call of the promise client", () => {
  afterEach(() => {
    vi.unstubAllEnvs()
    realService()
  })

  it("takes an id in place of the input that has nothing else", async () => {
    const fetched = fakeService([{ status: 204 }])
    await client().notificationEndpoints.remove(`nep_${"a".repeat(32)}`)
    assert.strictEqual(fetched[0]?.url.pathname, `/v1/notification-endpoints/nep_${"a".repeat(32)}`)
    const { error } = await after(0, client().deletions.get("del_1"))
    assert.isTrue(isProblem(error, "INVALID_REQUEST"))
  })

  it("lists one page with await, and all items with for await, each page as it is reached", async () => {
    const pages = [
      json({ datasets: [dataset(3), dataset(2)], next_cursor: "after two" }),
      json({ datasets: [], next_cursor: "after none" }),
      json({ datasets: [dataset(1)], next_cursor: null })
    ]
    const fetched = fakeService(pages)
    const seen: Array<number> = []
    const input = { params: { id: task_id }, query: { limit: 2 } }
    for await (const { created_at, version } of client().datasets.list(input)) {
      assert.instanceOf(created_at, Date)
      seen.push(version)
    }
    assert.deepStrictEqual(seen, [3, 2, 1])
    assert.deepStrictEqual(
      fetched.map(({ url }) => url.search),
      ["?limit=2", "?limit=2&cursor=after+two", "?limit=2&cursor=after+none"]
    )
    const once = fakeService(pages)
    assert.lengthOf((await client().datasets.list(task_id)).datasets, 2)
    assert.lengthOf(once, 1)
  })

  it("fails a loop over a list with the problem of the page that it reached", async () => {
    const problem = {
      status: 403,
      headers: { "content-type": "application/problem+json" },
      body: JSON.stringify({
        type: "urn:problem-type:countersign:INSUFFICIENT_SCOPE",
        title: "Insufficient scope",
        status: 403,
        code: "INSUFFICIENT_SCOPE",
        required_scope: "approvals.read"
      })
    }
    fakeService([json({ datasets: [dataset(1)], next_cursor: "next" }), problem])
    const seen: Array<number> = []
    const loop = async () => {
      for await (const { version } of client().datasets.list(task_id)) seen.push(version)
    }
    const { error } = await after(0, loop())
    assert.isTrue(isProblem(error, "INSUFFICIENT_SCOPE"))
    assert.lengthOf(seen, 1)
  })

  it("has its own timeout, retries and headers, and those of the client without them", async () => {
    const fetched = fakeService([busy])
    const { took } = await after(600_000, client().deletions.list({}, { retries: 1 }))
    assert.lengthOf(fetched, 2)
    assert.isBelow(took, 1_000)
    const silent = fakeService(["never"])
    const late = await after(600_000, client().deletions.list({}, { retries: 0, timeout: "2 seconds" }))
    assert.isTrue(isProblem(late.error, "SERVICE_UNREACHABLE") && late.error.reason === "TIMEOUT")
    assert.strictEqual(late.took, 2_000)
    assert.lengthOf(silent, 1)
    // The body may take as long again as the headers.
    const body = new ReadableStream<Uint8Array>({ start: (stream) => stream.enqueue(Buffer.from("{")) })
    fakeService([{ headers: { "content-type": "application/json" }, body }])
    const dripping = await after(600_000, client().deletions.list({}, { retries: 0, timeout: "2 seconds" }))
    assert.isTrue(isProblem(dripping.error, "SERVICE_UNREACHABLE") && dripping.error.reason === "TIMEOUT")
    assert.strictEqual(dripping.took, 2_000)
    const traced = fakeService([json(deletion)])
    await client().deletions.list(
      {},
      { headers: { TraceParent: "00-a-b-01", Authorization: "Bearer other" } }
    )
    assert.deepInclude(traced[0]?.init.headers, { traceparent: "00-a-b-01", authorization: "Bearer csk_key" })
    const bad = await after(0, client().deletions.list({}, { headers: { "x-note": "two\nlines" } }))
    assert.isTrue(isProblem(bad.error, "INVALID_REQUEST"))
    assert.throws(() => connect({ url: "http://service", key: "csk_key", timeout: Number.NaN }), /duration/)
  })

  it("sends a creation with the idempotency key of its headers", async () => {
    const fetched = fakeService([busy])
    const headers = { "idempotency-key": "mine" }
    await after(0, client().sessions.create({}, { headers, retries: 0 }))
    assert.propertyVal(fetched[0]?.init.headers, "idempotency-key", "mine")
  })

  it("tells the facts of its response", async () => {
    const headers = { "x-request-id": "req_7", ratelimit: '"key";r=499, "organization";r=999' }
    fakeService([json(deletion, headers)])
    const response = await client().deletions.list().withResponse()
    assert.deepInclude(response, {
      result: { deletions: [], next_cursor: null },
      status: 200,
      request_id: "req_7",
      rate_limits: [
        { name: "key", remaining: 499 },
        { name: "organization", remaining: 999 }
      ]
    })
    assert.strictEqual(response.headers.get("x-request-id"), "req_7")
  })

  it("rejects once for a caller that asks for the response only", async () => {
    const unhandled: Array<unknown> = []
    const listen = (reason: unknown) => void unhandled.push(reason)
    process.on("unhandledRejection", listen)
    fakeService([{ status: 404, body: "nothing here" }])
    const { error } = await after(0, client().deletions.list().withResponse())
    realService()
    await new Promise((resolve) => setTimeout(resolve, 10))
    process.off("unhandledRejection", listen)
    assert.isTrue(isProblem(error, "UNEXPECTED_RESPONSE"))
    assert.deepStrictEqual(unhandled, [])
  })

  it("logs every attempt, without key, query or body, and survives a log that throws", async () => {
    fakeService([busy, json(deletion, { "x-request-id": "req_2" })])
    const logged: Array<LoggedAttempt> = []
    const log = (attempt: LoggedAttempt) => void logged.push(attempt)
    await after(600_000, client({ log }).deletions.list({ query: { limit: 7 } }))
    const common = { operation: "deletions.list", method: "GET", path: "/v1/deletions", reason: undefined }
    assert.deepInclude(logged[0], { ...common, attempt: 1, status: 503, request_id: "req_1" })
    assert.isAbove(logged[0]?.retry_in_ms ?? 0, 0)
    assert.deepInclude(logged[1], { ...common, attempt: 2, status: 200, retry_in_ms: undefined })
    assert.notInclude(JSON.stringify(logged), "csk_key")
    const printed = vi.spyOn(console, "error").mockImplementation(() => undefined)
    fakeService([json(deletion)])
    const failing = client({
      log: () => {
        throw new Error("disk full")
      }
    })
    assert.deepStrictEqual(await failing.deletions.list(), deletion)
    assert.strictEqual(printed.mock.calls.length, 1)
    printed.mockRestore()
  })

  it("takes the service and the key from the environment", async () => {
    vi.stubEnv("COUNTERSIGN_URL", "http://elsewhere/base/")
    vi.stubEnv("COUNTERSIGN_KEY", "csk_environment")
    const fetched = fakeService([json(deletion)])
    await connect().deletions.list()
    assert.strictEqual(fetched[0]?.url.href, "http://elsewhere/base/v1/deletions")
    assert.propertyVal(fetched[0]?.init.headers, "authorization", "Bearer csk_environment")
    vi.stubEnv("COUNTERSIGN_KEY", "")
    assert.throws(() => connect(), /has no key: give one, or set COUNTERSIGN_KEY/)
    assert.throws(() => connect({ key: "" }), /has no key: give one, or set COUNTERSIGN_KEY/)
    vi.stubEnv("COUNTERSIGN_URL", undefined)
    assert.throws(() => connect(), /has no url: give one, or set COUNTERSIGN_URL/)
  })

  it("names the call that a closed client ended", async () => {
    fakeService(["never"])
    const open = client()
    const running = after<unknown>(0, open.deletions.list())
    await open.close()
    for (const [name, ended] of [
      ["deletions.list", running],
      ["grants.list", after<unknown>(0, open.grants.list())]
    ] as const) {
      const { error } = await ended
      assert.isTrue(isProblem(error, "CLIENT_CLOSED") && error.operation === name)
      assert.match(String(error), /: the client was closed before the call ended.*`return await/)
    }
  })
})
