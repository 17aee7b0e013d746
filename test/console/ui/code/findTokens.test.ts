import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { detectLanguage } from "../../../../src/console/ui/code/detectLanguage.ts"
import { findTokens, type Language, type Token } from "../../../../src/console/ui/code/findTokens.ts"

const languages: ReadonlyArray<Language> = ["json", "shell", "sql", "yaml"]

/** The tokens of a kind, as they are written. */
const partsOf = (text: string, language: Language, kind: Token["kind"]) =>
  findTokens(text, language).flatMap((token) =>
    token.kind === kind ? [text.slice(token.from, token.to)] : []
  )

describe("findTokens", () => {
  it("SQL has keywords, texts, numbers and comments", () => {
    const text = `-- pay\nUPDATE "t" SET a = 'it''s -- no', b = 12.5 /* SELECT\n*/ WHERE c IS NULL`
    assert.deepStrictEqual(partsOf(text, "sql", "keyword"), ["UPDATE", "SET", "WHERE", "IS"])
    assert.deepStrictEqual(partsOf(text, "sql", "string"), [`"t"`, "'it'", "'s -- no'"])
    assert.deepStrictEqual(partsOf(text, "sql", "value"), ["12", "5", "NULL"])
    assert.deepStrictEqual(partsOf(text, "sql", "comment"), ["-- pay", "/* SELECT\n*/"])
  })

  it("shell has variables, and no comment within a word", () => {
    const text = `if [ -f "$HOME/a" ]; then rm -rf \${dir}/#x 'a\nb' # why\nfi; echo it's $1`
    assert.deepStrictEqual(partsOf(text, "shell", "keyword"), ["if", "then", "rm", "fi"])
    assert.deepStrictEqual(partsOf(text, "shell", "value"), ["${dir", "$1"])
    assert.deepStrictEqual(partsOf(text, "shell", "comment"), ["# why"])
    assert.deepStrictEqual(partsOf(text, "shell", "string"), [`"$HOME/a"`, "'a\nb'"])
  })

  it("JSON and YAML have names", () => {
    const json = `{"a": "b\\"c", "d" : [true, -1]}`
    assert.deepStrictEqual(partsOf(json, "json", "name"), [`"a"`, `"d"`])
    assert.deepStrictEqual(partsOf(json, "json", "string"), [`"b\\"c"`])
    assert.deepStrictEqual(partsOf(json, "json", "value"), ["true", "1"])
    const yaml = `---\nkind: Deployment # note\nspec:\n  - name: it's "fine"\n    "x y": 3\n`
    assert.deepStrictEqual(partsOf(yaml, "yaml", "name"), ["kind", "spec", "name", `"x y"`])
    assert.deepStrictEqual(partsOf(yaml, "yaml", "comment"), ["# note"])
    assert.deepStrictEqual(partsOf(yaml, "yaml", "string"), [`"fine"`])
    assert.deepStrictEqual(partsOf(yaml, "yaml", "value"), ["3"])
  })

  it("tokens of any text lie in it, in order, without overlap", () => {
    const text = fc.array(
      fc.constantFrom(
        ..."ab1 \n\t-#\"'`\\$({[:,;/*".split(""),
        "--",
        "/*",
        "*/",
        "select",
        "- a: ",
        "\u{1f600}",
        "\ud800"
      ),
      { maxLength: 60 }
    )
    fc.assert(
      fc.property(text, fc.constantFrom(...languages), (parts, language) => {
        const whole = parts.join("")
        let end = 0
        for (const { from, to } of findTokens(whole, language)) {
          assert.isAtLeast(from, end)
          assert.isAbove(to, from)
          end = to
        }
        assert.isAtMost(end, whole.length)
      }),
      { numRuns: 2_000 }
    )
  })
})

describe("detectLanguage", () => {
  it("the text decides before the name", () => {
    const texts: ReadonlyArray<readonly [string, string, Language | undefined]> = [
      ["text", "-- clean up\nDELETE FROM orders", "sql"],
      ["body", ' {"a": 1}\n', "json"],
      ["payload", "#!/bin/sh\nls", "shell"],
      ["doc", "apiVersion: v1\nkind: Pod", "yaml"],
      ["doc", "a: 1\nb:\n  - c\n  - d", "yaml"],
      ["command", "rm -rf /tmp/x", "shell"],
      ["command", "SELECT 1 FROM t", "sql"],
      ["sql", "VACUUM", "sql"],
      ["note", "Select the best seat for him.\nUpdate the guest.", undefined],
      ["note", "Dear Ada,\nthe refund: see below.\nBest,\nBen", undefined],
      ["query", "who is in the order", undefined],
      ["query", "with a as (select 1) select * from a", "sql"],
      ["title", "With love", undefined],
      ["note", "", undefined]
    ]
    for (const [name, text, language] of texts) assert.strictEqual(detectLanguage(name, text), language, text)
  })
})
