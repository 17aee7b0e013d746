import { assert, describe, it } from "@effect/vitest"
import { callStepId, repeatedStepId } from "../../../src/domain/approvals/callStepId.ts"

const content = { tool: "read", action_class: "read", arguments: { a: 1, b: 2 } }

describe("the ID of a call's step", () => {
  it("is the call's own up to 200 characters, and then ends with a digest", async () => {
    const longest = "x".repeat(200)
    assert.strictEqual(await callStepId(longest), longest)
    const [one, two] = await Promise.all([callStepId(`${longest}1`), callStepId(`${longest}2`)])
    assert.match(one, /^x{100}#[0-9a-f]{64}$/u)
    assert.notStrictEqual(one, two)
    // The cut does not leave half of a character.
    assert.isTrue((await callStepId(`${"x".repeat(99)}${"🙂".repeat(100)}`)).isWellFormed())
  })

  it("has the digest of the content if another step has the call's own", async () => {
    const id = await repeatedStepId("call_0", content, 1)
    assert.match(id, /^call_0#[0-9a-f]{20}$/u)
    assert.strictEqual(await repeatedStepId("call_0", { ...content, arguments: { b: 2, a: 1 } }, 1), id)
    assert.strictEqual(await repeatedStepId("call_0", content, 2), `${id}#2`)
    for (const other of [
      { ...content, tool: "write" },
      { ...content, action_class: "write" },
      { ...content, arguments: { a: 1 } },
      { tool: "read", action_class: "read" }
    ])
      assert.notStrictEqual(await repeatedStepId("call_0", other, 1), id)
    assert.isAtMost((await repeatedStepId("x".repeat(200), content, 100)).length, 200)
  })
})
