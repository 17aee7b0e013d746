import { assert, describe, it } from "@effect/vitest"
import { csvField, csvRecord } from "../../src/domain/csv.ts"

describe("CSV", () => {
  it("a field with a quote, a comma or a line end is quoted, and its quotes are doubled (RFC 4180)", () => {
    assert.strictEqual(csvField('a "b"'), '"a ""b"""')
    assert.strictEqual(csvField("a,b"), '"a,b"')
    assert.strictEqual(csvField("a\r\nb"), '"a\r\nb"')
    assert.strictEqual(csvField("plain"), "plain")
    assert.strictEqual(csvRecord(["a", 1, null, true, { b: "c" }]), 'a,1,,true,"{""b"":""c""}"\r\n')
  })

  it("a text that a spreadsheet would evaluate as a formula begins with an apostrophe", () => {
    for (const text of ["=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20a"]) {
      assert.strictEqual(csvField(text), `'${text}`)
    }
    assert.strictEqual(
      csvField('=HYPERLINK("http://evil.example","x")'),
      `"'=HYPERLINK(""http://evil.example"",""x"")"`
    )
    for (const text of ["\rx", "\nx", "\tx"]) assert.strictEqual(csvField(text), `"'${text}"`)
  })

  it("a text stays one field without formulas where semicolons or tabs separate fields", () => {
    assert.strictEqual(csvField("a;b"), '"a;b"')
    assert.strictEqual(csvField("a\tb"), '"a\tb"')
    assert.strictEqual(csvField("a;=1+1;b"), `"a;'=1+1;b"`)
    assert.strictEqual(csvField("ok\r\n=1+1;-2\t@x"), `"ok\r\n'=1+1;'-2\t'@x"`)
    assert.strictEqual(csvField('a;"=1+1"'), `"a;""'=1+1"""`)
    assert.strictEqual(csvField("=1;=2"), `"'=1;'=2"`)
  })

  it("numbers keep their sign, and a character inside a text is left alone", () => {
    assert.strictEqual(csvField(-1), "-1")
    assert.strictEqual(csvField("a=b"), "a=b")
    assert.strictEqual(csvField(""), "")
  })
})
