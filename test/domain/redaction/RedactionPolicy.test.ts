import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import fc from "fast-check"
import { RE2JS } from "re2js"
import { vi } from "vitest"
import {
  KnownValues,
  noKnownValues,
  redact,
  REDACTED,
  redactText
} from "../../../src/domain/redaction/Redaction.ts"
import { hasIbanDigits, hasLuhnDigit } from "../../../src/domain/redaction/Redaction/findPersonalData.ts"
import { compilePolicy } from "../../../src/domain/redaction/RedactionPolicy.ts"
import { PersonalData, type RedactionRules } from "../../../src/domain/redaction/RedactionRules.ts"

const rules = (given: Partial<RedactionRules>): RedactionRules => ({
  patterns: [],
  exceptions: [],
  personal_data: [],
  redact_runs: false,
  ...given
})

const named = (...patterns: ReadonlyArray<string>) => patterns.map((pattern) => ({ name: pattern, pattern }))

const policyOf = (given: Partial<RedactionRules>, secrets: ReadonlyArray<string> = []) =>
  new KnownValues(secrets, Result.getOrThrow(compilePolicy(rules(given))))

const faultsOf = (given: Partial<RedactionRules>) => {
  const compiled = compilePolicy(rules(given))
  return Result.isFailure(compiled) ? compiled.failure : []
}

describe("compilePolicy", () => {
  it("refuses expressions that are not linear, match everywhere or are too large, each with its pointer", () => {
    const faults = faultsOf({
      patterns: named("EMP-[0-9]{6}", "(a)\\1", "[0-9]*", "x{1,400}"),
      exceptions: named("a(?=b)", "(")
    })
    assert.deepStrictEqual(
      faults.map(({ pointer }) => pointer),
      [
        "#/patterns/1/pattern",
        "#/patterns/2/pattern",
        "#/patterns/3/pattern",
        "#/exceptions/0/pattern",
        "#/exceptions/1/pattern"
      ]
    )
    assert.include(faults[1]?.detail, "matches an empty text")
    assert.include(faults[2]?.detail, "too large")
  })

  it("refuses expressions that are too large together", () => {
    const [fault] = faultsOf({
      patterns: named(...Array.from({ length: 10 }, (_, index) => `${index}[a-z]{150}`))
    })
    assert.strictEqual(fault?.pointer, "#/patterns")
    const classes = named(...Array.from({ length: 50 }, (_, index) => String.raw`(?i)${index}[\S\S\S]`))
    for (const [list, given] of Object.entries({
      patterns: { patterns: classes },
      exceptions: { exceptions: classes }
    })) {
      const [excess, ...others] = faultsOf(given)
      assert.strictEqual(excess?.pointer, `#/${list}`)
      assert.include(excess?.detail, "character classes")
      assert.lengthOf(others, 0)
    }
  })
})

