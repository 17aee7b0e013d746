import { assert, describe, it } from "@effect/vitest"
import { Redacted, Result } from "effect"
import * as fc from "fast-check"
import { Webhook as StandardWebhook } from "standardwebhooks"
import { Webhook as SvixWebhook } from "svix"
import { signatureHeaders, makeSigningKey } from "../../src/domain/delivery/WebhookSignature.ts"
import { verify } from "../../src/webhook/index.ts"
import * as Events from "./events.ts"

const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
const older = "whsec_//////////////////////////////////////////8="
const at = 1_795_228_385
const now = () => at * 1000

const key = (text: string) => Result.getOrThrow(makeSigningKey(Redacted.make(text)))
const currentOnly = { current: key(secret), previous: null }
const rotating = { current: key(secret), previous: key(older) }

const signed = (
  body: string | Uint8Array,
  keys: typeof currentOnly | typeof rotating = currentOnly,
  timestamp = at
) => signatureHeaders(keys, { eventId: "evt_1", eventType: "test", timestamp, body })

const validDelivery = JSON.stringify(Events.test)
const goodHeader = signed(validDelivery)["X-Svc-Signature"]
const hex = goodHeader.slice(goodHeader.indexOf("v1=") + 3)

const reasonOf = async (...args: Parameters<typeof verify>) => {
  const result = await verify(args[0], args[1], args[2], { now, ...args[3] })
  return result.ok ? "ok" : result.reason
}

