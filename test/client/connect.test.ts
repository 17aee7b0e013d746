import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { onTestFinished } from "vitest"
import { connect, type CountersignClient } from "../../src/client/index.ts"
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
      assert.deepStrictEqual(await client.api_keys.list(), { keys: [], next_cursor: null })
      assert.strictEqual(seen[0]?.headers.authorization, `Bearer ${key}`)
    })
  )

  it.live("accepts ids as plain strings and sends no invalid id", () => {
    const step = {
      step_id: "refund-1",
      decision: "allow",
      approval_id: null,
      reason: "A rule allows this step",
      rule_id: null,
      expires_at: null,
      arguments_digest: "0".repeat(64)
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
        const error = await rejection(client.api_keys.list())
        if (!(error instanceof Error)) return assert.fail("rejected with no error")
        assert.strictEqual("code" in error && error.code, "INSUFFICIENT_SCOPE")
        assert.strictEqual("required_scope" in error && error.required_scope, "keys.write")
        assert.strictEqual("request_id" in error && error.request_id, "req_1")
      }
    )
  )

  it.live("aborts a call with its caller's signal", () =>
    withServer(["never"], async (client, { arrived }) => {
      const stop = new AbortController()
      const call = rejection(client.api_keys.list({}, { signal: stop.signal }))
      await arrived(1)
      const reason = new Error("enough")
      stop.abort(reason)
      assert.strictEqual(await call, reason)
    })
  )

  it.live("close aborts running calls and rejects later ones", () =>
    withServer(["never"], async (client, { arrived, seen }) => {
      const call = rejection(client.api_keys.list())
      await arrived(1)
      await client.close()
      assert.include(String(await call), "closed")
      assert.include(String(await rejection(client.api_keys.list())), "closed")
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
      const call = rejection(client.api_keys.list({}, { signal: stop.signal }))
      await arrived(1)
      stop.abort("enough")
      assert.strictEqual(await call, "enough")
      assert.strictEqual(await rejection(client.api_keys.list({}, { signal: stop.signal })), "enough")
    })
  )

  it("rejects a URL that is not http or https with an example", () => {
    assert.throws(() => connect({ url: "localhost:8080", key }), /http or https URL/)
  })
})
