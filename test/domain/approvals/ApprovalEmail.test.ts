import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import fc from "fast-check"
import {
  recipientScope,
  isApprovalEmailType,
  type ApprovalEmailInput,
  ApprovalEmailType,
  renderApprovalEmail
} from "../../../src/domain/approvals/ApprovalEmail.ts"
import { approvalEventTypes } from "../../../src/domain/approvals/ApprovalEvent.ts"
import { ApprovalId, SessionId, StepId, TaskId } from "../../../src/domain/Ids.ts"

const digits = "0".repeat(32)

const requested: ApprovalEmailInput = {
  type: "approval.requested",
  approval: {
    approval_id: ApprovalId.make(`apr_${digits}`),
    session_id: SessionId.make(`ses_${digits}`),
    step_id: StepId.make("refund-1"),
    task_id: null,
    tool: "payments.refund",
    action_class: "write",
    status: "pending",
    stage: "reviewer",
    requested_at: DateTime.makeUnsafe("2026-11-21T07:45:53.474Z"),
    expires_at: DateTime.makeUnsafe("2026-11-21T08:45:53.474Z"),
    escalation_deadline_at: null,
    timeout_action: "reject",
    quorum: [{ count: 1, group: null }],
    votes: [],
    outcome: null,
    decision_source: null
  },
  organization: "acme",
  key: "Ada",
  publicUrl: "https://countersign.example.com"
}

const of = (
  type: ApprovalEmailType,
  approval: Partial<ApprovalEmailInput["approval"]> = {}
): ApprovalEmailInput => ({
  ...requested,
  type,
  approval: { ...requested.approval, ...approval }
})

const expired = { outcome: "reject", decision_source: "timeout" } as const

describe("renderApprovalEmail", () => {
  it("the email shows the step, the deadline, the timeout action and the link to decide", () => {
    const { subject, text } = renderApprovalEmail(requested)
    assert.strictEqual(subject, "Approval requested: acme")
    assert.strictEqual(
      text,
      `An agent is waiting for approval to use a tool.

  Tool          payments.refund
  Action class  write
  Requested     2026-11-21 07:45 UTC
  Decide by     2026-11-21 08:45 UTC
  On timeout    the step is rejected
  Session       ses_${digits}
  Step          refund-1
  Approval      apr_${digits}

Review and decide:
https://countersign.example.com/console/approvals/apr_${digits}

-- 
You receive this because API key "Ada" of acme lists your address as an approver. This mailbox is not monitored.
`
    )
  })

  it("the text and the HTML show the same facts", () => {
    for (const type of ApprovalEmailType.literals) {
      const one = of(type, { task_id: TaskId.make(`tsk_${digits}`) })
      const { html, text } = renderApprovalEmail(one)
      for (const fact of [
        one.approval.tool,
        one.approval.approval_id,
        one.approval.session_id,
        one.approval.step_id,
        `tsk_${digits}`,
        "2026-11-21 07:45 UTC",
        `https://countersign.example.com/console/approvals/apr_${digits}`
      ]) {
        assert.include(text, fact)
        assert.include(html, fact)
      }
    }
  })

  it("the email names the timeout action of the open window, or the escalation", () => {
    const deadline = DateTime.makeUnsafe("2026-11-21T09:45:53.474Z")
    assert.include(
      renderApprovalEmail(of("approval.requested", { timeout_action: "allow" })).text,
      "the step is allowed"
    )
    const escalates = { escalation_deadline_at: deadline, timeout_action: "allow" } as const
    assert.include(renderApprovalEmail(of("approval.expiring", escalates)).text, "escalated to admins")
    assert.include(
      renderApprovalEmail(of("approval.escalated", { ...escalates, stage: "admin" })).text,
      "the step is allowed"
    )
  })

  it("the subject has no text of the agent, so that it cannot write to strangers in the operator's name", () => {
    const tool = "Your account is locked, sign in at evil.example"
    for (const type of [
      "approval.requested",
      "approval.expiring",
      "approval.escalated",
      "approval.expired"
    ] as const) {
      const { subject, text } = renderApprovalEmail(
        of(type, { ...expired, tool, action_class: tool, step_id: StepId.make("evil") })
      )
      assert.notMatch(subject, /account|evil/)
      assert.include(subject, "acme")
      assert.include(text, tool)
    }
  })

  it("the email about an expired approval names the outcome", () => {
    assert.strictEqual(
      renderApprovalEmail(of("approval.expired", expired)).subject,
      "Approval expired, step rejected: acme"
    )
    const allowed = renderApprovalEmail(of("approval.expired", { ...expired, outcome: "allow" }))
    assert.strictEqual(allowed.subject, "Approval expired, step allowed: acme")
    assert.notInclude(allowed.text, "Decide by")
    const closed = renderApprovalEmail(
      of("approval.expired", { ...expired, decision_source: "session_closed" })
    )
    assert.include(closed.text, "The session was closed")
  })

  it("hostile text of an agent or a person stays on one line and out of the markup", () => {
    const hostile = fc.oneof(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc.constantFrom(
        "x\r\nBcc: mallory@example.net\r\n\r\n<script>",
        '"><img src=x onerror=alert(1)>',
        "</title><script>alert(1)</script>",
        "safe\u202egnp.exe",
        "a\u2028b\u0000c\u0085d"
      )
    )
    const plainTags = renderApprovalEmail(requested).html.match(/<[^>]*>/g)
    fc.assert(
      fc.property(hostile, hostile, hostile, (one, two, three) => {
        const rendered = renderApprovalEmail({
          ...of("approval.requested", {
            tool: one,
            action_class: two,
            step_id: StepId.make(three, { disableChecks: true })
          }),
          organization: two,
          key: three
        })
        assert.notMatch(rendered.subject, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
        assert.isTrue(rendered.subject.isWellFormed())
        assert.isAtMost([...rendered.subject].length, 150)
        assert.lengthOf(rendered.text.split("\n"), renderApprovalEmail(requested).text.split("\n").length)
        assert.deepStrictEqual(rendered.html.match(/<[^>]*>/g), plainTags)
      })
    )
    assert.include(
      renderApprovalEmail(of("approval.requested", { tool: "<b>&'\"" })).html,
      "&lt;b&gt;&amp;&#39;&quot;"
    )
  })
})

describe("recipientScope", () => {
  it("emails go to keys that can decide, and to admins alone during the escalation window", () => {
    assert.strictEqual(recipientScope("approval.requested", "reviewer"), "approvals.decide")
    assert.strictEqual(recipientScope("approval.expiring", "reviewer"), "approvals.decide")
    assert.strictEqual(recipientScope("approval.escalated", "admin"), "approvals.admin")
    assert.strictEqual(recipientScope("approval.expiring", "admin"), "approvals.admin")
    assert.strictEqual(recipientScope("approval.expired", "admin"), "approvals.decide")
  })
})

describe("isApprovalEmailType", () => {
  it("decisions are not sent by email", () => {
    assert.deepStrictEqual(
      approvalEventTypes.filter((type) => !isApprovalEmailType(type)),
      ["approval.vote_recorded", "approval.approved", "approval.rejected"]
    )
  })
})