describe("verify", () => {
  it("decodes every event type that the service sends", async () => {
    for (const event of Events.all) {
      const body = JSON.stringify(event)
      const result = await verify(body, signed(body), secret, { now })
      assert.deepStrictEqual<unknown>(result, { ok: true, event })
    }
  })

  it("accepts the body as a string, bytes, a slice of bytes and a buffer", async () => {
    const bytes = new TextEncoder().encode(validDelivery)
    const padded = new Uint8Array(bytes.length + 9)
    padded.set(bytes, 4)
    for (const body of [
      validDelivery,
      bytes,
      Buffer.from(validDelivery),
      padded.subarray(4, -5),
      bytes.buffer
    ]) {
      assert.strictEqual(await reasonOf(body, signed(validDelivery), secret), "ok")
    }
  })

  it("accepts headers from fetch, node:http and frameworks", async () => {
    for (const headers of [
      new Headers({ ...signed(validDelivery) }),
      { "x-svc-signature": goodHeader },
      { "X-SVC-SIGNATURE": [goodHeader], other: undefined },
      new Map([["x-svc-signature", goodHeader]])
    ]) {
      const read = headers instanceof Map ? { get: (name: string) => headers.get(name) ?? null } : headers
      assert.strictEqual(await reasonOf(validDelivery, read, secret), "ok")
    }
  })

  const forged: ReadonlyArray<
    readonly [name: string, header: string | ReadonlyArray<string>, reason: string]
  > = [
    ["nothing", "", "malformed_signature"],
    ["no v1", `t=${at}`, "malformed_signature"],
    ["an empty v1", `t=${at},v1=`, "malformed_signature"],
    ["a short v1", `t=${at},v1=ab`, "malformed_signature"],
    ["upper case", `t=${at},v1=${hex.toUpperCase()}`, "malformed_signature"],
    ["63 digits", `t=${at},v1=${hex.slice(1)}`, "malformed_signature"],
    ["65 digits", `t=${at},v1=${hex}0`, "malformed_signature"],
    ["no hex", `t=${at},v1=${"g".repeat(64)}`, "malformed_signature"],
    ["a right v1 and a malformed one", `t=${at},v1=${hex},v1=ab`, "malformed_signature"],
    ["no t", `v1=${hex}`, "malformed_signature"],
    ["an empty t", `t=,v1=${hex}`, "malformed_signature"],
    ["a t that is no number", `t=now,v1=${hex}`, "malformed_signature"],
    ["a t with a sign", `t=+${at},v1=${hex}`, "malformed_signature"],
    ["a negative t", `t=-1,v1=${hex}`, "malformed_signature"],
    ["a t with a fraction", `t=${at}.0,v1=${hex}`, "malformed_signature"],
    ["a t in hex", `t=0x6b0147a1,v1=${hex}`, "malformed_signature"],
    ["a t with an exponent", `t=1e9,v1=${hex}`, "malformed_signature"],
    ["a t with a leading zero", `t=0${at},v1=${hex}`, "malformed_signature"],
    ["a huge t", `t=${"9".repeat(13)},v1=${hex}`, "malformed_signature"],
    ["t twice", `t=${at},t=${at},v1=${hex}`, "malformed_signature"],
    ["t twice, one stale", `t=1,v1=${hex},t=${at}`, "malformed_signature"],
    ["blanks", `t=${at}, v1=${hex}`, "malformed_signature"],
    ["another separator", `t=${at};v1=${hex}`, "malformed_signature"],
    ["a part without a name", `t=${at},v1=${hex},=x`, "malformed_signature"],
    ["a trailing comma", `t=${at},v1=${hex},`, "malformed_signature"],
    ["full-width digits", `t=１７９５２２８３８５,v1=${hex}`, "malformed_signature"],
    ["two headers", [goodHeader, goodHeader], "malformed_signature"],
    ["two headers joined", `${goodHeader}, ${goodHeader}`, "malformed_signature"],
    ["1,024 characters", `${goodHeader},${"x".repeat(1_021 - goodHeader.length)}=1`, "ok"],
    ["1,025 characters", `${goodHeader},${"x".repeat(1_022 - goodHeader.length)}=1`, "malformed_signature"],
    ["too long", `t=${at}${`,v1=${hex}`.repeat(20)}`, "malformed_signature"],
    ["a megabyte", `t=${at},v1=${hex}${",a=b".repeat(250_000)}`, "malformed_signature"],
    ["another scheme alone", `t=${at},v2=${hex}`, "malformed_signature"],
    ["another name's right digest", `t=${at},v0=${hex},v1=${"0".repeat(64)}`, "no_matching_signature"],
    ["zeros", `t=${at},v1=${"0".repeat(64)}`, "no_matching_signature"],
    [
      "one digit changed",
      `t=${at},v1=${hex.slice(0, -1)}${hex.endsWith("0") ? "1" : "0"}`,
      "no_matching_signature"
    ],
    ["another second", `t=${at + 1},v1=${hex}`, "no_matching_signature"],
    ["a later scheme beside ours", `t=${at},v2=xyz,v1=${hex}`, "ok"],
    ["t last", `v1=${hex},t=${at}`, "ok"],
    ["a wrong v1, then the right one", `t=${at},v1=${"0".repeat(64)},v1=${hex}`, "ok"],
    ["the right v1, then a wrong one", `t=${at},v1=${hex},v1=${"0".repeat(64)}`, "ok"]
  ]
  for (const [name, header, reason] of forged) {
    it(`answers ${reason} to ${name}`, async () => {
      assert.strictEqual(await reasonOf(validDelivery, { "x-svc-signature": header }, secret), reason)
    })
  }

  it("returns missing_signature without the header", async () => {
    assert.strictEqual(await reasonOf(validDelivery, {}, secret), "missing_signature")
    assert.strictEqual(await reasonOf(validDelivery, new Headers(), secret), "missing_signature")
    assert.strictEqual(
      await reasonOf(validDelivery, { "x-svc-signature": undefined }, secret),
      "missing_signature"
    )
  })

  it("refuses a header that is repeated under two spellings", async () => {
    const twice = { "X-Svc-Signature": goodHeader, "x-svc-signature": goodHeader }
    assert.strictEqual(await reasonOf(validDelivery, twice, secret), "malformed_signature")
  })

  it("tolerates five minutes in either direction, or the configured tolerance", async () => {
    const cases: ReadonlyArray<readonly [age: number, tolerance: number | undefined, reason: string]> = [
      [300, undefined, "ok"],
      [301, undefined, "stale_timestamp"],
      [-300, undefined, "ok"],
      [-301, undefined, "future_timestamp"],
      [11, 10, "stale_timestamp"],
      [0, 0, "ok"],
      [1, 0, "stale_timestamp"]
    ]
    for (const [age, toleranceSeconds, reason] of cases) {
      const options = { now: () => (at + age) * 1000, toleranceSeconds }
      assert.strictEqual(
        await reasonOf(validDelivery, signed(validDelivery), secret, options),
        reason,
        `${age}`
      )
    }
    assert.strictEqual(
      await reasonOf(validDelivery, signed(validDelivery), secret, { now: () => Number.NaN }),
      "stale_timestamp"
    )
  })

  it("accepts either secret of a rotation, and several secrets of the receiver", async () => {
    const headers = signed(validDelivery, rotating)
    assert.strictEqual(await reasonOf(validDelivery, headers, secret), "ok")
    assert.strictEqual(await reasonOf(validDelivery, headers, older), "ok")
    assert.strictEqual(await reasonOf(validDelivery, signed(validDelivery), [older, secret]), "ok")
    assert.strictEqual(await reasonOf(validDelivery, signed(validDelivery), older), "no_matching_signature")
    const sixteen = [...Array.from({ length: 15 }, () => older), secret]
    assert.strictEqual(await reasonOf(validDelivery, signed(validDelivery), sixteen), "ok")
  })

  it("checks the signature before parsing", async () => {
    const body = "{ no json"
    assert.strictEqual(await reasonOf(body, signed(validDelivery), secret), "no_matching_signature")
    assert.strictEqual(await reasonOf(body, signed(body), secret), "body_not_json")
    const broken = Uint8Array.of(0x22, 0xff, 0x22)
    assert.strictEqual(await reasonOf(broken, signed(broken), secret), "body_not_json")
  })

  it("throws for calls that can never verify", async () => {
    const calls: ReadonlyArray<readonly [unknown, unknown, unknown, unknown]> = [
      [validDelivery, signed(validDelivery), "", {}],
      [validDelivery, signed(validDelivery), undefined, {}],
      [validDelivery, signed(validDelivery), null, {}],
      [validDelivery, signed(validDelivery), [], {}],
      [validDelivery, signed(validDelivery), 7, {}],
      [validDelivery, signed(validDelivery), [secret, undefined], {}],
      [validDelivery, signed(validDelivery), [secret, ""], {}],
      [validDelivery, signed(validDelivery), `${secret}\n`, {}],
      [validDelivery, signed(validDelivery), Array.from({ length: 17 }, () => secret), {}],
      [validDelivery, signed(validDelivery), secret, { toleranceSeconds: Number.NaN }],
      [validDelivery, signed(validDelivery), secret, { toleranceSeconds: -1 }],
      [validDelivery, signed(validDelivery), secret, { toleranceSeconds: Number.POSITIVE_INFINITY }],
      [JSON.parse(validDelivery), signed(validDelivery), secret, { now }]
    ]
    for (const args of calls) {
      // The types forbid these calls; a receiver in JavaScript can make them.
      const thrown = await Reflect.apply(verify, undefined, [...args]).catch((error: unknown) => error)
      assert.instanceOf(thrown, TypeError)
      assert.match(String(thrown), /^TypeError: countersign\/webhook: /)
      assert.notInclude(String(thrown), secret)
    }
  })

  it("refuses correctly signed bodies that are not events", async () => {
    for (const [change, reason] of Events.malformed) {
      const body = JSON.stringify(change)
      assert.strictEqual(await reasonOf(body, signed(body), secret), reason, body)
    }
  })

  it("decodes approvals of an older service, which have no counts", async () => {
    const counts: Array<unknown> = []
    for (const event of Events.uncounted) {
      const body = JSON.stringify(event)
      const result = await verify(body, signed(body), secret, { now })
      const approval = result.ok ? result.event.approval : null
      counts.push([approval?.status, approval?.approvals_required, approval?.approvals_given])
    }
    assert.deepStrictEqual(counts, [
      ["pending", 1, 0],
      ["approved", 1, 1],
      ["rejected", 1, 0]
    ])
  })

  it("a refusal contains nothing of the body or the secret", async () => {
    const body = JSON.stringify({ ...Events.test, type: "approval.pigeon", org_id: "org_pigeon" })
    const result = await verify(body, signed(body), secret, { now })
    assert.notInclude(JSON.stringify(result), "pigeon")
    assert.notInclude(JSON.stringify(result), secret.slice(6))
  })

  it("drops unknown fields, including prototypes", async () => {
    const body = `{"__proto__":{"admin":true},${validDelivery.slice(1, -1)},"later":1}`
    const result = await verify(body, signed(body), secret, { now })
    assert.deepStrictEqual<unknown>(result, { ok: true, event: Events.test })
  })
})

