import { assert, describe, it } from "@effect/vitest"
import type { Ruling } from "../../../src/domain/approvals/ApprovalRule.ts"
import { compileRules } from "../../../src/domain/approvals/CompiledRules.ts"
import {
  type AskingStep,
  conditionsOfGrant,
  grantAllows,
  rulesOfGrant,
  type StandingGrant
} from "../../../src/domain/approvals/grantAllows.ts"
import { type GrantedContent, grantDigest } from "../../../src/domain/approvals/grantDigest.ts"
import { KeyId } from "../../../src/domain/Ids.ts"
import type { RuleCondition } from "../../../src/domain/approvals/RuleCondition.ts"

const compiledConditions = (when: ReadonlyArray<RuleCondition>) =>
  conditionsOfGrant(compileRules(rulesOfGrant(when)))

const key = (digit: string) => KeyId.make(`key_${digit.repeat(32)}`)
const ada = { id: key("a"), name: "Ada" }

const grant: StandingGrant = {
  scope: "tool",
  tool: "payments.refund",
  action_class: "write",
  content_digest: null,
  conditions: compiledConditions([]),
  granter: { actor: ada, makers: [], groups: ["finance"] }
}

const ruling: Ruling = {
  rule_id: null,
  effect: "require_approval",
  reason: "",
  terms: {
    review_seconds: 60,
    expiring_seconds: null,
    escalation_seconds: null,
    timeout_action: "reject",
    self_approval: false,
    quorum: [{ count: 1, group: null }],
    require_comment: "never"
  }
}

const step: AskingStep = {
  tool: "payments.refund",
  action_class: "write",
  arguments: { amount: 5 },
  contentDigest: () => "digest",
  requesters: [key("c"), key("b")],
  ruling
}

const withTerms = (terms: Partial<Ruling["terms"]>): AskingStep => ({
  ...step,
  ruling: { ...ruling, terms: { ...ruling.terms, ...terms } }
})

describe("grantAllows", () => {
  it("allows steps of its tool and action class", () => {
    assert.isTrue(grantAllows(grant, step))
    assert.isFalse(grantAllows(grant, { ...step, tool: "payments.pay" }))
    assert.isFalse(grantAllows(grant, { ...step, action_class: "read" }))
  })

  it("allows no step that a rule decides, or might reject", () => {
    assert.isFalse(grantAllows(grant, { ...step, ruling: { ...ruling, effect: "reject" } }))
    assert.isFalse(grantAllows(grant, { ...step, ruling: { ...ruling, effect: "allow" } }))
    assert.isFalse(grantAllows(grant, { ...step, ruling: { ...ruling, unjudged: true } }))
  })

  it("replaces one person of the group that is asked for, and never several", () => {
    assert.isTrue(grantAllows(grant, withTerms({ quorum: [{ count: 1, group: "finance" }] })))
    assert.isFalse(grantAllows(grant, withTerms({ quorum: [{ count: 1, group: "legal" }] })))
    assert.isFalse(grantAllows(grant, withTerms({ quorum: [{ count: 2, group: null }] })))
    assert.isFalse(
      grantAllows(
        grant,
        withTerms({
          quorum: [
            { count: 1, group: "finance" },
            { count: 1, group: null }
          ]
        })
      )
    )
  })

  it("allows what the granting key, or a key that made it, asks for only if the rule permits self-approval", () => {
    for (const requesters of [
      [ada.id, key("b")],
      [key("c"), ada.id]
    ]) {
      const own = { ...step, requesters }
      assert.isFalse(grantAllows(grant, own))
      const permits = { ...ruling, terms: { ...ruling.terms, self_approval: true } }
      assert.isTrue(grantAllows(grant, { ...own, ruling: permits }))
    }
    const made: StandingGrant = { ...grant, granter: { ...grant.granter, makers: [key("b")] } }
    assert.isFalse(grantAllows(made, step))
    assert.isFalse(grantAllows(made, { ...step, requesters: [key("b"), key("d")] }))
  })

  it("compares the digest only for the scope `arguments`", () => {
    const bound: StandingGrant = { ...grant, scope: "arguments", content_digest: "digest" }
    assert.isTrue(grantAllows(bound, step))
    assert.isFalse(grantAllows(bound, { ...step, contentDigest: () => "another" }))
    assert.isTrue(grantAllows(grant, { ...step, contentDigest: () => assert.fail("not needed") }))
  })

  it("with conditions, allows arguments for which all of them hold", () => {
    const conditional: StandingGrant = {
      ...grant,
      scope: "condition",
      conditions: compiledConditions([
        { pointer: "/amount", op: "at_most", value: 5 },
        { pointer: "/currency", op: "absent" }
      ])
    }
    assert.isTrue(grantAllows(conditional, step))
    assert.isFalse(grantAllows(conditional, { ...step, arguments: { amount: 6 } }))
    assert.isFalse(grantAllows(conditional, { ...step, arguments: { amount: "5" } }))
    assert.isFalse(grantAllows(conditional, { ...step, arguments: { amount: 5, currency: "EUR" } }))
    assert.isFalse(grantAllows(conditional, { ...step, arguments: undefined }))
  })
})

describe("grantDigest", () => {
  const content: GrantedContent = {
    org_id: "org",
    session_id: "session",
    tool: "pay",
    action_class: "write",
    arguments: { a: 1, b: "2" }
  }

  it("is that of a canonical text written by hand, as openssl computes it", () => {
    // printf '["countersign-grant-v1","org","session","pay","write",{"a":1,"b":"2"}]' | openssl dgst -sha256
    assert.strictEqual(
      grantDigest(content),
      "d33280ef7d25996f16739fbae52e97ea2fe2a5e0669733b314c337a64b6ecb00"
    )
  })

  it("is equal for equal content, in any order and notation", () => {
    assert.strictEqual(grantDigest(content), grantDigest({ ...content, arguments: { b: "2", a: 1.0 } }))
    assert.match(grantDigest(content), /^[0-9a-f]{64}$/)
  })

  it("differs for any other content", () => {
    const { arguments: _, ...without } = content
    const others: ReadonlyArray<GrantedContent> = [
      content,
      without,
      { ...content, arguments: null },
      { ...content, arguments: {} },
      { ...content, arguments: { a: "1", b: "2" } },
      { ...content, org_id: "org2" },
      { ...content, session_id: "session2" },
      { ...content, tool: "paywrite", action_class: "" },
      { ...content, action_class: "read" }
    ]
    assert.strictEqual(new Set(others.map(grantDigest)).size, others.length)
  })
})
