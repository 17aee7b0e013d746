import { assert, describe, it } from "@effect/vitest"
import { MAX_ARGUMENTS_LINE, describeArguments } from "../../../src/domain/approvals/describeArguments.ts"

describe("describeArguments", () => {
  it("amounts, people and references come before other members", () => {
    assert.strictEqual(
      describeArguments({
        note: "urgent",
        flags: [],
        order: 4711,
        customer: { name: "Maria Weber" },
        amount_cents: 129_000
      }),
      "amount_cents 129000 · customer.name “Maria Weber” · order 4711 · note urgent"
    )
    assert.strictEqual(
      describeArguments({ to: ["a@x.com", "b@x.com"], body: "Hello" }),
      "to 2 elements · body Hello"
    )
  })

  it("members that are likely secrets are left out", () => {
    assert.strictEqual(
      describeArguments({ user: "ada", password: "p", api_key: "k", headers: { Authorization: "Bearer x" } }),
      "user ada"
    )
    assert.isNull(describeArguments({ token: "t" }))
    assert.isNull(
      describeArguments({
        mnemonic: "army van defense",
        access_key: "AKIA1234567890",
        master_key: "k3y-0123456789abcdef",
        credentials: { user: "ada" }
      })
    )
    assert.strictEqual(
      describeArguments({ max_tokens: 1000, secretary: "Ann", token_id: "tok_1" }),
      "token_id tok_1 · max_tokens 1000 · secretary Ann"
    )
  })

  it("arguments without a scalar member have no line", () => {
    for (const value of [undefined, null, {}, [], "  ", { a: {}, b: [], c: "" }])
      assert.isNull(describeArguments(value))
  })

  it("a line is bounded and visible, however large and hostile the arguments are", () => {
    const line = describeArguments({
      "a\u202eb": "x".repeat(10_000),
      amount: "1\n2",
      id: "y".repeat(200),
      url: "z".repeat(200)
    })
    assert.isAtMost(line?.length ?? 0, MAX_ARGUMENTS_LINE)
    assert.notMatch(line ?? "", /[\p{Cc}\p{Cf}]/u)
    const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`m${index}`, index]))
    assert.strictEqual(describeArguments(many), "m0 0 · m1 1 · m2 2 · m3 3")
  })
})
