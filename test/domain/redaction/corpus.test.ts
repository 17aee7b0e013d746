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

  it("finds the value of a pair of members that name it", () => {
    assert.notInclude(redactedText({ name: "DB_PASSWORD", value: "kX7pQ2mZ9w" }), "kX7pQ2mZ9w")
    assert.include(redactedText({ name: "DB_HOST", value: "kX7pQ2mZ9w" }), "kX7pQ2mZ9w")
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
