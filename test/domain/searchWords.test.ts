import { assert, describe, it } from "@effect/vitest"
import { MAX_WORD_LENGTH, MAX_WORDS, searchWords } from "../../src/domain/searchWords.ts"

describe("searchWords", () => {
  it.each([
    ["SUP-9001", ["sup", "9001"]],
    ["payments.refund payments_refund", ["payments", "refund"]],
    ["Maria.Weber+x@Example.com", ["maria", "weber", "x", "example", "com"]],
    ["ÄRGER straße ﬁne ２３", ["ärger", "straße", "fine", "23"]],
    ["हिन्दी", ["हिन्दी"]],
    ["'; DROP TABLE x; -- \\ :* & | ! <-> ( ) \u0000 \u202e", ["drop", "table", "x"]],
    ["\ud800a", ["a"]],
    ["", []],
    ["… — !", []]
  ])("%j has the words %j", (text, words) => {
    assert.deepStrictEqual(searchWords(text), words)
  })

  it("escapes of JSON texts are no words, also if the text is cut off", () => {
    assert.deepStrictEqual(searchWords(String.raw`{"note":"one\ntwo\u0000three \"four\""}`, { json: true }), [
      "note",
      "one",
      "two",
      "three",
      "four"
    ])
    assert.deepStrictEqual(searchWords(String.raw`{"a":"b\u00`, { json: true }), ["a", "b", "00"])
  })

  it("words and their number are bounded", () => {
    assert.deepStrictEqual(searchWords("a".repeat(1_000)), ["a".repeat(MAX_WORD_LENGTH)])
    const many = Array.from({ length: 1_000 }, (_, index) => `w${index}`).join(" ")
    assert.lengthOf(searchWords(many), MAX_WORDS)
  })
})
