/**
 * Moves the service's time with promises, for tests without Effect: an approval that nobody decides for 30 days is escalated, and an
 * admin decides it a day later. The receiver of its webhooks fails three times first. Works the same with `node:test`.
 */
import { approves, fails, startCountersign, type TestService } from "countersign/testing"
import { afterAll, beforeAll, expect, test } from "vitest"

const DAY = 86_400

let countersign: TestService

beforeAll(async () => {
  countersign = await startCountersign()
}, 60_000)

afterAll(() => countersign.stop())

test("an approval is escalated after 30 days, and an admin decides", { timeout: 60_000 }, async () => {
  const owner = await countersign.connect({ name: "owner" })
  await owner.approvalRules.replace({
    payload: {
      rules: [
        {
          tool: "payments.*",
          effect: "require_approval",
          review_seconds: 30 * DAY,
          escalation_seconds: 7 * DAY
        }
      ]
    }
  })
  await countersign.people(
    approves({ tool: "payments.*" }, { admin: true, after: "1 day", key: { name: "Grace" } })
  )
  const hook = await countersign.receiver(fails(3))

  const agent = await countersign.connect({ preset: "runtime" })
  const { session_id } = await agent.sessions.create()
  const refund = agent.govern(session_id, {
    step_id: "refund-1",
    tool: "payments.refund",
    action_class: "write",
    arguments: { order: "4711" }
  })
  // The time stands still: the request is there before the month passes.
  const id = await countersign.awaitPending({ tool: "payments.refund" })
  await countersign.advance("30 days")
  const escalated = await owner.approvals.get(id)
  expect(escalated.stage).toBe("admin")
  expect(escalated.status).toBe("pending")

  await countersign.advance("2 days")
  const { approval, decision } = await refund
  expect(decision).toBe("allow")
  expect(approval?.decided_by?.name).toBe("Grace")
  const waited = Number(approval?.decided_at) - Number(approval?.requested_at)
  expect(waited).toBe(31 * DAY * 1000)

  // Verified by their signatures, and each accepted once, after three failures of the first.
  expect(hook.requests.filter(({ status }) => status === 500)).toHaveLength(3)
  expect(hook.events.map(({ type }) => type)).toEqual([
    "approval.requested",
    "approval.expiring",
    "approval.escalated",
    "approval.approved"
  ])
})
