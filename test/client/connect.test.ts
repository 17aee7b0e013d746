import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { onTestFinished, vi } from "vitest"
import { connect, type CountersignClient, isProblem } from "../../src/client/index.ts"
import { type ScriptedReply, startScriptedServer } from "../support/scripted.ts"

const key = "csk_secret"

const withServer = (
  answers: ReadonlyArray<ScriptedReply>,
  use: (
    client: CountersignClient,
    server: Effect.Success<ReturnType<typeof startScriptedServer>>
  ) => Promise<unknown>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* startScriptedServer(answers)
      const client = connect({ url: server.url, key })
      yield* Effect.promise(() => use(client, server).finally(client.close))
    })
  )

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => assert.fail("the call was answered"),
    (error: unknown) => error
  )

describe("connect", () => {
  it.live("returns promises", () =>
    withServer([{ status: 200, body: { keys: [], next_cursor: null } }], async (client, { seen }) => {
      assert.deepStrictEqual(await client.apiKeys.list(), { keys: [], next_cursor: null })
      assert.strictEqual(seen[0]?.headers.authorization, `Bearer ${key}`)
    })
  )

  it.live("sends an object in a query as JSON", () =>
    withServer([{ status: 200, body: { runs: [], next_cursor: null } }], async (client, { seen }) => {
      await client.runs.list({
        params: { id: `tsk_${"0".repeat(32)}` },
        query: { metadata: { customer: "acme & co", tries: 2 } }
      })
      const url = new URL(seen[0]?.url ?? "", "http://localhost")
      assert.strictEqual(url.searchParams.get("metadata"), '{"customer":"acme & co","tries":2}')
    })
  )

  it.live("accepts ids as plain strings and sends no invalid id", () => {
    const step = {
      step_id: "refund-1",
      decision: "allow",
      approval_id: null,
      reason: "A rule allows this step",
      decided_by: null,
      comment: null,
      rule_id: null,
      decision_source: "rule",
      grant_id: null,
      expires_at: null,
      arguments_digest: "0".repeat(64),
      changes_requested: false,
      proposal: null
    }
    return withServer([{ status: 200, body: step }], async (client, { seen }) => {
      const id: string = `ses_${"0".repeat(32)}`
      const payload = { step_id: "refund-1", tool: "payments.refund", action_class: "write" }
      const answer = await client.sessions.step({ params: { id }, payload })
      assert.strictEqual(answer.step_id, "refund-1")
      assert.strictEqual((await client.govern(id, payload)).decision, "allow")
      assert.strictEqual(seen[0]?.url, `/v1/agent-sessions/${id}/steps`)
      assert.include(String(await rejection(client.govern("ses_1", payload))), "ses_ and 32 lowercase hex")
      const wrong = await rejection(client.govern(id, { ...payload, arguments: { amount: Number.NaN } }))
      assert.include(String(wrong), "payload/arguments/amount")
      const followed = client.stream("../keys")[Symbol.asyncIterator]()
      assert.include(String(await rejection(followed.next())), "ses_ and 32 lowercase hex")
      assert.strictEqual(seen.length, 2)
    })
  })

  it.live("rejects with the service's problem", () =>
    withServer(
      [
        {
          status: 403,
          body: {
            type: "urn:problem-type:countersign:INSUFFICIENT_SCOPE",
            title: "Missing scope",
            status: 403,
            code: "INSUFFICIENT_SCOPE",
            required_scope: "keys.write",
            request_id: "req_1"
          }
        }
      ],
      async (client) => {
        const error = await rejection(client.apiKeys.list())
        if (!(error instanceof Error)) return assert.fail("rejected with no error")
        assert.strictEqual("code" in error && error.code, "INSUFFICIENT_SCOPE")
        assert.strictEqual("required_scope" in error && error.required_scope, "keys.write")
        assert.strictEqual("request_id" in error && error.request_id, "req_1")
      }
    )
  )

  it.live("sends no trace, whose spans nobody would export", () =>
    withServer([{ status: 200, body: { keys: [], next_cursor: null } }], async (client, { seen }) => {
      await client.apiKeys.list()
      assert.notProperty(seen[0]?.headers, "traceparent")
      assert.notProperty(seen[0]?.headers, "b3")
    })
  )

  it.live("narrows a problem by its code, also after it passed another copy of the package", () =>
    withServer(
      [
        {
          status: 429,
          headers: { "retry-after": "60" },
          body: {
            type: "urn:problem-type:countersign:RATE_LIMITED",
            title: "Rate limit exceeded",
            status: 429,
            code: "RATE_LIMITED",
            retry_after_seconds: 60
          }
        }
      ],
      async (client) => {
        const error = await rejection(client.apiKeys.list())
        assert.isTrue(isProblem(error) && isProblem(error, "NOT_FOUND", "RATE_LIMITED"))
        assert.isFalse(isProblem(error, "NOT_FOUND"))
        assert.strictEqual(isProblem(error, "RATE_LIMITED") && error.retry_after_seconds, 60)
        assert.strictEqual(isProblem(error) && error.operation, "apiKeys.list")
        assert.strictEqual(String(error), "RATE_LIMITED: Rate limit exceeded")
        const module = new URL("../../src/client/connect/Problem.ts", import.meta.url)
        const copy: unknown = await import(`${module.href}?copy`)
        const guard: unknown = Reflect.get(Object(copy), "isProblem")
        assert.isTrue(typeof guard === "function" && guard !== isProblem && guard(error, "RATE_LIMITED"))
        for (const other of [
          new Error("x"),
          Object.assign(new Error("x"), { code: "RATE_LIMITED" }),
          null,
          "x"
        ]) {
          assert.isFalse(isProblem(other))
        }
      }
    )
  )

  it.live("rejects invalid input with INVALID_REQUEST, which names the operation and the field", () =>
    withServer([{ status: 201, body: {} }], async (client, { seen }) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as a caller without types may
      const payload = { task_id: 4711 } as unknown as { readonly task_id: string }
      const error = await rejection(client.sessions.create({ payload }))
      if (!isProblem(error, "INVALID_REQUEST")) return assert.fail(String(error))
      assert.include(error.detail, "sessions.create: the input payload/task_id is invalid: Expected a string")
      assert.deepStrictEqual(
        error.errors?.map(({ pointer }) => pointer),
        ["#/task_id"]
      )
      assert.strictEqual(error.operation, "sessions.create")
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as a caller without types may
      const misspelt = { payloads: {} } as unknown as { readonly payload: object }
      assert.include(
        String(await rejection(client.sessions.create(misspelt))),
        "sessions.create: the input /payloads is invalid: Is not a member; did you mean payload? Nothing was sent."
      )
      for (const step_id of ["", ".", ".."]) {
        const params = { id: `ses_${"0".repeat(32)}`, step_id }
        const refused = await rejection(
          client.sessions.reportOutcome({ params, payload: { status: "failed" } })
        )
        assert.include(String(refused), "params/step_id")
      }
      assert.lengthOf(seen, 0)
    })
  )

  it("reads the lines of an export as they arrive", async () => {
    const line = (digit: string) =>
      JSON.stringify({
        id: `exm_${digit.repeat(32)}`,
        input: {},
        answer: {},
        source_feedback_id: null,
        origin: "made"
      })
    const bytes = new TextEncoder().encode(`${line("a")}\n${line("b")}\r\n\n${line("c")}`)
    const ids = async (body: BodyInit, limit = Infinity) => {
      vi.stubGlobal("fetch", () => Promise.resolve(new Response(body)))
      const seen: Array<string> = []
      const params = { id: `dst_${"0".repeat(32)}` }
      for await (const { id } of await connect({ url: "http://service", key }).datasets.export({ params })) {
        if (seen.push(id.slice(4, 5)) === limit) break
      }
      return seen.join("")
    }
    onTestFinished(() => void vi.unstubAllGlobals())

    const inPieces = new ReadableStream<Uint8Array>({
      start: (controller) => {
        for (let offset = 0; offset < bytes.length; offset += 7)
          controller.enqueue(bytes.slice(offset, offset + 7))
        controller.close()
      }
    })
    assert.strictEqual(await ids(inPieces), "abc")

    let isCanceled = false
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(bytes),
      cancel: () => {
        isCanceled = true
      }
    })
    assert.strictEqual(await ids(endless, 2), "ab")
    assert.isTrue(isCanceled)

    for (const bad of [`${line("a")}\n{"id": 1}`, "<html>"]) {
      assert.isTrue(isProblem(await rejection(ids(bad)), "UNEXPECTED_RESPONSE"))
    }
  })

  it.live("aborts a call with its caller's signal", () =>
    withServer(["never"], async (client, { arrived }) => {
      const stop = new AbortController()
      const call = rejection(client.apiKeys.list({}, { signal: stop.signal }))
      await arrived(1)
      const reason = new Error("enough")
      stop.abort(reason)
      assert.strictEqual(await call, reason)
    })
  )

  it.live("close aborts running calls and rejects later ones", () =>
    withServer(["never"], async (client, { arrived, seen }) => {
      const call = rejection(client.apiKeys.list())
      await arrived(1)
      await client.close()
      assert.include(String(await call), "closed")
      assert.include(String(await rejection(client.apiKeys.list())), "closed")
      assert.strictEqual(seen.length, 1)
    })
  )

  it.live("runs with fetch and without newer platform features", () =>
    withServer(["never"], async (client, { arrived, url }) => {
      for (const [owner, name] of [
        [URL, "parse"],
        [AbortSignal, "any"]
      ] as const) {
        const standard = Object.getOwnPropertyDescriptor(owner, name)
        assert.isDefined(standard)
        Reflect.deleteProperty(owner, name)
        onTestFinished(() => void (standard && Object.defineProperty(owner, name, standard)))
      }
      await connect({ url, key }).close()
      const stop = new AbortController()
      const call = rejection(client.apiKeys.list({}, { signal: stop.signal }))
      await arrived(1)
      stop.abort("enough")
      assert.strictEqual(await call, "enough")
      assert.strictEqual(await rejection(client.apiKeys.list({}, { signal: stop.signal })), "enough")
    })
  )

  it("rejects a URL that is not http or https with an example", () => {
    assert.throws(() => connect({ url: "localhost:8080", key }), /http or https URL/)
  })
})
