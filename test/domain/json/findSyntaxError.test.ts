import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { findSyntaxError } from "../../../src/domain/json/findSyntaxError.ts"

const faults: ReadonlyArray<readonly [text: string, place: string, detail: string]> = [
  ['{"a":1,}', "1:8", "expected a name in double quotes; remove the comma before `}`"],
  ["[1,\n]", "2:1", "expected a value; remove the comma before `]`"],
  ["{'a':1}", "1:2", "expected a name in double quotes or `}`"],
  ['{"a":None}', "1:6", "expected a value"],
  ['{\r\n  "a": 01\r\n}', "2:8", "expected a value"],
  ['{"a"', "1:5", "expected `:`"],
  ["[1 2]", "1:4", "expected `,` or `]`"],
  ["{} x", "1:4", "expected the end of the text"],
  ['"a\nb"', "1:3", String.raw`a string has a line break or control character: write \n`],
  [String.raw`"a\x"`, "1:3", String.raw`expected an escape such as \n, \" or \u00e9`],
  ['"abc', "1:5", 'expected `"` at the end of the string']
]

/** Texts of the pieces of JSON: some are JSON, most are nearly. */
const almostJson = fc
  .array(
    fc.constantFrom(
      ...[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"a"',
        "1",
        "-",
        "0",
        ".5",
        "e3",
        "true",
        "null",
        '"\\n"',
        '"\\q"',
        '"',
        " ",
        "\n",
        "x"
      ]
    ),
    { maxLength: 12 }
  )
  .map((pieces) => pieces.join(""))

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

describe("findSyntaxError", () => {
  it.each(faults)("%j has its fault at %s", (text, place, detail) => {
    const found = findSyntaxError(text)
    assert.deepStrictEqual([`${found?.line}:${found?.column}`, found?.detail], [place, detail])
  })

  it("a text has a fault exactly if JSON.parse refuses it", () => {
    fc.assert(
      fc.property(fc.oneof(almostJson, fc.json(), fc.string()), (text) => {
        assert.strictEqual(findSyntaxError(text) === undefined, isJson(text), text)
      }),
      { numRuns: 2_000 }
    )
  })
})
