import { assert, describe, it } from "@effect/vitest"
import { hash, MAX_TOKENS, tokenize } from "../../../src/domain/tasks/tokenize.ts"

const words = (...list: ReadonlyArray<string>) => [...new Set(list.map(hash))].toSorted((a, b) => a - b)

describe("tokenize", () => {
  it("words are tokens in any case and width, and numbers are tokens with their field", () => {
    assert.deepStrictEqual(
      tokenize({ text: "Where is MY parcel? ｐａｒｃｅｌ" }),
      words("where", "is", "my", "parcel")
    )
    assert.deepStrictEqual(
      tokenize({ order: 4711, paid: true, note: null }),
      words("order=4711", "paid=true", "note=null")
    )
    assert.deepStrictEqual(tokenize({ a: [{ b: "Grüße" }, "größe"] }), words("grüße", "größe"))
    assert.deepStrictEqual(tokenize({}), [])
  })

  it("each character is a token in scripts without spaces between words", () => {
    assert.deepStrictEqual(tokenize({ text: "包裹在哪里" }), words("包", "裹", "在", "哪", "里"))
  })

  it("the number of tokens is limited for any value", () => {
    const many = Array.from({ length: 10_000 }, (_, n) => `word${n}`)
    assert.lengthOf(tokenize({ many }), MAX_TOKENS)
    assert.lengthOf(tokenize({ text: many.join(" ") }), MAX_TOKENS)
    let deep: { inner?: unknown } = { inner: "leaf" }
    for (let level = 0; level < 50; level++) deep = { inner: deep }
    assert.deepStrictEqual(tokenize(JSON.parse(JSON.stringify(deep))), words("leaf"))
  })

  it("only the first combining characters in a row count, so that a text of them takes no time", () => {
    const marks = "\u0315\u0300".repeat(10_000)
    assert.deepStrictEqual(tokenize({ text: `a${marks} b` }), tokenize({ text: `a${marks.slice(0, 30)} b` }))
    assert.notDeepEqual(tokenize({ text: `a${marks}` }), words("a"))
    assert.deepStrictEqual(tokenize({ text: "Gru\u0308ße" }), words("grüße"))
  })

  it("the length of a text is limited in its Unicode form too", () => {
    // One character that stands for 18.
    const long = "\uFDFA".repeat(3_000)
    assert.include(tokenize({ text: `${long.slice(0, 1_000)} end` }), hash("end"))
    assert.notInclude(tokenize({ text: `${long} end` }), hash("end"))
    assert.notInclude(tokenize({ texts: [long, "end"] }), hash("end"))
  })

  it("of a value with very many members only the first are read", () => {
    let read = 0
    const items = new Proxy(
      Array.from({ length: 200_000 }, () => ""),
      {
        get: (target, key) => {
          read++
          return Reflect.get(target, key)
        }
      }
    )
    assert.deepStrictEqual(tokenize({ text: "first", items }), words("first"))
    assert.isBelow(read, 100_000)
  })
})
