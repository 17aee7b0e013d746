import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Exit, Layer, Option, Redacted, Result } from "effect"
import * as fc from "fast-check"
import { createCipheriv, createHash } from "node:crypto"
import { inspect } from "node:util"
import { generateMasterKey, SecretBox } from "../../../src/server/secrets/SecretBox.ts"
import * as KeyRing from "../../../src/server/secrets/KeyRing.ts"

const bytesOf = (fill: number) => Buffer.from(Array.from({ length: 32 }, (_, at) => (at * 7 + fill) % 256))
const newKey = bytesOf(1)
const oldKey = bytesOf(2)
const idOf = (key: Buffer) =>
  createHash("sha256").update("countersign-master-key-v1\0").update(key).digest("hex").slice(0, 16)

const box = (...keys: ReadonlyArray<Buffer>) =>
  SecretBox.layer({
    masterKeys: KeyRing.split(Redacted.make(keys.map((key) => key.toString("base64")).join(",")))
  })

const withBox = <A, E>(
  keys: ReadonlyArray<Buffer>,
  use: (box: SecretBox["Service"]) => Effect.Effect<A, E>
) => SecretBox.use(use).pipe(Effect.provide(box(...keys)))

const place = { org_id: "org_1", table: "notification_endpoints", row_id: "nep_1", column: "secret" }
const secret = Redacted.make("whsec_the signing secret ☂")

const reasonOf = (box: SecretBox["Service"], at: typeof place, sealed: Uint8Array) =>
  Effect.map(Effect.result(box.unseal(at, sealed)), (opened) =>
    Result.isFailure(opened) ? opened.failure.reason : "unsealed"
  )

