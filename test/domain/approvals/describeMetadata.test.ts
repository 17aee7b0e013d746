import { assert, describe, it } from "@effect/vitest"
import { describeMetadata } from "../../../src/domain/approvals/describeMetadata.ts"

describe("describeMetadata", () => {
  it("texts and named numbers are on the line, other values and secrets are not", () => {
    const metadata = {
      ticket: "SUP-9001",
      api_token: "t",
      mnemonic: "army van defense",
      tags: ["a"],
      customer: "Maria Weber",
      retries: 2,
      last: "no"
    }
    assert.strictEqual(describeMetadata(metadata), "SUP-9001 · “Maria Weber” · retries 2")
    assert.isNull(describeMetadata({}))
    assert.isNull(describeMetadata({ nested: { a: 1 }, blank: " " }))
  })

  it("hostile metadata is one bounded, visible line", () => {
    const line =
      describeMetadata({ a: `\u202e${"x".repeat(500)}`, ["\n".repeat(300)]: 1, c: "y\u200bz" }) ?? ""
    assert.isAtMost(line.length, 80)
    assert.notMatch(line, /[\p{Cc}\p{Cf}]/u)
  })
})