describe("webhooks signed by the service", () => {
  const bodies = fc.oneof(
    fc.string({ unit: "binary", maxLength: 200 }),
    fc.string({ unit: "grapheme", maxLength: 200 }),
    fc.json(),
    fc.constant("")
  )

  it("verify here for 10,000 bodies, and not after a byte is changed", async () => {
    await fc.assert(
      fc.asyncProperty(bodies, fc.boolean(), fc.nat(), async (body, rotated, place) => {
        const headers = signed(body, rotated ? rotating : currentOnly)
        const read = await reasonOf(body, headers, secret)
        assert.include(["ok", "body_not_json", "malformed_event"], read)
        const bytes = new TextEncoder().encode(body)
        const changed = bytes.length === 0 ? Uint8Array.of(0) : bytes
        if (bytes.length > 0) changed[place % changed.length]! ^= 1 << (place & 7)
        assert.strictEqual(await reasonOf(changed, headers, secret), "no_matching_signature")
      }),
      { numRuns: 10_000 }
    )
  })

  it("verify with the published libraries of Standard Webhooks for 10,000 bodies", () => {
    const standard = new StandardWebhook(secret)
    const svix = new SvixWebhook(older)
    const timestamp = Math.floor(Date.now() / 1000)
    fc.assert(
      fc.property(bodies, fc.boolean(), (body, asBytes) => {
        const headers = { ...signed(body, rotating, timestamp) }
        const payload = asBytes ? Buffer.from(body) : body
        const options = { jsonParse: false }
        standard.verify(payload, headers, options)
        svix.verify(payload, headers)
        assert.throws(() => standard.verify(`${body} `, headers, options), /No matching signature/)
      }),
      { numRuns: 10_000 }
    )
  })

  it("have the bytes that the published libraries sign", () => {
    fc.assert(
      fc.property(bodies, fc.integer({ min: 1, max: 4_000_000_000 }), (body, timestamp) => {
        assert.strictEqual(
          signed(body, currentOnly, timestamp)["webhook-signature"],
          new StandardWebhook(secret).sign("evt_1", new Date(timestamp * 1000), body)
        )
      }),
      { numRuns: 1_000 }
    )
  })
})