layer(box(newKey))("SecretBox", (it) => {
  it.effect("a secret sealed twice gives two different values, and both unseal at its place", () =>
    Effect.gen(function* () {
      const box = yield* SecretBox
      const first = yield* box.seal(place, secret)
      const second = yield* box.seal(place, secret)
      assert.notDeepEqual(first, second)
      assert.strictEqual(Redacted.value(yield* box.unseal(place, first)), Redacted.value(secret))
      assert.strictEqual(Redacted.value(yield* box.unseal(place, second)), Redacted.value(secret))
      assert.strictEqual(first.length, 37 + Buffer.byteLength(Redacted.value(secret)))
      assert.notInclude(inspect(yield* box.unseal(place, first)), "signing secret")
    })
  )

  it.effect("a value in the documented format (version, key id, nonce, tag, ciphertext) unseals", () =>
    Effect.gen(function* () {
      const box = yield* SecretBox
      const nonce = Buffer.from("000102030405060708090a0b", "hex")
      const prefix = Buffer.concat([Buffer.from([1]), Buffer.from(idOf(newKey), "hex")])
      const cipher = createCipheriv("aes-256-gcm", newKey, nonce)
      cipher.setAAD(
        Buffer.concat([
          prefix,
          Buffer.from(`["countersign-sealed-v1","org_1","notification_endpoints","nep_1","secret"]`)
        ])
      )
      const ciphertext = Buffer.concat([cipher.update("by hand"), cipher.final()])
      const sealed = Buffer.concat([prefix, nonce, cipher.getAuthTag(), ciphertext])
      assert.strictEqual(Redacted.value(yield* box.unseal(place, sealed)), "by hand")
    })
  )

  it.effect("a value moved to another organization, table, row or column does not unseal", () =>
    Effect.gen(function* () {
      const box = yield* SecretBox
      const sealed = yield* box.seal(place, secret)
      for (const moved of [
        { ...place, org_id: "org_2" },
        { ...place, table: "telemetry_destinations" },
        { ...place, row_id: "nep_2" },
        { ...place, column: "previous_secret" },
        { ...place, org_id: `org_1","notification_endpoints`, table: "nep_1", row_id: "secret", column: "" }
      ]) {
        assert.strictEqual(yield* reasonOf(box, moved, sealed), "not_authentic", JSON.stringify(moved))
      }
    })
  )

  it.effect("places whose parts contain delimiters are still distinct", () =>
    Effect.gen(function* () {
      const box = yield* SecretBox
      const part = fc.string({
        unit: fc.constantFrom("a", "b", `"`, ",", "\\", "[", "\0", "/"),
        maxLength: 4
      })
      const places = fc.record({ org_id: part, table: part, row_id: part, column: part })
      for (const [here, there] of fc.sample(fc.tuple(places, places), 500)) {
        if (JSON.stringify(Object.values(here)) === JSON.stringify(Object.values(there))) continue
        const sealed = yield* box.seal(here, secret)
        assert.strictEqual(yield* reasonOf(box, there, sealed), "not_authentic")
      }
    })
  )

  it.effect("a value with any single bit flipped does not unseal", () =>
    Effect.gen(function* () {
      const box = yield* SecretBox
      const sealed = yield* box.seal(place, secret)
      for (let bit = 0; bit < sealed.length * 8; bit++) {
        const flipped = Uint8Array.from(sealed)
        flipped[bit >> 3]! ^= 1 << (bit & 7)
        const expected = bit < 8 ? "malformed" : bit < 72 ? "unknown_key" : "not_authentic"
        assert.strictEqual(yield* reasonOf(box, place, flipped), expected, `bit ${bit}`)
      }
    })
  )

  it.effect("a value truncated at any length, or with a 4-byte tag, does not unseal", () =>
    Effect.gen(function* () {
      const box = yield* SecretBox
      const sealed = yield* box.seal(place, Redacted.make(""))
      assert.strictEqual(sealed.length, 37)
      assert.strictEqual(Redacted.value(yield* box.unseal(place, sealed)), "")
      assert.strictEqual(yield* reasonOf(box, place, sealed.subarray(0, 21 + 4)), "malformed")
      for (let length = 0; length < sealed.length; length++) {
        assert.strictEqual(yield* reasonOf(box, place, sealed.subarray(0, length)), "malformed")
      }
      const long = yield* box.seal(place, secret)
      const shortTag = Buffer.concat([long.subarray(0, 25), long.subarray(37)])
      assert.notStrictEqual(yield* reasonOf(box, place, shortTag), "unsealed")
    })
  )

  it.effect("arbitrary bytes unseal to the same bytes", () =>
    Effect.gen(function* () {
      const box = yield* SecretBox
      for (const bytes of fc.sample(fc.uint8Array({ maxLength: 2_000 }), 500)) {
        const sealed = yield* box.sealBytes(place, bytes)
        assert.deepStrictEqual(Uint8Array.from(yield* box.unsealBytes(place, sealed)), bytes)
      }
    })
  )

  it.effect(
    "the error for a value that does not unseal names its place and key id, and shows no secret",
    () =>
      Effect.gen(function* () {
        const box = yield* SecretBox
        const sealed = yield* box.seal({ ...place, row_id: "nep_2" }, secret)
        const failure = yield* Effect.flip(box.unseal(place, sealed))
        assert.strictEqual(
          failure.message,
          `The secret in notification_endpoints.secret of nep_1 (org_1) cannot be unsealed with master key ${idOf(newKey)}: it was altered, or sealed for another place`
        )
        const printed = inspect(failure, { depth: 9 }) + JSON.stringify(failure)
        assert.notInclude(printed, newKey.toString("base64"))
        assert.notInclude(printed, "signing secret")
      })
  )
})

