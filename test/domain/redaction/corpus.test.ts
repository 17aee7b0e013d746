import { assert, describe, it } from "@effect/vitest"
import type { Schema } from "effect"
import { noKnownValues, redact, redactText } from "../../../src/domain/redaction/Redaction.ts"
import { contexts, fields, MARK, sentences } from "./corpus/contexts.ts"
import { kinds } from "./corpus/kinds.ts"
import { ordinaryTexts } from "./corpus/ordinary.ts"
import { fill, SeededRandom } from "./corpus/template.ts"

const seeds = [11, 12, 13]

/** How a token appears in texts of callers. */
const settings: ReadonlyArray<(secret: string) => string> = [
  (secret) => secret,
  (secret) => `Please use ${secret}, it is mine.`,
  (secret) => `"value": "${secret}",\n"next": 1`,
  (secret) => `https://example.com/cb?x=${secret}&y=1`
]

/** Whether less than 8 characters in a row of a secret are left. */
const isGone = (secret: string, text: string): boolean => {
  for (let at = 0; at + 8 <= secret.length; at++) if (text.includes(secret.slice(at, at + 8))) return false
  return secret.length >= 8 || !text.includes(secret)
}

const redactedText = (value: Schema.Json): string => {
  const result = redact(value, noKnownValues)
  if (result._tag === "Unsearchable") throw new Error(result.detail)
  return typeof result.value === "string" ? result.value : JSON.stringify(result.value)
}

/** Fails if more than the given share of the drawn values stays, and lists those. */
const assertFound = (
  what: string,
  drawn: ReadonlyArray<readonly [name: string, secret: string, text: Schema.Json]>,
  share: number
) => {
  const missed = drawn.filter(([, secret, text]) => !isGone(secret, redactedText(text))).map(([name]) => name)
  const found = 1 - missed.length / drawn.length
  // oxlint-disable-next-line no-console -- prints the measured share
  console.log(`redaction of ${what}: ${(100 * found).toFixed(1)} % of ${drawn.length}`, ...new Set(missed))
  assert.isAtLeast(found, share)
}

