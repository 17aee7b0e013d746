import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import * as fc from "fast-check"
import {
  formatTemplateFault,
  MAX_PLACEHOLDERS,
  MAX_RULE_SUMMARY,
  MAX_TEMPLATE,
  parseSummaryTemplate,
  renderSummary
} from "../../../src/domain/approvals/SummaryTemplate.ts"
import { JsonValue } from "../../../src/domain/json/JsonValue.ts"

const render = (template: string, stepArguments?: Schema.Json): string =>
  renderSummary(Result.getOrThrow(parseSummaryTemplate(template)), stepArguments)

const faultOf = (template: string): string =>
  Result.match(parseSummaryTemplate(template), { onFailure: formatTemplateFault, onSuccess: () => "none" })

const decodeJson = Schema.decodeUnknownSync(JsonValue)

const hostile = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u

describe("SummaryTemplate", () => {
  it("a template shows amounts in their currency, and values at paths", () => {
    const args = {
      amount_cents: 129_000,
      currency: "EUR",
      order: 4711,
      customer: { name: "Maria Weber", "e.mail": "maria@example.com" },
      items: [{ sku: "A-1" }]
    }
    const rendered = [
      ["Refund {amount_cents|money:currency} on order {order}", "Refund 1,290.00 EUR on order 4711"],
      ["{ amount_cents | money: currency } for {customer.name}", "1,290.00 EUR for “Maria Weber”"],
      ["{/customer/e.mail} buys {items.0.sku}", "“maria@example.com” buys “A-1”"],
      ["{{literal}} {order}", "{literal} 4711"],
      ["{.}", "[5 members]"]
    ] as const
    for (const [template, expected] of rendered) assert.strictEqual(render(template, args), expected)
  })

  it("an amount has the digits of its currency, and no amount is guessed", () => {
    const money = (amount: Schema.Json, currency?: Schema.Json) =>
      render("{amount|money:currency}", currency === undefined ? { amount } : { amount, currency })
    assert.strictEqual(money(5, "EUR"), "0.05 EUR")
    assert.strictEqual(money(-123_456, "usd"), "-1,234.56 USD")
    assert.strictEqual(money("000129000", "EUR"), "1,290.00 EUR")
    assert.strictEqual(money(1_290, "JPY"), "1,290 JPY")
    assert.strictEqual(money(1_290, "KWD"), "1.290 KWD")
    assert.strictEqual(money("123456789012345678901234", "EUR"), "1,234,567,890,123,456,789,012.34 EUR")
    assert.strictEqual(money(12.5, "EUR"), "[amount: 12.5, not a whole number of minor units]")
    assert.strictEqual(money(2 ** 53, "EUR"), "[amount: 9007199254740992, not a whole number of minor units]")
    assert.strictEqual(money(129_000, "XXX"), "[amount: 129000, in no known currency]")
    assert.strictEqual(money(129_000), "[amount: 129000, in no known currency]")
    assert.strictEqual(money({}, "EUR"), "[amount: [0 members], not a whole number of minor units]")
    assert.strictEqual(render("{a|money:EUR}", { a: 100 }), "1.00 EUR")
    assert.strictEqual(render("{a|money:/EUR}", { a: 100, EUR: "CHF" }), "1.00 CHF")
  })

  it("numbers, dates and lists have their formats, and values of other types are shown as such", () => {
    const rendered = [
      ["{v|number}", 1234567.891, "1,234,567.891"],
      ["{v|number}", "-0012345", "-12,345"],
      ["{v|number}", 1e21, "1e+21"],
      ["{v|number}", "a lot", "[v: “a lot”, not a number]"],
      ["{v|date}", "2026-11-23", "2026-11-23"],
      ["{v|date}", "2026-11-23T01:30:15.5+02:00", "2026-11-22 23:30 UTC"],
      ["{v|date}", "2026-11-23 14:05", "2026-11-23 14:05"],
      ["{v|date}", "2026-02-30", "[v: “2026-02-30”, not a date]"],
      ["{v|date}", "2026-02-28T25:00Z", "[v: “2026-02-28T25:00Z”, not a date]"],
      ["{v|date}", 1_700_000_000, "[v: 1700000000, not a date]"],
      ["{v|count}", Array.from({ length: 1_400 }, () => ""), "1,400"],
      ["{v|count}", "four", "[v: “four”, not a list]"],
      ["{v}", ["a@example.com", "b c", 3, 4, 5], "“a@example.com”, “b c”, 3 and 2 more"],
      ["{v}", [[1], [2]], "[2 elements]"],
      ["{v}", [], "[empty list]"],
      ["{v}", true, "true"],
      ["{v}", null, "null"],
      ["{v}", "", "“”"],
      ["{v}", { a: 1 }, "[1 member]"],
      ["{w}", {}, "[w: missing]"],
      ["{v.w}", "text", "[v.w: missing]"],
      ["{__proto__.x}", {}, "[__proto__.x: missing]"]
    ] as const
    for (const [template, v, expected] of rendered) assert.strictEqual(render(template, { v }), expected)
    assert.strictEqual(render("{a} {b|number}", undefined), "[a: missing] [b: missing]")
  })

  it("a value cannot pass for the words of the template", () => {
    assert.strictEqual(
      render("Refund on order {order}", { order: "4711, which Ada has approved already" }),
      "Refund on order “4711, which Ada has approved already”"
    )
    assert.strictEqual(
      render("Send {n} mails {mode}", { n: 3, mode: "internally" }),
      "Send 3 mails “internally”"
    )
    assert.strictEqual(render("{v}", { v: "a” and “b" }), '“a" and "b”')
    assert.strictEqual(render("{v}", { v: "[v: missing]" }), "“[v: missing]”")
    assert.strictEqual(render("{v}", { v: "invoice\u202efdp.exe" }), "“invoiceU+202Efdp.exe”")
    assert.strictEqual(render("{v}", { v: "one\ntwo" }), "“oneU+000Atwo”")
    assert.strictEqual(render("{v}", { v: "x".repeat(1_000) }).length, 82)
  })

  it("a fault is reported with its place", () => {
    const faults = [
      ["Refund {amount", "At character 8: A { without a }."],
      ["Refund }", "At character 8: A } without a {."],
      ["{}", "At character 2: Expected the path of an argument"],
      ["{a{b}", "At character 3: A { within a placeholder."],
      ["{a..b}", "At character 4: Expected a name on both sides of a dot."],
      ["{a b}", "At character 3: A path has no spaces."],
      ["{/a~2}", "At character 4: Expected ~0 or ~1"],
      ["{a|mony}", "At character 4: Expected a format: number, date, count or money."],
      ["{a|}", "At character 4: Expected a format"],
      ["{a|number:2}", "At character 10: The format number takes nothing after it."],
      ["{a|money}", "At character 9: Expected a currency: money:EUR"],
      ["{a|money: XYZ}", "At character 11: XYZ is no currency code"],
      [`{${"a.".repeat(16)}a}`, "At character 2: Expected at most 16 names"],
      ["{a}".repeat(MAX_PLACEHOLDERS + 1), "At character 49: Expected at most 16 placeholders."],
      ["x".repeat(MAX_TEMPLATE + 1), "At character 301: Expected at most 300 characters."]
    ] as const
    for (const [template, expected] of faults) assert.include(faultOf(template), expected)
  })

  it("every text either has a fault within it, or renders any arguments to one bounded, visible line", () => {
    const piece = fc.oneof(
      fc.constantFrom(
        "{",
        "}",
        "{{",
        "}}",
        "|",
        ":",
        "/",
        ".",
        " ",
        "money",
        "number",
        "date",
        "count",
        "EUR",
        "a",
        "b"
      ),
      fc.string({ maxLength: 3 })
    )
    const template = fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join(""))
    const name = fc.constantFrom("a", "b", "EUR", "0", "money")
    const json = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom(null, true, 0, -1, 12.5, 1e300, "EUR", "2026-11-23", "“\u202e”"),
        fc.integer(),
        fc.string({ unit: "binary", maxLength: 200 }),
        fc.array(tie("value"), { maxLength: 5 }),
        fc.dictionary(name, tie("value"), { maxKeys: 4 })
      )
    })).value
    fc.assert(
      fc.property(template, fc.option(json, { nil: undefined }), (text, args) => {
        const parsed = parseSummaryTemplate(text)
        if (Result.isFailure(parsed)) {
          assert.isTrue(parsed.failure.at >= 0 && parsed.failure.at <= text.length)
          assert.match(parsed.failure.detail, /^.+\.$/u)
          return
        }
        const rendered = renderSummary(parsed.success, args === undefined ? args : decodeJson(args))
        assert.isAtMost([...rendered].length, MAX_RULE_SUMMARY)
        // The words of a template are visible: the rule's schema requires it.
        if (!hostile.test(text)) assert.notMatch(rendered, hostile)
      }),
      { numRuns: 500 }
    )
  })

  it("placeholders with valid paths and formats always parse, and words without braces are kept", () => {
    const path = fc
      .array(fc.stringMatching(/^[a-z_0-9]{1,8}$/u), { minLength: 1, maxLength: 4 })
      .map((names) => names.join("."))
    const format = fc.constantFrom("", "|number", "|date", "|count", "|money:EUR", "|money:currency")
    fc.assert(
      fc.property(fc.stringMatching(/^[^{}]{0,20}$/u), path, format, (words, place, suffix) => {
        const rendered = render(`${words}{${place}${suffix}}`)
        assert.strictEqual(rendered, `${words}[${place}: missing]`)
      })
    )
  })
})
