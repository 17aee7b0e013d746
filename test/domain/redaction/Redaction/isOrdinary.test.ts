import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { findSecrets, isOrdinary } from "../../../../src/domain/redaction/Redaction/findSecrets.ts"
import { noKnownValues } from "../../../../src/domain/redaction/Redaction.ts"
import { contexts, fields, sentences } from "../corpus/contexts.ts"
import { kinds } from "../corpus/kinds.ts"
import { ordinaryTexts } from "../corpus/ordinary.ts"
import { fill, SeededRandom } from "../corpus/template.ts"

const draw = new SeededRandom(21)
const secrets = kinds.map(([, template]) => fill(template, draw))
const corpus = [...contexts, ...sentences, ...fields].map(([text]) => text).concat(secrets, ordinaryTexts)
const words = corpus.flatMap((text) => text.split(/\s+/))

const count = (text: string): number => {
  const steps = findSecrets(text, noKnownValues)
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value.length
  }
}

describe("isOrdinary", () => {
  it("settles only texts in which the searches find nothing", () => {
    let settled = 0
    const piece = fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(...words) },
      { weight: 2, arbitrary: fc.string({ maxLength: 12 }) },
      { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 12 }) }
    )
    const text = fc.oneof(
      fc.constantFrom(...corpus),
      fc.array(piece, { minLength: 1, maxLength: 6 }).map((pieces) => pieces.join(" ")),
      fc.array(piece, { minLength: 1, maxLength: 4 }).map((pieces) => pieces.join(""))
    )
    fc.assert(
      fc.property(text, (one) => {
        if (!isOrdinary(one, noKnownValues)) return
        settled++
        assert.strictEqual(count(one), 0, one)
      }),
      { numRuns: 20_000 }
    )
    assert.isAbove(settled, 1_000)
  })

  it("settles no URL, option or token", () => {
    for (const text of ["ftp://ada:s3cret99@db.io", "-u ada:S3cretXy9", "AKIAN365B36CPSLSR2U7"]) {
      assert.strictEqual(count(text), 1, text)
      assert.isFalse(isOrdinary(text, noKnownValues), text)
    }
  })

  it("settles the names of members and short values", () => {
    for (const text of [
      "status",
      "category",
      "invoice number",
      "approved by the team",
      "2026-11-23",
      "129.90"
    ]) {
      assert.isTrue(isOrdinary(text, noKnownValues), text)
    }
  })
})
