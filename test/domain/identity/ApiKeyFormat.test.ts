import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Result } from "effect"
import * as fc from "fast-check"
import { createHash } from "node:crypto"
import * as ApiKeyFormat from "../../../src/domain/identity/ApiKeyFormat.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".split("")

/** Checksums computed independently, with Python's zlib.crc32 and its own base62. */
const vectors = [
  "csk_0000000000000000_00000000000000000000000000000000000000000003vBYoF",
  "csk_Ky9Pf34qY6Nb3wWD_25RQ4F5ZR3qa7yEeeby3abP3E2Zs8IQ9Y7aJZqhB6ba0E2UOp",
  "csk_HEoSICjDpbdTPxkS_DuD3BRse738tu4qcVB0xkZlpAVEhkhlIpDYrA9nwjDX005U40"
]

const base62 = (length: number) =>
  fc.string({ unit: fc.constantFrom(...alphabet), minLength: length, maxLength: length })

/** A key generated from arbitrary bytes. */
const key = fc
  .uint8Array({ minLength: 118, maxLength: 118, max: 247 })
  .map((bytes) => Redacted.value(ApiKeyFormat.generateApiKeyFrom(() => bytes).key))

describe("ApiKeyFormat", () => {
  it("the test vectors are parsed", () => {
    for (const text of vectors) {
      const parsed = Result.getOrThrow(ApiKeyFormat.parseApiKey(text))
      assert.strictEqual(parsed.publicId, text.slice(4, 20))
      assert.strictEqual(Redacted.value(parsed.key), text)
    }
  })

  it("a text of another format is rejected as malformed", () => {
    const good = vectors[1]!
    const malformed = [
      "",
      "csk_",
      good.slice(0, -1),
      `${good}0`,
      ` ${good}`,
      `${good}\n`,
      good.toUpperCase(),
      good.replace("csk_", "csk-"),
      good.replace("csk_", "sk__"),
      `${good.slice(0, 20)}-${good.slice(21)}`,
      `${good.slice(0, 30)}é${good.slice(31)}`,
      "x".repeat(2_000_000)
    ]
    for (const text of malformed) {
      assert.deepStrictEqual(
        ApiKeyFormat.parseApiKey(text),
        Result.fail("malformed"),
        JSON.stringify(text.slice(0, 80))
      )
    }
  })

  it("a key with one wrong character is rejected, at any position", () => {
    const good = vectors[1]!
    for (let at = 0; at < good.length; at++) {
      if (at < 4 || at === 20) continue
      for (const digit of alphabet) {
        if (digit === good[at]) continue
        const typo = good.slice(0, at) + digit + good.slice(at + 1)
        assert.deepStrictEqual(ApiKeyFormat.parseApiKey(typo), Result.fail("checksum"), `${digit} at ${at}`)
      }
    }
  })

  it("a key with two adjacent characters swapped is rejected", () => {
    fc.assert(
      fc.property(key, fc.integer({ min: 4, max: 62 }), (text, at) => {
        fc.pre(at !== 19 && at !== 20 && text[at] !== text[at + 1])
        const swapped = text.slice(0, at) + text[at + 1] + text[at] + text.slice(at + 2)
        assert.deepStrictEqual(ApiKeyFormat.parseApiKey(swapped), Result.fail("checksum"))
      }),
      { numRuns: 1_000 }
    )
  })

  it("random texts of the format are rejected by their checksum", () => {
    fc.assert(
      fc.property(base62(16), base62(49), (id, rest) => {
        assert.deepStrictEqual(ApiKeyFormat.parseApiKey(`csk_${id}_${rest}`), Result.fail("checksum"))
      }),
      { numRuns: 1_000 }
    )
  })

  it.effect("makes keys that read back, and never the same twice", () =>
    Effect.gen(function* () {
      const seen = new Set<string>()
      for (let made = 0; made < 500; made++) {
        const { publicId, key } = yield* ApiKeyFormat.generateApiKey
        const parsed = Result.getOrThrow(ApiKeyFormat.parseApiKey(Redacted.value(key)))
        assert.strictEqual(parsed.publicId, publicId)
        assert.isTrue(Redacted.value(key).startsWith(ApiKeyFormat.apiKeyHint(publicId)))
        seen.add(Redacted.value(key))
      }
      assert.strictEqual(seen.size, 500)
    })
  )

  it("generated digits are uniformly distributed", () => {
    const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte)
    const skewed = Uint8Array.from([...everyByte.subarray(248), ...everyByte.subarray(0, 110)])
    const made = ApiKeyFormat.generateApiKeyFrom(() => skewed)
    assert.strictEqual(made.publicId, "0123456789ABCDEF")
    assert.throws(
      () => ApiKeyFormat.generateApiKeyFrom((size) => new Uint8Array(size).fill(255)),
      /random source/
    )
  })

  it("the digest covers the whole text, and digests compare by content", () => {
    const first = Result.getOrThrow(ApiKeyFormat.parseApiKey(vectors[0]!))
    const second = Result.getOrThrow(ApiKeyFormat.parseApiKey(vectors[1]!))
    const digest = ApiKeyFormat.apiKeyDigest(first.key)
    assert.strictEqual(
      Buffer.from(digest).toString("hex"),
      createHash("sha256").update(vectors[0]!).digest("hex")
    )
    assert.isTrue(ApiKeyFormat.digestsEqual(digest, ApiKeyFormat.apiKeyDigest(first.key)))
    assert.isFalse(ApiKeyFormat.digestsEqual(digest, ApiKeyFormat.apiKeyDigest(second.key)))
    assert.isFalse(ApiKeyFormat.digestsEqual(digest, digest.subarray(0, 31)))
  })

  it("a parsed key is redacted when it is printed", () => {
    const parsed = ApiKeyFormat.parseApiKey(vectors[2]!)
    assert.notInclude(JSON.stringify(parsed) + String(parsed), vectors[2]!.slice(21))
  })

  it("findApiKeys finds every key in a text and nothing else", () => {
    const noise = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.constantFrom("csk_", "csk_csk_", vectors[0]!.slice(0, 69), "_0aZ", ...alphabet)
    )
    fc.assert(
      fc.property(fc.array(fc.tuple(noise, key)), noise, (pairs, end) => {
        let text = ""
        const expected: Array<ApiKeyFormat.ApiKeyOccurrence> = []
        for (const [before, text_] of pairs) {
          const start = text.length + before.length
          text += before + text_
          const { publicId } = Result.getOrThrow(ApiKeyFormat.parseApiKey(text_))
          expected.push({ start, end: start + text_.length, publicId })
        }
        assert.deepStrictEqual(ApiKeyFormat.findApiKeys(text + end), expected)
      }),
      { numRuns: 1_000 }
    )
  })

  it("findApiKeys is fast on adversarial text", () => {
    assert.deepStrictEqual(ApiKeyFormat.findApiKeys("csk_".repeat(500_000)), [])
    assert.deepStrictEqual(ApiKeyFormat.findApiKeys(`csk_${"a".repeat(16)}_`.repeat(100_000)), [])
  })
})
