import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { Result } from "effect"
import { amountOf } from "../../../../src/console/pages/approvals/amountOf.ts"
import { parseSummaryTemplate, renderSummary } from "../../../../src/domain/approvals/SummaryTemplate.ts"

const template = (text: string) => Result.getOrThrow(parseSummaryTemplate(text))

describe("amountOf", () => {
  it("finds money, and else the first number", () => {
    const amounts: ReadonlyArray<readonly [string, number | undefined]> = [
      ["Refund 1,290.00 EUR on order 4711", 1290],
      ["Pay order 4711 with -12.50 EUR", -12.5],
      ["Pay 500 JPY", 500],
      ["Delete 1,200 records", 1200],
      ["Level-2 refund", undefined],
      ["Send a mail to ada@example.com", undefined],
      ["Refund [amount: missing] on order 7", 7],
      ["", undefined]
    ]
    for (const [summary, value] of amounts) assert.strictEqual(amountOf(summary)?.value, value, summary)
  })

  it("no text of the agent is taken for the amount of the rule's sentence", () => {
    const refund = template("{note} and {reason}: refund {cents|money:EUR}")
    const note = fc.oneof(
      fc.string({ unit: fc.constantFrom(...'1,.0 EUR“”[]-"x\n'.split("")), maxLength: 60 }),
      fc.constantFrom("9,999.00 EUR", "” 1.00 EUR “", "[1.00 EUR", "1.00 EUR]")
    )
    // A number is one as it is, without a currency.
    const text = note.filter((one) => !/^-?\d+(?:\.\d+)?$/u.test(one))
    fc.assert(
      fc.property(text, text, fc.integer({ min: 0, max: 10_000_000 }), (one, other, cents) => {
        const summary = renderSummary(refund, { note: one, reason: other, cents })
        assert.strictEqual(amountOf(summary)?.value, cents / 100, summary)
      }),
      { numRuns: 2_000 }
    )
  })
})
