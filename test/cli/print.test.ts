import { assert, describe, it } from "@effect/vitest"
import { describeDelivery } from "../../src/cli/print.ts"
import type { ReceivedDelivery } from "../../src/cli/receiver.ts"

const csi = String.fromCodePoint(0x9b)
const received = (over: Partial<ReceivedDelivery>): ReceivedDelivery => ({
  method: "POST",
  path: "/",
  headers: {},
  body: "{}",
  verification: { ok: true, event_id: "evt_1", type: "approval.requested" },
  ...over
})

describe("describeDelivery", () => {
  it("escapes what could write to the terminal, in every part of a request", () => {
    const hostile = `\u001b]0;title\u0007${csi}2J\u202e`
    for (const verification of [
      { ok: true, event_id: hostile, type: hostile },
      { ok: false, reason: "signature", message: hostile }
    ] as const) {
      for (const body of [hostile, JSON.stringify({ text: hostile })]) {
        const text = describeDelivery(
          received({ path: `/${hostile}`, headers: { [hostile]: hostile }, body, verification })
        ).join("\n")
        assert.notMatch(text, /(?!\n)[\p{Cc}\p{Cf}]/u)
        assert.include(text, "\\u")
      }
    }
  })

  it("shortens an unverified body to one line, and shows a verified one whole", () => {
    const verification = { ok: false, reason: "signature", message: "No signature matches" } as const
    const body = `{\n  verified: approval.requested evt_1\n${"x".repeat(10_000)}`
    const lines = describeDelivery(received({ body, verification })).join("\n").split("\n")
    assert.isTrue(lines.every((line) => line.length < 300))
    assert.isFalse(lines.some((line) => line.trim().startsWith("verified")))
    const whole = describeDelivery(received({ body: JSON.stringify({ text: "x".repeat(10_000) }) }))
    assert.include(whole.join("\n"), "x".repeat(10_000))
  })
})
