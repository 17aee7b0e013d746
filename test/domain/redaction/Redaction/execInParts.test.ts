import { assert, describe, it } from "@effect/vitest"
import { execInParts } from "../../../../src/domain/redaction/Redaction/execInParts.ts"
import { findCommandOptions } from "../../../../src/domain/redaction/Redaction/findCommandOptions.ts"
import { findJwts } from "../../../../src/domain/redaction/Redaction/structuredSecrets.ts"
import { noKnownValues, redactText } from "../../../../src/domain/redaction/Redaction.ts"

/** The result of a search, and how often it yielded. */
const run = <A>(search: Generator<void, A>): { readonly steps: number; readonly result: A } => {
  for (let steps = 0; ; steps++) {
    const step = search.next()
    if (step.done === true) return { steps, result: step.value }
  }
}

const EXTENT = { before: 1, reach: 64 }

describe("execInParts", () => {
  it("finds each match that one search of the whole text finds, at the same place, also where parts meet", () => {
    // The lookbehind and the end of a match need the characters around a part.
    const expression = /(?<!x)ab{1,40}/g
    for (const gap of [1, 7, 8_190, 8_191, 8_192, 8_193, 8_240, 16_384]) {
      const filler = "-".repeat(gap)
      const text = `${filler}a${"b".repeat(40)}${filler}xab${filler}abb${filler}`
      const expected = Array.from(text.matchAll(expression), ({ 0: match, index }) => [index, match])
      assert.lengthOf(expected, 2)
      const found: Array<unknown> = []
      for (let from = 0; ;) {
        const match = run(execInParts(expression, text, from, EXTENT)).result
        if (match === null) break
        found.push([match.index, match[0]])
        from = match.index + match[0].length
      }
      assert.deepStrictEqual(found, expected, `gap of ${gap}`)
    }
  })

  it("yields once for each part without a match, and not at all in a short text", () => {
    assert.strictEqual(run(execInParts(/a/g, "-".repeat(8_192), 0, EXTENT)).steps, 0)
    assert.strictEqual(run(execInParts(/a/g, "-".repeat(10 * 8_192), 0, EXTENT)).steps, 9)
  })
})

describe("searches of a long adversarial text", () => {
  it("yield although nothing is found, and although everything looks like a token", () => {
    assert.isAbove(run(findJwts("eyJaaaaaaaaaaaa.".repeat(4_096))).steps, 50)
    const all = { flags: 0, longestRun: 0, longestWord: 0, longestHexRun: 0, hasAny: true, has: () => true }
    const forms = run(findCommandOptions("-", all, 0)).steps
    assert.isAbove(run(findCommandOptions("docker -x ".repeat(6_554), all, 0)).steps, forms + 100)
  })

  it("find the password of a login to a registry in a line, not the port of a container", () => {
    const redacted = (text: string) => redactText(text, noKnownValues)
    assert.strictEqual(
      redacted("docker login -u ada -p Winter2026x registry.example.com"),
      "docker login -u ada -p [REDACTED] registry.example.com"
    )
    assert.strictEqual(redacted("docker run -p a8080:80b1 image"), "docker run -p a8080:80b1 image")
  })
})