describe("KeyRing", () => {
  it.effect("the newest key seals and all keys unseal", () =>
    Effect.gen(function* () {
      const old = yield* withBox([oldKey], (box) => box.seal(place, secret))
      yield* withBox([newKey, oldKey], (box) =>
        Effect.gen(function* () {
          assert.deepStrictEqual(box.keyIds, [idOf(newKey), idOf(oldKey)])
          assert.strictEqual(Redacted.value(yield* box.unseal(place, old)), Redacted.value(secret))
          assert.deepStrictEqual(box.keyIdOf(old.subarray(0, 9)), Option.some(idOf(oldKey)))
          assert.deepStrictEqual(box.keyIdOf(Uint8Array.of(9, 9)), Option.none())

          const fresh = Option.getOrThrow(yield* box.reseal(place, old))
          assert.deepStrictEqual(box.keyIdOf(fresh), Option.some(idOf(newKey)))
          assert.deepStrictEqual(Buffer.from(fresh.subarray(0, 9)), Buffer.from(box.primaryPrefix))
          assert.deepStrictEqual(yield* box.reseal(place, fresh), Option.none())
          const alone = yield* withBox([newKey], (box) => box.unseal(place, fresh))
          assert.strictEqual(Redacted.value(alone), Redacted.value(secret))
        })
      )
      const without = yield* withBox([newKey], (box) => reasonOf(box, place, old))
      assert.strictEqual(without, "unknown_key")
      const moved = yield* withBox([newKey, oldKey], (box) =>
        Effect.exit(box.reseal({ ...place, org_id: "org_2" }, old))
      )
      assert.isTrue(Exit.isFailure(moved))
    })
  )

  const good = newKey.toString("base64")
  const older = oldKey.toString("base64")
  const cases: ReadonlyArray<readonly [name: string, list: string, message: string]> = [
    ["an empty list", "", "The master key is empty"],
    ["a trailing comma", `${good},`, "Master key 2 of 2 is empty"],
    ["a key in hex", newKey.toString("hex"), "The master key is in hex, not in base64"],
    ["a key that is not base64", "not a key!", "The master key is not base64"],
    [
      "a key of 31 bytes",
      `${good}, ${newKey.subarray(1).toString("base64")}`,
      "Master key 2 of 2 decodes to 31 bytes, not 32"
    ],
    [
      "a key of 64 bytes",
      Buffer.concat([newKey, newKey]).toString("base64"),
      "The master key decodes to 64 bytes, not 32"
    ],
    ["a duplicate key", `${good},${older},${good}`, "Master key 3 of 3 is in the list twice"],
    [
      "a key of one repeated byte",
      Buffer.alloc(32).toString("base64"),
      "The master key is one byte repeated, not random"
    ],
    [
      "a list of 17 keys",
      Array.from({ length: 17 }, (_, at) => bytesOf(at).toString("base64")).join(","),
      "Master key 17 of 17 exceeds the limit of 16 keys"
    ]
  ]
  for (const [name, list, message] of cases) {
    it.effect(`${name} is refused`, () =>
      Effect.gen(function* () {
        const failure = yield* Effect.flip(
          Layer.build(SecretBox.layer({ masterKeys: KeyRing.split(Redacted.make(list)) })).pipe(Effect.scoped)
        )
        assert.include(failure.message, message)
        for (const text of list.split(",")) {
          if (text !== "") assert.notInclude(inspect(failure), text.trim())
        }
      })
    )
  }

  it.effect("a list may have spaces, URL-safe base64 and no padding", () =>
    Effect.gen(function* () {
      const list = ` ${good} ,\n${oldKey.toString("base64url")}`
      const ids = yield* SecretBox.use((box) => Effect.succeed(box.keyIds)).pipe(
        Effect.provide(SecretBox.layer({ masterKeys: KeyRing.split(Redacted.make(list)) }))
      )
      assert.deepStrictEqual(ids, [idOf(newKey), idOf(oldKey)])
    })
  )

  it.effect("a generated key is a valid master key", () =>
    Effect.gen(function* () {
      const key = yield* generateMasterKey
      const sealed = yield* SecretBox.use((box) => box.seal(place, secret)).pipe(
        Effect.provide(SecretBox.layer({ masterKeys: [key] }))
      )
      assert.strictEqual(sealed[0], 1)
    })
  )
})
