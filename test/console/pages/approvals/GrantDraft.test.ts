import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { fromGrantDraft, newGrantDraft } from "../../../../src/console/pages/approvals/GrantDraft.ts"

const condition = { key: 1, pointer: "/amount", op: "at_most", value: "100" } as const

describe("fromGrantDraft", () => {
  it("grants exactly these arguments for an hour by default, with the comment as the reason", () => {
    assert.deepStrictEqual(
      fromGrantDraft(newGrantDraft, "checked"),
      Result.succeed({ scope: "arguments", lasts_seconds: 3_600, reason: "checked" })
    )
  })

  it("takes conditions only for the scope that has them, and at least one", () => {
    const draft = { ...newGrantDraft, scope: "condition", conditions: [condition], uses: "20" } as const
    assert.deepStrictEqual(
      fromGrantDraft(draft, ""),
      Result.succeed({
        scope: "condition",
        when: [{ pointer: "/amount", op: "at_most", value: 100 }],
        lasts_seconds: 3_600,
        max_uses: 20,
        reason: ""
      })
    )
    assert.deepStrictEqual(
      fromGrantDraft({ ...draft, scope: "tool", uses: "" }, ""),
      Result.succeed({ scope: "tool", lasts_seconds: 3_600, reason: "" })
    )
    assert.isTrue(Result.isFailure(fromGrantDraft({ ...draft, conditions: [] }, "")))
    assert.isTrue(
      Result.isFailure(fromGrantDraft({ ...draft, conditions: [{ ...condition, value: "a lot" }] }, ""))
    )
  })

  it("refuses a count that no grant can have, and shortens a long reason", () => {
    for (const uses of ["0", "1001", "1.5", "-1", "many"])
      assert.isTrue(Result.isFailure(fromGrantDraft({ ...newGrantDraft, uses }, "")), uses)
    const grant = Result.getOrThrow(fromGrantDraft(newGrantDraft, "x".repeat(4_000)))
    assert.strictEqual(grant.reason?.length, 1_000)
  })
})
