import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Result } from "effect"
import * as fc from "fast-check"
import { inspect } from "node:util"
import * as WebhookSignature from "../../../src/domain/delivery/WebhookSignature.ts"

const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
const older = "whsec_//////////////////////////////////////////8="

const key = (text: string) => Result.getOrThrow(WebhookSignature.makeSigningKey(Redacted.make(text)))

const attempt = {
  eventId: "evt_0192f0c1a2b37c4d8e5f60718293a4b5",
  eventType: "approval.requested",
  timestamp: 1_795_228_385,
  body: `{"id":"evt_0192f0c1a2b37c4d8e5f60718293a4b5","name":"Zoë ☂"}`
}

describe("WebhookSignature", () => {
  it("signs as computed by OpenSSL", () => {
    // openssl dgst -sha256 -mac HMAC -macopt hexkey:..., once over "<t>.<body>" and once over "<id>.<t>.<body>"
    const headers = WebhookSignature.signatureHeaders({ current: key(secret), previous: null }, attempt)
    assert.deepStrictEqual(headers, {
      "X-Svc-Event-Id": attempt.eventId,
      "X-Svc-Event-Type": attempt.eventType,
      "X-Svc-Signature": "t=1795228385,v1=7a9fe254ce6fc310b399a97c4bf8b36aae747bce7868dd98dd6636f97c1dd774",
      "webhook-id": attempt.eventId,
      "webhook-timestamp": "1795228385",
      "webhook-signature": "v1,QVYYBFv2K27yvoOHkrFxXqjrppTv8HfPDplFMuVRpwU="
    })
  })

  it("signs with both secrets during a rotation, the newer first", () => {
    const alone = (text: string) =>
      WebhookSignature.signatureHeaders({ current: key(text), previous: null }, attempt)
    const both = WebhookSignature.signatureHeaders({ current: key(secret), previous: key(older) }, attempt)
    const v1 = (text: string) => alone(text)["X-Svc-Signature"].split(",")[1]
    assert.strictEqual(both["X-Svc-Signature"], `t=1795228385,${v1(secret)},${v1(older)}`)
    assert.strictEqual(
      both["webhook-signature"],
      `${alone(secret)["webhook-signature"]} ${alone(older)["webhook-signature"]}`
    )
  })

  it("signs a text and its bytes alike", () => {
    const keys = { current: key(secret), previous: null }
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (body) => {
        const bytes = new TextEncoder().encode(body)
        assert.deepStrictEqual(
          WebhookSignature.signatureHeaders(keys, { ...attempt, body: bytes }),
          WebhookSignature.signatureHeaders(keys, { ...attempt, body })
        )
      })
    )
  })

  it("rejects malformed secrets", () => {
    for (const text of [
      "",
      "whsec_",
      secret.slice(6),
      `${secret}\n`,
      ` ${secret}`,
      secret.slice(0, -1),
      secret.replace("8=", "9="),
      secret.replace("whsec_", "WHSEC_"),
      "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwd",
      "whsec_-_ECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    ]) {
      assert.deepStrictEqual(
        WebhookSignature.makeSigningKey(Redacted.make(text)),
        Result.fail("malformed secret"),
        text
      )
    }
  })

  it.effect("generates secrets of 32 random bytes", () =>
    Effect.gen(function* () {
      const made = new Set<string>()
      for (let round = 0; round < 100; round++) {
        const fresh = yield* WebhookSignature.generateSigningSecret
        const text = Redacted.value(fresh)
        assert.match(text, /^whsec_[0-9A-Za-z+/]{43}=$/)
        assert.isTrue(Result.isSuccess(WebhookSignature.makeSigningKey(fresh)))
        made.add(text)
      }
      assert.strictEqual(made.size, 100)
    })
  )

  it("a printed key does not contain the secret", () => {
    const printed = inspect(key(secret), { depth: 9 }) + JSON.stringify(key(secret))
    assert.notInclude(printed, "AAECAwQF")
    assert.notInclude(printed, "0001020304")
  })
})