describe("redaction by the rules of an organization", () => {
  it("redacts what a pattern matches: in texts, member names, numbers and hidden by invisible characters", () => {
    const known = policyOf({
      patterns: named("\\bEMP-[0-9]{6}\\b", "(?i)project [a-z]+fish", "7700[0-9]{8}")
    })
    assert.strictEqual(
      redactText("EMP-004711 works on Project Swordfish, EMP-12 does not", known),
      "[REDACTED] works on [REDACTED], EMP-12 does not"
    )
    assert.strictEqual(redactText("EMP-\u200b004711", known), REDACTED)
    const result = redact({ "EMP-004711": 770012345678, other: 770112345678 }, known)
    assert.deepStrictEqual(result._tag === "Redaction" ? result.value : result, {
      [REDACTED]: REDACTED,
      other: 770112345678
    })
  })

  it("compiles its patterns once, not for each text", () => {
    const known = policyOf({ patterns: named("EMP-[0-9]{6}", "(?i)project [a-z]+fish") })
    const compile = vi.spyOn(RE2JS, "compile")
    try {
      assert.strictEqual(redactText("EMP-004711: Project Swordfish", known), "[REDACTED]: [REDACTED]")
      assert.strictEqual(compile.mock.calls.length, 0)
    } finally {
      compile.mockRestore()
    }
  })

  it("a pattern matches spaces and line ends as in ECMAScript", () => {
    const known = policyOf({ patterns: named("PNR\\s[0-9]{4}"), exceptions: named("PNR\\s0000") })
    assert.strictEqual(redactText("PNR\u00a01234, PNR\u30005678", known), "[REDACTED], [REDACTED]")
    assert.strictEqual(redactText("PNR\u00a00000", known), "PNR\u00a00000")
  })

  it("finds a match at each place of a long text", () => {
    const known = policyOf({ patterns: named("EMP-[0-9]{6}") })
    for (const length of [7_600, 7_680, 8_185, 8_190, 16_380, 65_530, 200_000]) {
      const before = "a ".repeat(length / 2)
      assert.strictEqual(redactText(`${before}EMP-004711 ${before}`, known), `${before}[REDACTED] ${before}`)
    }
  })

  it("keeps a value that an exception matches as a whole, but never a stored credential", () => {
    // In parts, so that no scanner reports this file.
    const token = ["ghp", "1Q2w3E4r5T6y7U8i9O0pAsDfGhJkLzXcVbNm"].join("_")
    const text = `${token} and order-4711, password: hunter2`
    assert.strictEqual(redactText(text, noKnownValues), "[REDACTED] and order-4711, password: [REDACTED]")
    const lenient = policyOf({
      patterns: named("order-[0-9]+"),
      exceptions: named("ghp_[0-9A-Za-z]+", "order-47[0-9]*", "hunter")
    })
    assert.strictEqual(redactText(text, lenient), `${token} and order-4711, password: [REDACTED]`)
    const stored = policyOf({ exceptions: named("ghp_[0-9A-Za-z]+") }, [token])
    assert.strictEqual(redactText(text, stored), "[REDACTED] and order-4711, password: [REDACTED]")
    const field = redact({ password: "hunter2" }, policyOf({ exceptions: named("hunter2") }))
    assert.deepStrictEqual(field._tag === "Redaction" ? field.count : field, 0)
  })

  it("redacting a redacted text changes nothing, whatever the patterns", () => {
    const expressions = ["[a-z]+", "\\S+", ".", "RED", "[A-Z]", "\\[RED", "CTED\\].", "[^x]{2}", "\\w+@\\w+"]
    fc.assert(
      fc.property(
        fc.subarray(expressions, { minLength: 1 }),
        fc.array(fc.oneof(fc.constantFrom(REDACTED, "a@b", "x", " ", "RED", "[", "]"), fc.string()), {
          maxLength: 8
        }),
        (patterns, parts) => {
          const known = policyOf({ patterns: named(...patterns) })
          const once = redactText(parts.join(""), known)
          assert.strictEqual(redactText(once, known), once)
        }
      ),
      { numRuns: 300 }
    )
  })

  it("keeps the rest of a text whose earlier redactions a pattern matches", () => {
    const known = policyOf({ patterns: named("[A-Z]{5,}") })
    assert.strictEqual(redactText("case ABCDEF of today", known), `case ${REDACTED} of today`)
  })

  it("redacts a part of a text whole that would take too long to search", () => {
    const known = policyOf({ patterns: named("[ab]{1,100}c|a", "a.{0,40}z|b", "(?:a|b)+[xy]|a") })
    const clean = redactText("ab".repeat(40_000), known)
    assert.notInclude(clean, "abab")
  })
})

