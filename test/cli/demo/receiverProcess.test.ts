import { assert, describe, it } from "@effect/vitest"
import { Effect, Queue } from "effect"
import { createHmac } from "node:crypto"
import { startReceiver } from "../../../src/cli/demo/receiverProcess.ts"

const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
const body = JSON.stringify({
  id: "evt_1",
  type: "test",
  org_id: "org_1",
  occurred_at: "2026-11-21T02:33:05.123Z",
  approval: null
})

/** Signed independently, as the contract says: HMAC-SHA-256 over `t.body`, keyed by the whole text of the secret. */
const signed = (key: string) => {
  const time = Math.floor(Date.now() / 1000)
  return `t=${time},v1=${createHmac("sha256", key).update(`${time}.${body}`).digest("hex")}`
}

const post = (port: number, signature: string, text = body) =>
  Effect.promise(async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/hook`, {
      method: "POST",
      headers: { "x-svc-signature": signature },
      body: text
    })
    return answer.status
  })

describe("the demo's receiver", () => {
  it.live("is a separate process that verifies deliveries and reports them", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const receiver = yield* startReceiver
        assert.notStrictEqual(receiver.pid, process.pid)
        yield* receiver.useSecret(secret)

        assert.strictEqual(yield* post(receiver.port, signed(secret)), 204)
        const good = yield* Queue.take(receiver.deliveries)
        assert.deepStrictEqual(good.verification, { ok: true, event_id: "evt_1", type: "test" })
        assert.strictEqual(good.body, body)
        assert.strictEqual(good.path, "/hook")

        assert.strictEqual(yield* post(receiver.port, signed("whsec_other")), 401)
        const forged = yield* Queue.take(receiver.deliveries)
        assert.deepInclude(forged.verification, { ok: false, reason: "no_matching_signature" })

        assert.strictEqual(yield* post(receiver.port, signed(secret), `${body} `), 401)
        assert.strictEqual(yield* post(receiver.port, signed(secret), "x".repeat(300_000)), 413)
      })
    )
  )

  it.live("exits with the scope", () =>
    Effect.gen(function* () {
      const { pid } = yield* Effect.scoped(startReceiver)
      assert.throws(() => process.kill(pid ?? 0, 0), /ESRCH/)
    })
  )
})
