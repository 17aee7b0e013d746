import { assert, describe, it } from "@effect/vitest"
import { Result, type Schema } from "effect"
import * as fc from "fast-check"
import { hash } from "node:crypto"
import {
  proposalDigest,
  type StepContent,
  stepDigest,
  stepDigestInSlices
} from "../../../src/domain/approvals/StepDigest.ts"
import { canonicalJson } from "../../../src/domain/json/CanonicalJson.ts"

const step: StepContent = {
  org_id: "org_1",
  session_id: "ses_1",
  step_id: "step 1",
  tool: "refund",
  action_class: "payment"
}

describe("proposalDigest", () => {
  it("the digest equals that of a canonical text written by hand, as openssl computes it", () => {
    // printf '["countersign-proposal-v1","org_1","ses_1","refund","payment",{"a":1}]' | openssl dgst -sha256
    assert.strictEqual(
      proposalDigest({ ...step, arguments: { a: 1 } }),
      "bcb429d9a1ce8c34866dca75edfa3cefd46c075832c2ff23f562feaced13412b"
    )
  })

  it("the digest is that of every step with the content, whatever its id, and of no other", () => {
    const content = { ...step, arguments: { a: 1, b: "x" } }
    const digest = proposalDigest(content)
    assert.strictEqual(proposalDigest({ ...step, arguments: { b: "x", a: 1 } }), digest)
    for (const other of [
      { ...content, org_id: "org_2" },
      { ...content, session_id: "ses_2" },
      { ...content, tool: "pay" },
      { ...content, action_class: "read" },
      { ...content, arguments: { a: 1, b: "y" } },
      { ...content, arguments: {} },
      step
    ])
      assert.notStrictEqual(proposalDigest(other), digest)
    assert.notStrictEqual(stepDigest(content), digest)
  })
})

describe("stepDigest", () => {
  it("large arguments are digested in many slices, with the digest that openssl computes of the whole text", () => {
    // node -p '"["+["countersign-step-v1","org_1","ses_1","step 1","refund","payment"].map(x=>JSON.stringify(x))+",["+Array.from({length:20000},(_,i)=>"{\"a\":"+i+"}")+"]]"' |
    //   tr -d "\n" | openssl dgst -sha256
    const large = { ...step, arguments: Array.from({ length: 20_000 }, (_, a) => ({ a })) }
    const slices = stepDigestInSlices(large)
    let pauses = 0
    let slice = slices.next()
    for (; slice.done !== true; slice = slices.next()) pauses++
    assert.isAtLeast(pauses, 10)
    assert.strictEqual(slice.value, "cc8369d43a3d34cc45a007854368d20e60a795ba39243de1ff8993f2f2552c4a")
    assert.strictEqual(stepDigest(large), slice.value)
  })

  it("deep and wide arguments have the digest of their undivided canonical text", () => {
    let nested: Schema.Json = Object.fromEntries(
      Array.from({ length: 19_900 }, (_, index) => [`k${index}`, index])
    )
    for (let level = 0; level < 60; level++) nested = { x: 1, deep: nested }
    const text = `["countersign-step-v1","org_1","ses_1","step 1","refund","payment",${Result.getOrThrow(canonicalJson(nested))}]`
    assert.strictEqual(stepDigest({ ...step, arguments: nested }), hash("sha256", text))
  })

  it("the digest equals that of a canonical text written by hand, as openssl computes it", () => {
    // printf '["countersign-step-v1","org_1","ses_1","step 1","refund","payment",...]' | openssl dgst -sha256
    const given = JSON.parse(String.raw`{"z":[null,true,0.10],"b":"\u2602\u000F\u0022\\","a":1e21}`)
    assert.strictEqual(
      stepDigest({ ...step, arguments: given }),
      "a27a5259cb0170d168af92185687b4b2a7266fb36a5e119e7360c849724a0fe1"
    )
    assert.strictEqual(stepDigest(step), "82b60b93c82adc46f6e96a989772761cd488ed4bfc87dfa734cf214fd0df779c")
    assert.strictEqual(
      stepDigest({ ...step, arguments: null }),
      "dc6ce28666dcbda3da8b3a9a94dc2a3a162432eb2f4bedc82a69d085e8c1cf14"
    )
    assert.strictEqual(
      stepDigest({ ...step, arguments: {} }),
      "af6cc92f1dae38bfaf143b7ba8ca568570aca465dbd615631c992b88c29a000e"
    )
  })

  it("steps that differ in any part have different digests", () => {
    const part = fc.string({ unit: fc.constantFrom("a", '"', ",", "[", "\\", "\n"), maxLength: 3 })
    const content = fc.record(
      {
        org_id: part,
        session_id: part,
        step_id: part,
        tool: part,
        action_class: part,
        arguments: fc.constantFrom(null, {}, [], "", 0, false, { a: 1 }, { a: "1" }, { a: null })
      },
      { requiredKeys: ["org_id", "session_id", "step_id", "tool", "action_class"] }
    )
    fc.assert(
      fc.property(content, content, (left, right) => {
        const same = JSON.stringify(left) === JSON.stringify(right)
        assert.strictEqual(stepDigest(left) === stepDigest(right), same)
      }),
      { numRuns: 3_000 }
    )
  })

  it("the order of keys does not change the digest", () => {
    assert.strictEqual(
      stepDigest({ ...step, arguments: { a: 1, b: { c: 2, d: 3 } } }),
      stepDigest({ ...step, arguments: { b: { d: 3, c: 2 }, a: 1 } })
    )
  })

  it("a step without a canonical form throws", () => {
    assert.throws(() => stepDigest({ ...step, tool: "\ud800" }), /no canonical JSON form/)
  })
})
