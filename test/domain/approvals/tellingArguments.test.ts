import { assert, describe, it } from "@effect/vitest"
import { MAX_TELLING_ARGUMENTS, tellingArguments } from "../../../src/domain/approvals/tellingArguments.ts"

describe("tellingArguments", () => {
  it("amounts, people and references come before other members", () => {
    assert.strictEqual(
      tellingArguments({
        note: "urgent",
        flags: [],
        order: 4711,
        customer: { name: "Maria Weber" },
        amount_cents: 129_000
      }),
      "amount_cents 129000 · customer.name “Maria Weber” · order 4711 · note urgent"
    )
    assert.strictEqual(
      tellingArguments({ to: ["a@x.com", "b@x.com"], body: "Hello" }),
      "to 2 elements · body Hello"
    )
  })

  it("members that are likely secrets are left out", () => {
    assert.strictEqual(
      tellingArguments({ user: "ada", password: "p", api_key: "k", headers: { Authorization: "Bearer x" } }),
      "user ada"
    )
    assert.isNull(tellingArguments({ token: "t" }))
  })

  it("arguments without a telling member have no line", () => {
    for (const value of [undefined, null, {}, [], "  ", { a: {}, b: [], c: "" }])
      assert.isNull(tellingArguments(value))
  })

  it("a line is bounded and visible, however large and hostile the arguments are", () => {
    const line = tellingArguments({
      "a\u202eb": "x".repeat(10_000),
      amount: "1\n2",
      id: "y".repeat(200),
      url: "z".repeat(200)
    })
    assert.isAtMost(line?.length ?? 0, MAX_TELLING_ARGUMENTS)
    assert.notMatch(line ?? "", /[\p{Cc}\p{Cf}]/u)
    const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`m${index}`, index]))
    assert.strictEqual(tellingArguments(many), "m0 0 · m1 1 · m2 2 · m3 3")
  })
})
