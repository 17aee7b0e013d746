import { assert, describe, it } from "@effect/vitest"
import { JsonPointer, Result } from "effect"
import * as fc from "fast-check"
import { type JsonProblem, scan, startScan, type ScanOptions } from "../../../src/domain/json/StrictJson.ts"

const faultOf = (scanned: ReturnType<typeof scan>): string =>
  Result.isSuccess(scanned) ? "fine" : `${scanned.failure.problem} ${scanned.failure.pointer}`

const nested = (levels: number, inner = "1") => "[".repeat(levels) + inner + "]".repeat(levels)

describe("StrictJson.scan", () => {
  const cases: ReadonlyArray<readonly [text: string, fault: string]> = [
    [`{}`, "fine"],
    [`""`, "fine"],
    [` [ 1 , "a" , { "b" : null } ] `, "fine"],
    [`{"a":1,"a":2}`, "duplicate_key #/a"],
    [`{"a":1,"\\u0061":2}`, "duplicate_key #/a"],
    [`{"":1,"":2}`, "duplicate_key #/"],
    [`{"a":{"a":1},"b":{"a":2}}`, "fine"],
    [`[{"a":1},{"a":1}]`, "fine"],
    [`{"x":[0,{"a~/b %":1,"a~/b %":2}]}`, "duplicate_key #/x/1/a~0~1b%20%25"],
    [`{"__proto__":1,"constructor":2}`, "fine"],
    [`{"__proto__":1,"__proto__":2}`, "duplicate_key #/__proto__"],
    [`{${Array.from({ length: 20 }, (_, at) => `"k${at}":0`).join(",")},"k19":1}`, "duplicate_key #/k19"],
    [`{"a":"a","b":"a"}`, "fine"],
    [`{"n":1e308}`, "fine"],
    [`{"n":1e400}`, "number_out_of_range #/n"],
    [`[9e307,9e308]`, "number_out_of_range #/1"],
    [`[-1E+999]`, "number_out_of_range #/0"],
    [`[1e-999]`, "number_out_of_range #/0"],
    [`[0e-999,-0,0.000000000000000000000]`, "fine"],
    [`[9007199254740993]`, "number_too_precise #/0"],
    [`[9007199254740991,9007199254740992,-9007199254740991]`, "fine"],
    [`{"id":123456789012345678}`, "number_too_precise #/id"],
    [`[90071992547409930e-1]`, "number_too_precise #/0"],
    [`[100000000000000000000,1e23,1.5E+300,12345678901234567000.00]`, "fine"],
    [`[0.1,0.10000000000000001,3.141592653589793,-2.5e-7]`, "fine"],
    [`[3.141592653589793238462643383279]`, "number_too_precise #/0"],
    [`[1.00000000000000000000,00010000000000000000]`, "fine"],
    [`[${"9".repeat(308)}]`, "number_too_precise #/0"],
    [`[${"9".repeat(309)}]`, "number_out_of_range #/0"],
    [`[1${"0".repeat(300)}]`, "fine"],
    [`[0.${"0".repeat(400)}1]`, "number_out_of_range #/0"],
    [`["1e400"]`, "fine"],
    [`1e400`, "number_out_of_range #"],
    [`["\\ud83d\\ude00"]`, "fine"],
    [`["😀"]`, "fine"],
    [`["\ud83d\\ude00"]`, "fine"],
    [`["\\uD800"]`, "lone_surrogate #/0"],
    [`["\\uDE00\\uD83D"]`, "lone_surrogate #/0"],
    [`["\\\\uD800"]`, "fine"],
    [`{"a":["\ud800"]}`, "lone_surrogate #/a/0"],
    [`{"a":{"\\udfff":1}}`, "lone_surrogate #/a"],
    [`{"a":"x\\u0000"}`, "nul #/a"],
    [`{"a":"x\\\\u0000"}`, "fine"],
    [`{"a":"x\\\\\\u0000"}`, "nul #/a"],
    [`{"a":"\0"}`, "nul #/a"],
    [`{"a":{"\\u0000":1}}`, "nul #/a"],
    [`{"a":"\\n\\u0001"}`, "fine"],
    [nested(64), "fine"],
    [nested(65), `too_deep #${"/0".repeat(64)}`],
    [`{"a":${nested(63)},"b":${nested(64)}}`, `too_deep #/b${"/0".repeat(63)}`],
    [`["[[[[", "{{{{ \\" [[["]`, "fine"],
    [`[${"[],".repeat(1_000)}[]]`, "fine"]
  ]
  for (const [text, fault] of cases) {
    it(`finds ${JSON.stringify(fault.slice(0, 40))} in ${JSON.stringify(text.slice(0, 60))}`, () => {
      assert.strictEqual(faultOf(scan(text)), fault)
    })
  }

  it("accepts everything that JSON.stringify writes", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "grapheme", maxDepth: 8 }), fc.nat(3), (value, indent) => {
        fc.pre(!JSON.stringify(value).includes("\\u0000"))
        assert.strictEqual(faultOf(scan(JSON.stringify(value, null, indent))), "fine")
      }),
      { numRuns: 3_000 }
    )
  })
})

