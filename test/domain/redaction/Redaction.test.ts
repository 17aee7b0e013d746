import { assert, describe, it } from "@effect/vitest"
import { Redacted, type Schema } from "effect"
import fc from "fast-check"
import { randomBytes } from "node:crypto"
import { generateApiKeyFrom } from "../../../src/domain/identity/ApiKeyFormat.ts"
import {
  KnownValues,
  MAX_NODES,
  noKnownValues,
  redact,
  REDACTED,
  type Redaction,
  redactInSteps,
  redactText,
  collectTexts
} from "../../../src/domain/redaction/Redaction.ts"
import { ordinaryCases, secretCases } from "./Redaction/corpus.ts"
import { hostileTexts } from "./Redaction/hostile.ts"

const redacted = (value: Schema.Json, known = noKnownValues): Redaction => {
  const result = redact(value, known)
  if (result._tag === "Unsearchable") throw new Error(result.detail)
  return result
}

const seeds = [1, 2, 3, 4, 5]

describe("redact", () => {
  it("redacts every secret of the corpus and changes nothing else", () => {
    let found = 0
    let all = 0
    const missed: Array<string> = []
    const wrong: Array<string> = []
    const ordinary = seeds.flatMap(ordinaryCases)
    for (const seed of seeds) {
      const { cases, known } = secretCases(seed)
      const ours = new KnownValues(known)
      for (const { secrets, value, what } of cases) {
        const left = JSON.stringify(redacted(value, ours).value)
        all++
        if (secrets.every((secret) => !left.includes(JSON.stringify(secret).slice(1, -1)))) found++
        else missed.push(`${what} (${seed})`)
      }
    }
    const ours = new KnownValues(secretCases(1).known)
    for (const { value, what } of ordinary) if (redacted(value, ours).count > 0) wrong.push(what)
    const recall = found / all
    const precision = found / (found + wrong.length)
    // oxlint-disable-next-line no-console -- prints the measured recall and precision
    console.log(
      `redaction: recall ${(100 * recall).toFixed(1)} % of ${all}, precision ${(100 * precision).toFixed(1)} %, ` +
        `${wrong.length} of ${ordinary.length} ordinary values touched`,
      ...missed
    )
    assert.isEmpty(wrong)
    assert.isAtLeast(recall, 0.95)
  })

  it("removes feedback tokens, also those that are cut off, and no other word that begins like them", () => {
    const claims = { id: "fbt_1", org_id: "org_1", trace_id: "0af7651916cd43dd8448eb211c80319c", max_uses: 3 }
    const signed = `cft_${Buffer.from(JSON.stringify(claims)).toString("base64url")}`
    const signature = "0123456789abcdef.q83vEjRWeJq83vEjRWeJq83vEjRWeJq83vEjRWeJq8A"
    for (const token of [`${signed}.${signature}`, `${signed}.${signature.slice(0, 20)}`, signed]) {
      assert.strictEqual(redactText(`It sent ${token}.`, noKnownValues), "It sent [REDACTED].", token)
      assert.strictEqual(redactText(`{"t":"${token}"}`, noKnownValues), '{"t":"[REDACTED]"}', token)
    }
    for (const text of [
      "A feedback token has the form cft_….",
      "It begins with cft_eyJ and is signed.",
      "340_cft_annual cft_per_minute_of_the_larger_compressor"
    ]) {
      assert.strictEqual(redactText(text, noKnownValues), text)
    }
  })

  it("redacting a redacted value changes nothing", () => {
    const pieces = [
      ...secretCases(9).cases.map(({ value }) => JSON.stringify(value)),
      ...ordinaryCases(9).map(({ value }) => JSON.stringify(value)),
      ..."password: |token=|Bearer |https://a:|@host |[REDACTED]|\n|\u200b|%|=|\"|'| is |eyJ|sk-|_|;|-----".split(
        "|"
      )
    ]
    const known = new KnownValues(secretCases(9).known)
    const text = fc
      .array(
        fc.oneof(
          fc.constantFrom(...pieces),
          fc.string({ maxLength: 5 }),
          fc.string({ unit: "binary", maxLength: 3 })
        ),
        {
          maxLength: 8
        }
      )
      .map((parts) => parts.join(""))
    const value = fc.oneof(
      text,
      fc.dictionary(
        fc.oneof(text, fc.constantFrom("token", "secret", "password", "a")),
        fc.oneof(text, fc.array(text, { maxLength: 3 })),
        {
          maxKeys: 4
        }
      )
    )
    fc.assert(
      fc.property(value, (given) => {
        const once = redacted(given, known)
        const twice = redacted(once.value, known)
        assert.strictEqual(twice.count, 0)
        assert.deepStrictEqual(twice.value, once.value)
      }),
      { numRuns: 400 }
    )
  })

  it("replaces a secret by a mark, keeps the rest, and reports the field but not the value", () => {
    const key = "https://ada:tr0ub4dor@example.com/x"
    const { count, pointers, value } = redacted({
      "a/b": [{ note: `See ${key}.` }, "fine"],
      "password=hunter2": 1,
      session: "monday morning"
    })
    assert.deepStrictEqual(value, {
      "a/b": [{ note: "See https://ada:[REDACTED]@example.com/x." }, "fine"],
      "password=[REDACTED]": 1,
      session: "monday morning"
    })
    assert.deepStrictEqual(pointers, ["#/a~1b/0/note", "#/password=%5BREDACTED%5D"])
    assert.strictEqual(count, 2)
  })

  it("counts each redacted field once, under its redacted name", () => {
    const first = "kMz7Qp2vXw9LrTb4Nc8Ys"
    const second = "hG3Jd6Fs1Ra5Ve0Uo7Ti2"
    const { count, pointers, value } = redacted(
      { [first]: second, [second]: "plain" },
      new KnownValues([first, second])
    )
    assert.deepStrictEqual(value, { "[REDACTED]": "[REDACTED]", "[REDACTED] 2": "plain" })
    assert.deepStrictEqual(pointers, ["#/%5BREDACTED%5D", "#/%5BREDACTED%5D%202"])
    assert.strictEqual(count, 2)
  })

  it("keeps two members apart whose redacted names are equal", () => {
    const [first, second] = secretCases(3).cases.flatMap(({ secrets, what }) =>
      what === "Stripe live" || what === "Slack bot" ? secrets : []
    )
    const { value } = redacted({ [first!]: 1, [second!]: 2, other: 3 })
    assert.deepStrictEqual(value, { [REDACTED]: 1, [`${REDACTED} 2`]: 2, other: 3 })
    assert.strictEqual(redacted(value).count, 0)
  })

  it("classifies a field by its redacted name", () => {
    const secrets = secretCases(3).cases.flatMap(({ secrets, what }) =>
      what === "Stripe live" ? secrets : []
    )
    const name = `secret of ${Array.from({ length: 8 }, () => secrets[0]).join(" and ")}`
    const once = redacted({ [name]: "q7Rf2LxW9vKp4ZtB8mNc" })
    assert.deepStrictEqual(Object.values(Object(once.value)), [REDACTED])
    assert.strictEqual(redacted(once.value).count, 0)
  })

  it("returns the same value if nothing was redacted", () => {
    const value = { a: [1, "two", null, { b: true }] }
    assert.strictEqual(redacted(value).value, value)
  })

  it("finds known values of any format, except values so short that they occur in ordinary words", () => {
    const known = new KnownValues(["monsoon umbrella", "orange", "umbrella", "K4ffee-mit-Milch-und-Zucker"])
    assert.strictEqual(redactText("a monsoon umbrella, an orange", known), "a [REDACTED], an orange")
    assert.strictEqual(redactText("umbrellas and an umbrella.", known), "umbrellas and an [REDACTED].")
    assert.strictEqual(redactText("xxK4ffee-mit-Milch-und-Zuckerxx", known), "xx[REDACTED]xx")
    assert.strictEqual(redactText("K4ffee-mit-\n  Milch-und-Zuc\u200bker", known), REDACTED)
  })

  it("finds API keys and known values that are split by line breaks or invisible characters", () => {
    const key = generateApiKeyFrom(randomBytes).key
    const known = new KnownValues(["K4ffee-mit-Milch-und-Zucker"])
    const marks = [
      "\n",
      "\r\n  ",
      "=\n",
      "\v",
      "\f",
      "\u0085",
      "\u2028",
      "\u200b",
      "\u00ad",
      "\u2060",
      "\u{e0061}",
      "\u{e0101}",
      "\u{1d173}",
      "\ufff9"
    ]
    for (const mark of marks) {
      for (const secret of [Redacted.value(key), "K4ffee-mit-Milch-und-Zucker"]) {
        for (let cut = 1; cut < secret.length; cut++) {
          const text = `see: ${secret.slice(0, cut)}${mark}${secret.slice(cut)} there`
          assert.strictEqual(redactText(text, known), `see: ${REDACTED} there`, JSON.stringify(text))
        }
        assert.strictEqual(redactText([...secret].join(mark), known), REDACTED, JSON.stringify(mark))
      }
    }
    assert.strictEqual(
      redactText("\u{1f469}\u200d\u{1f4bb} \u{1f44d}\ufe0f", known),
      "\u{1f469}\u200d\u{1f4bb} \u{1f44d}\ufe0f"
    )
  })

  it("finds known values even if thousands share a window", () => {
    const letter = fc.constantFrom(..."abcdefghijklmnopqrstuvwxyz0123456789".split(""))
    const word = (minLength: number, maxLength: number) => fc.string({ unit: letter, minLength, maxLength })
    const values = fc
      .tuple(word(0, 30), fc.uniqueArray(word(1, 3), { minLength: 9, maxLength: 40 }), word(7, 30))
      .map(([before, own, after]) => own.map((mark) => `${before}${mark}${after}`))
    const houseFormat = Array.from({ length: 12 }, (_, index) => index.toString(36)).map(
      (mark) => `acme-production-llm-gateway-key-${mark}qwzk`
    )
    fc.assert(
      fc.property(values, (secrets) => {
        const known = new KnownValues(secrets)
        for (const secret of secrets)
          assert.strictEqual(redactText(`see: ${secret} there`, known), `see: ${REDACTED} there`)
      }),
      { examples: [[houseFormat], [houseFormat.map((key) => `${key.slice(32)}-${key.slice(0, 31)}`)]] }
    )
  })

  it("finds known values in base64 of binary data at each offset", () => {
    // The second one has signs in its base64 that the URL-safe form replaces.
    for (const secret of ["K4ffee-mit-Milch-und-Zucker", "K4ffee?>mit>?Milch?>und>?Zucker"]) {
      const known = new KnownValues([secret])
      for (const before of [0, 1, 2, 3, 4, 5]) {
        const bytes = Buffer.concat([Buffer.alloc(before, 0xfe), Buffer.from(secret), Buffer.alloc(40, 0x01)])
        for (const form of ["base64", "base64url"] as const) {
          assert.include(
            redactText(`blob ${bytes.toString(form)}`, known),
            REDACTED,
            `${form} after ${before}`
          )
        }
      }
    }
  })

  it("terminates on adversarial texts and leaves nothing for a second pass", () => {
    const known = new KnownValues(secretCases(4).known)
    for (const [what, text] of hostileTexts(8_192)) {
      assert.strictEqual(redacted(redacted(text, known).value, known).count, 0, what)
    }
  })

  it("interrupts the search of a long text in which every word looks like a secret", () => {
    for (const piece of ['password="', "password ", "api key is a1b2c3d4e5f6g7 ", "sk-"]) {
      const text = piece.repeat(Math.ceil(65_536 / piece.length))
      assert.isAbove([...redactInSteps(text, noKnownValues)].length, 14, piece)
    }
  })

  it("reports a value that is too large to be searched with its pointer", () => {
    const many = redact({ a: Array.from({ length: MAX_NODES }, () => 1) }, noKnownValues, "#/correction")
    assert.deepInclude(many, { _tag: "Unsearchable", pointer: "#/correction" })
    assert.strictEqual(redacted({ a: Array.from({ length: MAX_NODES - 2 }, () => 1) }).count, 0)
    const longest = ["a", ...Array.from({ length: 4 * MAX_NODES }, () => "b")]
    assert.isAtMost(collectTexts([longest]).size, 2)
    assert.deepInclude(redact(longest, noKnownValues), { _tag: "Unsearchable", pointer: "#" })
  })

  it("searches a text of any length, and finds a secret at each place of it", () => {
    const [secret = ""] = secretCases(6).cases.flatMap(({ secrets, what }) =>
      what === "Stripe live" ? secrets : []
    )
    const known = new KnownValues(["monsoon-umbrella"])
    const line = "The quick brown fox jumps over the lazy dog 2026. "
    for (const length of [65_500, 65_530, 81_900, 114_680, 131_072, 1_048_576]) {
      const before = line.repeat(Math.ceil(length / line.length)).slice(0, length)
      const text = `${before} ${secret} and monsoon-umbrella ${before}`
      const clean = redactText(text, known)
      assert.strictEqual(clean, `${before} ${REDACTED} and ${REDACTED} ${before}`)
    }
    // A value and the word that reveals it may lie in two parts.
    for (let length = 65_510; length < 65_540; length++) {
      const before = line.repeat(Math.ceil(length / line.length)).slice(0, length)
      const clean = redactText(`${before} password: kX7pQ2mZ9w ${line}`, noKnownValues)
      assert.strictEqual(clean, `${before} password: ${REDACTED} ${line}`)
    }
    // Base64 in one run, longer than a part of the text.
    const encoded = Buffer.from(`${line.repeat(4_000)}password: hunter22 ${line.repeat(4_000)}`).toString(
      "base64"
    )
    assert.notStrictEqual(redactText(encoded, known), encoded)
    assert.strictEqual(redact({ a: "c".repeat(4_000_000) }, noKnownValues)._tag, "Redaction")
  })

  it("finds a known value of digits in a JSON number", () => {
    const known = new KnownValues(["1876543210123456"])
    const { pointers, value } = redacted({ a: [1876543210123456, 1876543210123455, -1.5] }, known)
    assert.deepStrictEqual(value, { a: [REDACTED, 1876543210123455, -1.5] })
    assert.deepStrictEqual(pointers, ["#/a/0"])
  })

  it("uses the given results for strings that were redacted before", () => {
    const value = { note: "password: hunter2", list: ["x", { deep: "token" }] }
    assert.sameMembers([...collectTexts(value)], ["note", "password: hunter2", "list", "x", "deep", "token"])
    const cleaned = new Map([...collectTexts(value)].map((text) => [text, redactText(text, noKnownValues)]))
    assert.deepStrictEqual(redact(value, noKnownValues, "#", cleaned), redacted(value))
  })
})