describe("redaction of a generated corpus", () => {
  it("finds the tokens of every listed provider, wherever they appear", () => {
    const drawn = seeds.flatMap((seed) => {
      const draw = new SeededRandom(seed)
      return kinds.flatMap(([name, template]) =>
        settings.map((put) => {
          const text = fill(template, draw)
          return [name, secretOf(text), put(text)] as const
        })
      )
    })
    assertFound("providers' tokens", drawn, 0.98)
  })

  it("finds values in settings, URLs, headers and commands", () => {
    assertFound("values by their context", draws(contexts), 0.98)
  })

  it("finds passwords and keys that sentences reveal, in 24 languages", () => {
    assertFound("values in sentences", draws(sentences), 0.95)
  })

  it("finds a token in each encoding", () => {
    const encodings: ReadonlyArray<readonly [name: string, encode: (secret: string) => string]> = [
      ["Base64", (secret) => Buffer.from(`token: ${secret}\n`).toString("base64")],
      [
        "Base64 of UTF-16",
        (secret) => Buffer.from(`$t = "${secret}"; Connect`, "utf16le").toString("base64")
      ],
      [
        "Base64 of Base64",
        (secret) => Buffer.from(Buffer.from(`x ${secret}`).toString("base64")).toString("base64")
      ],
      ["hexadecimal digits", (secret) => Buffer.from(`t=${secret}`).toString("hex")],
      ["percent-encoding", (secret) => [...secret].map((c) => `%${c.charCodeAt(0).toString(16)}`).join("")],
      ["escapes of JSON", (secret) => JSON.stringify(JSON.stringify({ t: secret })).replace("_", "\\u005f")],
      ["entities of HTML", (secret) => secret.replaceAll("_", "&#95;")],
      [
        "quoted-printable",
        (secret) =>
          `a=3Db ${secret.slice(0, 4)}=\r\n${secret.slice(4, 20).replaceAll("A", "=41")}=\n${secret.slice(20)}`
      ],
      ["zero-width characters", (secret) => secret.replace(/.{5}/g, "$&\u200b")],
      [
        "full-width characters",
        (secret) => [...secret].map((c) => String.fromCharCode(c.charCodeAt(0) + 0xfee0)).join("")
      ],
      ["lines", (secret) => `${secret.slice(0, 21)}\n  ${secret.slice(21)}`],
      [
        "concatenated literals",
        (secret) => `const t = "${secret.slice(0, 4)}" + "${secret.slice(4, 20)}" +\n  '${secret.slice(20)}'`
      ]
    ]
    for (const seed of seeds) {
      const draw = new SeededRandom(seed)
      for (const template of ["ghp_{A:36}", "sk_live_{A:24}9", "hvs.{A:95}"]) {
        for (const [name, encode] of encodings) {
          const text = encode(fill(template, draw))
          const clean = redactText(text, noKnownValues)
          // The rest is shorter than the secret by more than the mark.
          assert.isBelow(
            clean.replace("[REDACTED]", "").length,
            text.length - 20,
            `${name} of ${template}: ${clean}`
          )
        }
      }
    }
  })

  it("finds a token behind a colour of a terminal", () => {
    const secret = fill("ghp_{A:36}", new SeededRandom(1))
    for (const colour of ["\u001b[93m", "\\u001b[93m", "\\x1b[1;31m"]) {
      assert.notInclude(redactText(`${colour}${secret}\u001b[0m`, noKnownValues), secret.slice(0, 12))
    }
  })

  it("finds tokens that are signed, truncated or damaged", () => {
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
    const draw = new SeededRandom(1)
    const payload = encode({ sub: "ada", aud: "shop", iat: 1_795_000_000 })
    for (const token of [
      `${encode({ alg: "HS256" })}.${payload}.${fill("{U:43}", draw)}`,
      `${encode({ p2c: 4096 })}.${payload}.${fill("{U:43}", draw)}`,
      `${encode({ alg: "HS256", typ: "JWT" })}.${payload}`,
      fill("eyJ{A:40}.eyJ{A:60}.{U:43}", draw)
    ]) {
      assert.strictEqual(redactText(`see ${token} there`, noKnownValues), "see [REDACTED] there")
    }
  })

  it("finds a personal access token of a data centre product, which is Base64 of its number and bytes", () => {
    const draw = new SeededRandom(1)
    for (let times = 0; times < 20; times++) {
      const bytes = Buffer.concat([
        Buffer.from(fill("{d:12}:", draw)),
        Buffer.from(fill("{h:40}", draw), "hex")
      ])
      const token = bytes.toString("base64")
      assert.notInclude(redactText(`confluence_a=${token}`, noKnownValues), token.slice(0, 12))
    }
  })

  it("finds a credential wherever its text repeats it, up to a limit beyond which nothing stays", () => {
    const secret = fill("{A:12}7{A:20}", new SeededRandom(1))
    assert.strictEqual(
      redactText(`api_key = "${secret}"\n\nGET /v1/${secret}/x`, noKnownValues),
      'api_key = "[REDACTED]"\n\nGET /v1/[REDACTED]/x'
    )
    const many = `api_key = "${secret}"\n${`/${secret}`.repeat(100_001)}`
    assert.strictEqual(redactText(many, noKnownValues), "[REDACTED]")
  })

  it("finds a value that contains a sequence, unless it counts up throughout", () => {
    assert.notInclude(redactText("password=Tq123456789!rZ", noKnownValues), "123456789")
    assert.include(
      redactText("API_TOKEN=1234567890abcdef1234567890abcdef", noKnownValues),
      "1234567890abcdef"
    )
  })

  it("finds values of fields by name and value together", () => {
    const drawn = seeds.flatMap((seed) => {
      const draw = new SeededRandom(seed)
      return fields.map(([name, template]) => {
        const secret = fill(template, draw)
        return [name, secret, { [name]: secret }] as const
      })
    })
    assertFound("fields", drawn, 1)
  })

  it("finds the values of a list by the name of its field", () => {
    assert.deepStrictEqual(
      redactedText({ password: ["kX7pQ2mZ9w", ["bV3nM8cX1z"]] }),
      redactedText({ password: ["[REDACTED]", ["[REDACTED]"]] })
    )
    assert.include(redactedText({ hosts: ["kX7pQ2mZ9w"] }), "kX7pQ2mZ9w")
  })

  it("finds the value of a pair of members that name it", () => {
    assert.notInclude(redactedText({ name: "DB_PASSWORD", value: "kX7pQ2mZ9w" }), "kX7pQ2mZ9w")
    assert.include(redactedText({ name: "DB_HOST", value: "kX7pQ2mZ9w" }), "kX7pQ2mZ9w")
  })

  it("finds what a browser is told to fill in", () => {
    for (const field of [
      { element: "Password field", ref: "e12" },
      { selector: "input[type=password]" },
      { selector: "#password" },
      { label: "Password" }
    ]) {
      assert.notInclude(redactedText({ ...field, text: "kX7pQ2mZ9w" }), "kX7pQ2mZ9w")
      assert.include(redactedText({ ...field, text: "Forgot it?" }), "Forgot it?")
    }
    assert.include(redactedText({ element: "Search field", text: "kX7pQ2mZ9w" }), "kX7pQ2mZ9w")
  })

  it("leaves ordinary texts as they are", () => {
    const changed = [...seeds, 14, 15, 16, 17].flatMap((seed) => {
      const draw = new SeededRandom(seed)
      return ordinaryTexts
        .map((text) => fill(text, draw))
        .filter((text) => redactText(text, noKnownValues) !== text)
    })
    assert.isEmpty(changed.map((text) => `${text} => ${redactText(text, noKnownValues)}`))
  })
})

/** The part of a drawn token that must go: of a setting or an address, what follows its name. */
const secretOf = (text: string): string =>
  /(?:=|services\/|catch\/|^FlyV1 )(?=[^=]{8,})(.+)$/.exec(text)?.[1] ?? text

const draws = (cases: ReadonlyArray<readonly [text: string, template: string]>) =>
  seeds.flatMap((seed) => {
    const draw = new SeededRandom(seed)
    return cases.map(([text, template]) => {
      const secret = fill(template, draw)
      return [text, secret, fill(text, draw).replace(MARK, () => secret)] as const
    })
  })