describe("StrictJson.scan with limits", () => {
  const cases: ReadonlyArray<readonly [text: string, fault: string]> = [
    // Five values: the object, 1, the list, null and "a".
    [`{"a":1,"b":[null,"a"]}`, "fine"],
    [`{"a":1,"b":[null,"a",true]}`, "too_many_values #/b/2"],
    [`{"a":1,"b":[null,"a"],"c":-5}`, "too_many_values #/c"],
    [`[[],[],[],[],[]]`, "too_many_values #/4"],
    [`[{},{},{},{},{}]`, "too_many_values #/4"],
    [`[true,false,null,"null",[5]]`, "too_many_values #/4"],
    [`"one text with words such as null, true and false"`, "fine"]
  ]
  for (const [text, fault] of cases) {
    it(`finds ${fault} in ${text}`, () => {
      assert.strictEqual(faultOf(scan(text, { maxValues: 5 })), fault)
    })
  }

  it("counts different names, wherever they are, and repeated ones once", () => {
    const record = `{"id":1,"name":2,"total":3}`
    const many = `[${Array.from({ length: 50 }, () => record).join(",")}]`
    assert.strictEqual(faultOf(scan(many, { maxNames: 3 })), "fine")
    assert.strictEqual(faultOf(scan(many, { maxNames: 2 })), "too_many_names #/0/total")
    const escaped = many.replaceAll("total", "tot\\u0061l").replace("tot\\u0061l", "total")
    assert.strictEqual(faultOf(scan(escaped, { maxNames: 3 })), "fine")
  })

  it("finds only what exceeds a limit, if it is asked to, also after other faults", () => {
    const text = `{"a":1e999,"a":"\\u0000","b":[12345678901234567890,"\\ud800"]}`
    const scanned = (limits: ScanOptions) => faultOf(scan(text, { ...limits, limitsOnly: true }))
    assert.strictEqual(scanned({ maxValues: 6, maxNames: 2 }), "fine")
    assert.strictEqual(scanned({ maxValues: 5 }), "too_many_values #/b/1")
    assert.strictEqual(scanned({ maxNames: 1 }), "too_many_names #/b")
    assert.strictEqual(scanned({ maxDepth: 1 }), "too_deep #/b")
  })

  it("reads no further than the value beyond the limit", () => {
    const scanned = startScan(`[${"[],".repeat(1_000_000)}[]]`, { maxValues: 1_000 })
    const result = scanned.advance(4 * 1_000)
    assert.strictEqual(result === undefined ? "unfinished" : faultOf(result), "too_many_values #/999")
  })

  it("finds the same in parts as at once, whatever the parts", () => {
    const text = fc.json({ maxDepth: 5 })
    const limits = fc.record({ maxDepth: fc.nat(4), maxValues: fc.nat(20), maxNames: fc.nat(5) })
    fc.assert(
      fc.property(text, limits, fc.integer({ min: 1, max: 7 }), (text, limits, tokens) => {
        const started = startScan(text, limits)
        let parts = 0
        let result = started.advance(tokens)
        for (; result === undefined; parts++) result = started.advance(tokens)
        assert.isAtMost(parts, text.length / tokens)
        assert.strictEqual(faultOf(result), faultOf(scan(text, limits)))
      }),
      { numRuns: 3_000 }
    )
  })
})