describe("redaction of personal data", () => {
  const all = policyOf({ personal_data: [...PersonalData.literals] })

  it("finds mail addresses, phone numbers, card numbers and bank accounts", () => {
    for (const [text, clean] of [
      ["Write to ada.lovelace+news@analytical-engine.co.uk.", "Write to [REDACTED]."],
      ["<jürgen@müller.de>, ok", "<[REDACTED]>, ok"],
      ["call +49 30 901820 or +1 (415) 555-0132", "call [REDACTED] or [REDACTED]"],
      ["Tel.: 030 / 90 18 20", "Tel.: [REDACTED]"],
      ["(415) 555-0132, 415-555-0132", "[REDACTED], [REDACTED]"],
      ["card 4111 1111 1111 1111, exp 12/29", "card [REDACTED], exp 12/29"],
      ["5555555555554444 378282246310005", "[REDACTED] [REDACTED]"],
      ["IBAN DE89 3704 0044 0532 0130 00, BIC COBADEFFXXX", "IBAN [REDACTED], BIC COBADEFFXXX"],
      ["gb82west12345698765432", "[REDACTED]"],
      ["https://shop.com/u?mail=ada@initech.com&x=1", "https://shop.com/u?mail=[REDACTED]&x=1"],
      ["https://x.com/unsubscribe/ada@initech.com", "https://x.com/unsubscribe/[REDACTED]"],
      ["4111\u00a01111\u00a01111\u00a01111", "[REDACTED]"],
      ["DE89\u202f3704\u202f0044\u202f0532\u202f0130\u202f00", "[REDACTED]"],
      ["2200 0000 0000 0004 (Mir)", "[REDACTED] (Mir)"],
      ["number,expiry,cvc\n4111111111111111,12/28,123", "number,expiry,cvc\n[REDACTED],12/28,123"],
      ["17,4111111111111111,9", "17,[REDACTED],9"],
      ["Ada,4111 1111 1111 1111,Bonn", "Ada,[REDACTED],Bonn"],
      ["4111 1111 1111 1111 12/29 123", "[REDACTED] 12/29 123"],
      ["4111 1111 1111 1111 123", "[REDACTED] 123"],
      ["card=4111+1111+1111+1111&x=1", "card=[REDACTED]&x=1"],
      ["iban=DE89+3704+0044+0532+0130+00&x=1", "iban=[REDACTED]&x=1"],
      ['{"phone":"01712345678"}', '{"phone":"[REDACTED]"}'],
      ['{\\"phone_number\\": 4155552671}', '{\\"phone_number\\": [REDACTED]}'],
      ["phoneNumber=0171-2345678&x=1", "phoneNumber=[REDACTED]&x=1"],
      ["Tél. : 06 12 34 56 78", "Tél. : [REDACTED]"],
      ["https://wa.me/491712345678?text=Hi", "https://wa.me/[REDACTED]?text=Hi"]
    ] as const) {
      assert.strictEqual(redactText(text, all), clean)
      assert.strictEqual(redactText(text, noKnownValues), text, "nothing of it is a secret")
    }
    const number = redact({ card: 4111111111111111 }, all)
    assert.deepStrictEqual(number._tag === "Redaction" ? number.value : number, { card: REDACTED })
    const fields = redact({ mobilePhone: "0171 2345678", fax_number: 4155552671, order: "0171 2345678" }, all)
    assert.deepStrictEqual(fields._tag === "Redaction" ? fields.value : fields, {
      mobilePhone: REDACTED,
      fax_number: REDACTED,
      order: "0171 2345678"
    })
  })

  it("leaves what only resembles personal data", () => {
    for (const text of [
      "see docs@example.com, git@github.com:org/repo.git, user@localhost, @ada, a@b",
      "order 4111 1111 1111 1112, invoice 2026-11-21-0001, 1234567890123456",
      "DE89 3704 0044 0532 0130 01, DE12 is a road, AB12 3456",
      "2026-11-21 10:32:11, 192.168.178.21, version 1.2.3.4, 12.500,00 EUR, +1 vote, +2026",
      "tel aviv, call 12 people, phone 7, ISBN 978-3-16-148410-0, 0301234567890123",
      "4f3a-1111-1111-1111 and 41111111111111110",
      "diff +1234567 -7654321, lat +48.8566, [0,4111111111111111], call=1234567890, cell 12, phone_id: a1",
      "icon@2x.png, photo@3x.jpg, pkg@1.2.3, https://github.com/@ada/x"
    ]) {
      assert.strictEqual(redactText(text, all), text)
    }
  })

  it("finds each kind only if it is switched on", () => {
    const text = "ada@analytical.org +493090182011 4111111111111111 DE89370400440532013000"
    const texts = text.split(" ")
    for (const [index, kind] of PersonalData.literals.entries()) {
      const clean = redactText(text, policyOf({ personal_data: [kind] })).split(" ")
      assert.deepStrictEqual(
        clean,
        texts.map((part, at) => (at === index ? REDACTED : part))
      )
    }
  })

  it("detects each wrong digit of a card number and of a bank account", () => {
    const digit = fc.integer({ min: 0, max: 9 })
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 15 }), digit, (place, other) => {
        const card = "4111111111111111"
        const changed = card.slice(0, place) + String(other) + card.slice(place + 1)
        assert.strictEqual(hasLuhnDigit(changed), changed === card)
        const iban = "DE89370400440532013000"
        const wrong = iban.slice(0, place + 4) + String(other) + iban.slice(place + 5)
        assert.strictEqual(hasIbanDigits(wrong), wrong === iban)
      })
    )
  })
})
