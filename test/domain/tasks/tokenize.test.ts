import { assert, describe, it } from "@effect/vitest"
import type { Schema } from "effect"
import {
  isSubWord,
  MAX_SUB_WORDS,
  MAX_WORDS,
  subWordToken,
  tokenize,
  tokensFromBytes,
  tokensToBytes,
  wordToken
} from "../../../src/domain/tasks/tokenize.ts"

const sorted = (tokens: Iterable<number>) => [...new Set(tokens)].toSorted((a, b) => a - b)
const words = (...list: ReadonlyArray<string>) => sorted(list.map(wordToken))
const subWords = (...list: ReadonlyArray<string>) => sorted(list.map(subWordToken))
const wordsOf = (value: Schema.Json) => tokenize(value).filter((token) => !isSubWord(token))
const subWordsOf = (value: Schema.Json) => tokenize(value).filter(isSubWord)

/** Different words of letters. */
const letters = (n: number) => [...String(n)].map((digit) => "abcdefghij"[Number(digit)]).join("")

describe("tokenize", () => {
  it("words are tokens in any case and width, and numbers are tokens with their field", () => {
    assert.deepStrictEqual(
      wordsOf({ text: "Where is MY parcel? ｐａｒｃｅｌ" }),
      words("where", "is", "my", "parcel")
    )
    assert.deepStrictEqual(
      wordsOf({ order: 4711, paid: true, note: null }),
      words("order=4711", "paid=true", "note=null")
    )
    assert.deepStrictEqual(wordsOf({ a: [{ b: "Grüße" }, "größe"] }), words("grusse", "grosse"))
    assert.deepStrictEqual(tokenize({}), [])
  })

  it("a word is the same in any case and without its accents or points, in any language", () => {
    for (const [one, other] of [
      ["Straße", "STRASSE"],
      ["ŞİFREMİ", "Şifremi"],
      ["KAPIYI", "kapıyı"],
      ["ΚΩΔΙΚΟΣ", "κωδικός"],
      ["élève", "ELEVE"],
      ["ещё", "ЕЩЕ"],
      ["كَتَبَ", "كتب"],
      ["أحمد", "احمد"],
      ["שָׁלוֹם", "שלום"],
      ["Pass\u00ADwort", "passwort"]
    ] as const) {
      assert.deepStrictEqual(tokenize({ one }), tokenize({ one: other }), one)
    }
    assert.notDeepEqual(tokenize({ text: "がく" }), tokenize({ text: "かく" }))
  })

  it("the parts of a word are tokens, so that other forms of it share some, but not those of a number", () => {
    assert.deepStrictEqual(subWordsOf({ text: "Karten am Tag" }), subWords("kar", "art", "rte", "ten", "tag"))
    assert.deepStrictEqual(subWordsOf({ text: "카드를" }), subWords(" 카", "카드", "드를"))
    assert.deepStrictEqual(subWordsOf({ text: "order 4711 ab1234" }), subWords("ord", "rde", "der"))
  })

  it("each character is a token in scripts without spaces between words", () => {
    assert.deepStrictEqual(tokenize({ text: "包裹在哪里" }), words("包", "裹", "在", "哪", "里"))
  })

  it("numbers of one magnitude and sign share tokens", () => {
    const shared = (left: number, right: number) => {
      const others = new Set(tokenize({ amount: right }))
      return tokenize({ amount: left }).filter((token) => others.has(token)).length
    }
    assert.isAbove(shared(10, 11), shared(10, 40))
    assert.isAbove(shared(1_023, 1_025), 0)
    assert.strictEqual(shared(10, 5_000), 0)
    assert.strictEqual(shared(10, -10), 0)
    assert.strictEqual(shared(0, 0.5), 0)
  })

  it("the number of tokens is limited for any value", () => {
    const many = Array.from({ length: 5_000 }, (_, n) => `${letters(n)} word${n}`)
    for (const value of [{ many }, { text: many.join(" ") }]) {
      assert.lengthOf(wordsOf(value), MAX_WORDS)
      assert.lengthOf(subWordsOf(value), MAX_SUB_WORDS)
    }
    let deep: { inner?: unknown } = { inner: "leaf" }
    for (let level = 0; level < 50; level++) deep = { inner: deep }
    assert.deepStrictEqual(wordsOf(JSON.parse(JSON.stringify(deep))), words("leaf"))
  })

  it("of a long text, words of all parts count, and two texts keep the same ones of their common words", () => {
    const text = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, n) => `word${from + n}`).join(" ")
    // 20,000 characters.
    const common = new Set(wordsOf({ text: text(0, 2_000) }))
    const longer = wordsOf({ text: text(0, 2_500) })
    // Of the words in common, those with the lowest hashes: as many as in a random sample, 4 in 5.
    assert.isAbove(longer.filter((word) => common.has(word)).length, 0.7 * MAX_WORDS)
    const sections = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    const book = sections.map((section) => `${section} `.repeat(20_000))
    assert.includeMembers(wordsOf({ text: book.join("") }), words(...sections))
    assert.includeMembers(wordsOf({ book, note: "short" }), words(...sections))
  })

  it("only the first combining characters in a row count, so that a text of them takes no time", () => {
    const marks = "\u0315\u0300".repeat(10_000)
    assert.deepStrictEqual(tokenize({ text: `a${marks} b` }), tokenize({ text: `a${marks.slice(0, 30)} b` }))
    assert.deepStrictEqual(wordsOf({ text: "Gru\u0308ße" }), words("grusse"))
  })

  it("the length of a text is limited in its Unicode form too", () => {
    // One character that stands for 18.
    const long = "\uFDFA".repeat(3_000)
    assert.include(tokenize({ text: `${long.slice(0, 1_000)} end` }), wordToken("end"))
    assert.notInclude(tokenize({ text: `${long} end` }), wordToken("end"))
    assert.notInclude(tokenize({ texts: [long, "end"] }), wordToken("end"))
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
    assert.deepStrictEqual(wordsOf({ text: "first", items }), words("first"))
    assert.isBelow(read, 100_000)
  })

  it("stored tokens are read as they were", () => {
    const tokens = tokenize({ text: "Where is my parcel?", amount: 5 })
    const stored = tokensToBytes(tokens)
    const unaligned = new Uint8Array(stored.length + 1)
    unaligned.set(stored, 1)
    assert.deepStrictEqual([...tokensFromBytes(unaligned.subarray(1))], tokens)
  })
})