describe("StrictJson.scan of any text", () => {
  /** A text as characters, each raw or escaped. */
  const characters = fc.array(
    fc.tuple(
      fc.constantFrom("a", "b", '"', "\\", "u", "0", "/", "[", "}", ",", "\0", "\ud83d", "\ude00", "☂"),
      fc.boolean()
    ),
    { maxLength: 3 }
  )
  type Node =
    | { readonly text: ReadonlyArray<readonly [string, boolean]> }
    | { readonly number: string }
    | { readonly list: ReadonlyArray<Node> }
    | { readonly members: ReadonlyArray<readonly [ReadonlyArray<readonly [string, boolean]>, Node]> }

  const { node } = fc.letrec<{ node: Node }>((tie) => ({
    node: fc.oneof(
      { maxDepth: 6, withCrossShrink: true },
      fc.record({ text: characters }),
      fc.record({ number: fc.constantFrom("0", "-1.5", "1e400", "1e3", "true", "null") }),
      fc.record({ list: fc.array(tie("node"), { maxLength: 4 }) }),
      fc.record({ members: fc.array(fc.tuple(characters, tie("node")), { maxLength: 4 }) })
    )
  }))

  const stringOf = (text: ReadonlyArray<readonly [string, boolean]>) =>
    text.map(([character]) => character).join("")
  const written = (text: ReadonlyArray<readonly [string, boolean]>) =>
    `"${text
      .map(([character, escaped]) => {
        if (escaped) return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
        return character === '"' || character === "\\" ? `\\${character}` : character
      })
      .join("")}"`
  const write = (node: Node): string => {
    if ("text" in node) return written(node.text)
    if ("number" in node) return node.number
    if ("list" in node) return `[${node.list.map(write).join(" ,")}]`
    return `{${node.members.map(([name, value]) => `${written(name)}: ${write(value)}`).join(",")}}`
  }

  /** The same rules, implemented over the parsed tree instead of the text. */
  const firstFault = (node: Node, maxDepth: number): string => {
    const inText = (text: string): JsonProblem | undefined =>
      text.includes("\0") ? "nul" : !text.isWellFormed() ? "lone_surrogate" : undefined
    const visit = (node: Node, path: ReadonlyArray<string>): string | undefined => {
      const here = JsonPointer.formatUriFragment(path.map((token) => token.toWellFormed()))
      if ("text" in node) {
        const problem = inText(stringOf(node.text))
        return problem === undefined ? undefined : `${problem} ${here}`
      }
      if ("number" in node) return node.number === "1e400" ? `number_out_of_range ${here}` : undefined
      if (path.length === maxDepth) return `too_deep ${here}`
      if ("list" in node) {
        for (const [index, item] of node.list.entries()) {
          const fault = visit(item, [...path, String(index)])
          if (fault !== undefined) return fault
        }
        return undefined
      }
      const names = new Set<string>()
      for (const [characters, value] of node.members) {
        const name = stringOf(characters)
        const problem = inText(name)
        if (problem !== undefined) return `${problem} ${here}`
        if (names.has(name)) {
          return `duplicate_key ${JsonPointer.formatUriFragment([...path, name])}`
        }
        names.add(name)
        const fault = visit(value, [...path, name])
        if (fault !== undefined) return fault
      }
      return undefined
    }
    return visit(node, []) ?? "fine"
  }

  it("finds the first fault of any document and its pointer", () => {
    const seen = new Map<string, number>()
    fc.assert(
      fc.property(node, fc.integer({ min: 1, max: 5 }), (tree, maxDepth) => {
        const text = write(tree)
        const expected = firstFault(tree, maxDepth)
        seen.set(expected.split(" ")[0]!, (seen.get(expected.split(" ")[0]!) ?? 0) + 1)
        assert.strictEqual(faultOf(scan(text, { maxDepth })), expected, text)
      }),
      { numRuns: 10_000 }
    )
    for (const outcome of [
      "fine",
      "too_deep",
      "nul",
      "duplicate_key",
      "number_out_of_range",
      "lone_surrogate"
    ]) {
      assert.isAbove(seen.get(outcome) ?? 0, 50, outcome)
    }
  })

  it("never throws, whatever the text", () => {
    const soup = fc.string({
      unit: fc.oneof(
        fc.constantFrom(
          "{",
          "}",
          "[",
          "]",
          '"',
          "\\",
          ":",
          ",",
          "\\u",
          "\\u0000",
          "\\ud800",
          "\ud800",
          "\0",
          "1e400",
          "-",
          " "
        ),
        fc.string({ unit: "binary", maxLength: 2 })
      )
    })
    fc.assert(
      fc.property(soup, (text) => {
        for (const scanned of [scan(text), scan(text, { maxDepth: 1 })]) {
          if (Result.isFailure(scanned)) assert.match(scanned.failure.pointer, /^#/)
        }
      }),
      { numRuns: 10_000 }
    )
  })

  it("handles deep and adversarial texts in linear time", () => {
    const long = 1_000_000
    assert.include(faultOf(scan("[".repeat(5 * long))), "too_deep")
    assert.include(faultOf(scan(`{"a":`.repeat(long))), "too_deep")
    for (const text of [
      `["${"\\".repeat(4 * long)}"]`,
      `["${'\\"'.repeat(2 * long)}"]`,
      `[${'"",'.repeat(long)}""]`,
      `["${"\\\\u0000".repeat(long)}"]`,
      `[${"[],".repeat(long)}[]]`,
      "]".repeat(long),
      `"${"x".repeat(long)}`,
      `[${"1".repeat(long)}]`
    ]) {
      assert.notInclude(faultOf(scan(text)), "too_deep")
    }
    const names = Array.from({ length: 100_000 }, (_, at) => `"\\u0061${at}":1`)
    assert.strictEqual(faultOf(scan(`{${names.join(",")}}`)), "fine")
    assert.strictEqual(faultOf(scan(`{${names.join(",")},"a7":1}`)), "duplicate_key #/a7")
  })

  it("points to the closest ancestor if a pointer would be too long", () => {
    const name = "n".repeat(2_000)
    assert.strictEqual(faultOf(scan(`{"a":{"${name}":{"b":1e400}}}`)), "number_out_of_range #/a")
    assert.strictEqual(faultOf(scan(`{"a":{"${name}":1,"${name}":1}}`)), "duplicate_key #/a")
  })

  it("describes the fault in a sentence", () => {
    const scanned = scan("[[[1]]]", { maxDepth: 2 })
    assert.deepStrictEqual(
      scanned,
      Result.fail({ problem: "too_deep", pointer: "#/0/0", detail: "Nesting exceeds 2 levels" })
    )
  })
})
