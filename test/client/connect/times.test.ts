import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { connect, type CountersignClient } from "../../../src/client/index.ts"
import { type ScriptedReply, startScriptedServer } from "../../support/scripted.ts"
import { pendingApproval } from "../../support/approvals.ts"

const at = "2026-11-21T02:33:05.123Z"
const digits = "0".repeat(32)
const actor = { id: `key_${digits}`, name: "Ada" }
const apiKey = {
  id: `key_${digits}`,
  name: "agent",
  hint: "csk_0",
  preset: "runtime",
  scopes: ["tasks.read"],
  email: null,
  email_verified_at: null,
  email_awaits_verification: false,
  created_at: at,
  created_by: actor,
  expires_at: at,
  revoked_at: null,
  revocation_reason: null,
  allowed_networks: null,
  groups: [],
  last_used_at: null
}
const created = { status: 201, body: { key: apiKey, secret: "csk_secret" } }
const approval = {
  ...pendingApproval,
  approval_id: `apr_${digits}`,
  session_id: `ses_${digits}`,
  step_id: "refund-1",
  arguments: { at },
  status: "approved",
  requested_at: at,
  requested_by: actor,
  review_deadline_at: at,
  expires_at: at,
  outcome: "allow",
  decision_source: "human",
  decided_at: at,
  decided_by: actor,
  rule_id: null,
  reason: "A rule requires approval by a person",
  proposal: { arguments: { at }, expires_at: at, used_by: null }
}

const withServer = (
  answers: ReadonlyArray<ScriptedReply>,
  use: (
    client: CountersignClient,
    seen: Effect.Success<ReturnType<typeof startScriptedServer>>["seen"]
  ) => Promise<unknown>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { seen, url } = yield* startScriptedServer(answers)
      const client = connect({ url, key: "csk_secret" })
      yield* Effect.promise(() => use(client, seen).finally(client.close))
    })
  )

const queryOf = (url: string | undefined) =>
  Object.fromEntries(new URL(url ?? "", "http://service").searchParams)

describe("times in the promise client", () => {
  it.live("are accepted as Date or string, in bodies and queries", () =>
    withServer(
      [
        created,
        created,
        { status: 200, body: { feedback: [], next_cursor: null } },
        { status: 202, body: { queued: 0, skipped: 0 } }
      ],
      async (client, seen) => {
        await client.apiKeys.create({ payload: { name: "agent", expires_at: new Date(at) } })
        await client.apiKeys.create({ payload: { name: at, expires_at: "2026-11-21T03:33:05.123+01:00" } })
        await client.feedback.list({ query: { created_after: new Date(at), created_before: at } })
        const params = { id: `nep_${digits}` }
        await client.notificationEndpoints.replayDeliveries({ params, payload: { since: new Date(at) } })
        assert.deepStrictEqual(JSON.parse(seen[0]?.body ?? ""), { name: "agent", expires_at: at })
        assert.deepStrictEqual(JSON.parse(seen[1]?.body ?? ""), { name: at, expires_at: at })
        assert.deepStrictEqual(queryOf(seen[2]?.url), { created_after: at, created_before: at })
        assert.deepStrictEqual(JSON.parse(seen[3]?.body ?? ""), { since: at })
      }
    )
  )

  it.live("are returned as Date or null, while the caller's own JSON keeps its strings", () =>
    withServer([created, { status: 200, body: approval }], async (client) => {
      const { key } = await client.apiKeys.create({ payload: { name: "agent" } })
      assert.deepStrictEqual([key.created_at, key.revoked_at], [new Date(at), null])
      assert.isTrue(key.expires_at !== null && key.expires_at < new Date())
      const read = await client.approvals.get({ params: { id: approval.approval_id } })
      assert.deepStrictEqual([read.review_deadline_at, read.decided_at], [new Date(at), new Date(at)])
      assert.deepStrictEqual(read.arguments, { at })
      assert.deepStrictEqual(read.proposal, { arguments: { at }, expires_at: new Date(at), used_by: null })
    })
  )

  it.live("are Date in a pending step and in the approval of a problem", () => {
    const step = {
      step_id: "refund-1",
      decision: "allow",
      approval_id: null,
      reason: "A rule allows this step",
      decided_by: null,
      comment: null,
      rule_id: null,
      decision_source: "rule",
      grant_id: null,
      expires_at: at,
      arguments_digest: digits + digits,
      changes_requested: false,
      proposal: null
    }
    const problem = {
      type: "urn:problem-type:countersign:APPROVAL_ALREADY_DECIDED",
      title: "Approval already decided",
      status: 409,
      code: "APPROVAL_ALREADY_DECIDED",
      approval
    }
    return withServer(
      [
        { status: 200, body: step },
        { status: 409, body: problem }
      ],
      async (client) => {
        const asked = { step_id: "refund-1", tool: "payments.refund", action_class: "write" }
        const governed = await client.govern(approval.session_id, asked)
        assert.deepStrictEqual(governed.expires_at, new Date(at))
        const error: unknown = await client.approvals
          .decide({ params: { id: approval.approval_id }, payload: { decision: "approve" } })
          .catch((reason: unknown) => reason)
        if (!(error instanceof Error && "approval" in error)) return assert.fail(String(error))
        assert.deepInclude(error.approval, { decided_at: new Date(at) })
      }
    )
  })

  it.live("are rejected before sending if invalid", () =>
    withServer([created], async (client, seen) => {
      for (const expires_at of ["tomorrow", "2026-02-30T00:00:00Z", new Date(Number.NaN)]) {
        const error: unknown = await client.apiKeys
          .create({ payload: { name: "agent", expires_at } })
          .catch((reason: unknown) => reason)
        assert.include(String(error), "expires_at")
      }
      assert.strictEqual(seen.length, 0)
    })
  )
})
