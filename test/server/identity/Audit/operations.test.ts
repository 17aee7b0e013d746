import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { AuditAction } from "../../../../src/domain/identity/AuditEntry.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { send, service } from "../../../support/service.ts"
import { operations, targetOf } from "../../../support/seedOneOfEach/operations.ts"
import { requestOf, requests } from "../../../support/seedOneOfEach/requests.ts"
import {
  type SeededOrganization,
  seedOneOfEach,
  seedEnvironment
} from "../../../support/seedOneOfEach/seedOneOfEach.ts"

/** The audit action of each operation that changes something or exports a dataset, and the seeded resource it is called on. */
const recorded: Readonly<Record<string, readonly [AuditAction, keyof SeededOrganization["ids"] | "new"]>> = {
  "apiKeys.create": ["key.created", "new"],
  "apiKeys.update": ["key.updated", "spare_key"],
  "apiKeys.revoke": ["key.revoked", "spare_key"],
  "invitations.create": ["invitation.created", "new"],
  "invitations.revoke": ["invitation.revoked", "invitation"],
  "tasks.create": ["task.created", "new"],
  "tasks.update": ["task.updated", "task"],
  "runs.import": ["runs.imported", "task"],
  "tasks.remove": ["task.deleted", "spare_task"],
  "runs.remove": ["run.deleted", "trace_to_delete"],
  "runs.dismiss": ["run.review_dismissed", "sampled_trace"],
  "datasets.create": ["dataset.created", "new"],
  "datasets.remove": ["dataset.deleted", "spare_dataset"],
  "datasets.export": ["dataset.exported", "dataset"],
  "datasets.exportChats": ["dataset.exported", "dataset"],
  "datasets.exportPreferences": ["dataset.exported", "dataset"],
  "comparisons.create": ["comparison.created", "new"],
  "releases.create": ["release.created", "new"],
  "canaries.start": ["canary.changed", "canary"],
  "canaries.stop": ["canary.stopped", "canary"],
  "feedback.stage": ["feedback.staged", "feedback_to_stage"],
  "feedback.reject": ["feedback.rejected", "feedback_to_reject"],
  "feedback.remove": ["feedback.deleted", "feedback_to_delete"],
  "feedback.unstage": ["feedback.unstaged", "feedback_to_unstage"],
  "feedback.confirm": ["feedback.staged", "new"],
  "feedback.withdraw": ["feedback.withdrawn", "feedback_to_withdraw"],
  "feedback.promote": ["feedback.promoted", "new"],
  "sessions.close": ["session.closed", "session_to_close"],
  "executions.resolve": ["execution.resolved", "unknown_claim"],
  "approvals.decide": ["approval.approved", "approval"],
  "grants.revoke": ["grant.revoked", "grant"],
  "approvalRules.replace": ["rules.replaced", "new"],
  "approvalRules.replaceShadow": ["rules.shadow_replaced", "new"],
  "approvalRules.removeShadow": ["rules.shadow_removed", "new"],
  "approvalRules.promoteShadow": ["rules.replaced", "new"],
  "reviewers.create": ["reviewer.created", "new"],
  "reviewers.update": ["reviewer.updated", "reviewer"],
  "reviewers.stop": ["reviewer.stopped", "reviewer"],
  "reviewers.markWrong": ["reviewer.decision_marked_wrong", "reviewer_answer"],
  "reviewers.restore": ["reviewer.restored", "reviewer"],
  "reviewers.promote": ["dataset.created", "new"],
  "reviewers.remove": ["task.deleted", "spare_reviewer"],
  "feedbackSettings.replace": ["feedback_settings.replaced", "new"],
  "redactionSettings.replace": ["redaction_settings.replaced", "new"],
  "retentionSettings.replace": ["retention_settings.replaced", "new"],
  "deletions.erase": ["erasure.requested", "new"],
  "notificationEndpoints.create": ["endpoint.created", "new"],
  "notificationEndpoints.update": ["endpoint.updated", "endpoint"],
  "notificationEndpoints.remove": ["endpoint.removed", "endpoint"],
  "notificationEndpoints.rotateSecret": ["endpoint.secret_rotated", "endpoint"],
  "notificationEndpoints.test": ["endpoint.tested", "endpoint"],
  "notificationEndpoints.verify": ["endpoint.verification_failed", "endpoint"],
  "notificationEndpoints.replayDelivery": ["delivery.replayed", "delivery"],
  "notificationEndpoints.replayDeliveries": ["endpoint.replayed", "endpoint"],
  "telemetryDestinations.create": ["destination.created", "new"],
  "telemetryDestinations.test": ["destination.tested", "destination"],
  "telemetryDestinations.remove": ["destination.removed", "destination"],
  "telemetryDestinations.replayDelivery": ["delivery.replayed", "batch"]
}

/** Operations that change something without an entry, and why they need none. */
const unrecorded: Readonly<Record<string, string>> = {
  "apiKeys.verifyEmail": "without a mail server no link is requested",
  "tasks.run": "a run is a log record itself, with its key; thousands a second would bury other entries",
  "feedback.create": "the feedback records its author; it has no effect before it is staged",
  "feedback.createToken": "nothing is stored before the token is used, and the feedback records its key",
  "feedback.previewSelection": "a preview changes nothing",
  "feedback.reviewMany":
    "the seeded correction is rejected already; `feedback.reject` records it, and `reviewMany.test.ts` tests the entries",
  "comparisons.cancel": "the seeded comparison has ended, so nothing changes",
  "approvals.decideMany":
    "the seeded approval is decided already, in the same way; `approvals.decide` records it",
  "approvals.sendMessage": "the conversation names the key of each message; a message decides nothing",
  "approvalRules.test": "a test changes nothing",
  "reviewers.backtest": "a backtest changes nothing",
  "hooks.claudeCode": "the step and its outcome are events of their session",
  "redactionSettings.preview": "a preview changes nothing",
  "sessions.create": "the session records its creator",
  "sessions.step": "the step is an event of its session",
  "sessions.reportOutcome": "the outcome is an event of its session",
  "sessions.claim": "the claim is an event of its session",
  "sessions.renewClaim": "a renewal only moves the end of the lease"
}

/** Whether an operation succeeded. A test that the seeded collector rejects counts, and a challenge without an answer: they were made. The seeded service has no mail server. */
const fails: Readonly<Record<string, number>> = {
  "telemetryDestinations.test": 502,
  "notificationEndpoints.verify": 502,
  "apiKeys.verifyEmail": 409
}

layer(service({ environment: seedEnvironment }), { excludeTestServices: true })(
  "Audit › operations",
  (it) => {
    it.effect("every operation that changes something leaves an entry or is listed with a reason", () =>
      Effect.gen(function* () {
        const changing = operations
          .filter(({ method, name }) => method !== "GET" || name.startsWith("datasets.export"))
          .map(({ name }) => name)
        assert.sameMembers([...Object.keys(recorded), ...Object.keys(unrecorded)], changing)
        assert.sameMembers(
          Object.keys(requests),
          operations.map(({ name }) => name)
        )

        const here = yield* seedOneOfEach("audited")
        const newest = Effect.map(here.admin.auditLog.list({ query: { limit: 2 } }), ({ entries }) => entries)
        for (const name of Object.keys(requests)) {
          const operation = operations.find((one) => one.name === name) ?? assert.fail(name)
          if (name === "sessions.stream") continue
          const request = yield* requestOf(name, here)
          const [before] = yield* newest
          const answer = yield* send(targetOf(operation, request), {
            method: operation.method,
            key: here.key,
            ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) })
          })
          if (name in fails) assert.strictEqual(answer.status, fails[name], name)
          else assert.isBelow(answer.status, 300, `${name}: ${JSON.stringify(answer.body)}`)
          const [entry, previous] = yield* newest
          const expected = recorded[name]
          if (expected === undefined) {
            assert.strictEqual(entry?.id, before?.id, `${name} left an entry`)
            continue
          }
          const [action, target] = expected
          assert.strictEqual(previous?.id, before?.id, `${name} left one entry`)
          assert.strictEqual(entry?.action, action, name)
          assert.strictEqual(entry?.actor?.name, "Ada", name)
          assert.strictEqual(entry?.request_id, answer.headers.get("x-request-id"), name)
          if (target !== "new") assert.strictEqual(entry?.target_id, here.ids[target], name)
        }
      })
    )

    it.effect("signing in to the console and signing out leave one entry each", () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const key = yield* countersign.key({ name: "Ada" }, "signing in")
        const own = { origin: countersign.url.replace("http:", "https:"), "sec-fetch-site": "same-origin" }
        const signIn = (text: string) =>
          send("/console/session", { method: "POST", headers: own, body: JSON.stringify({ key: text }) })
        const answer = yield* signIn(Redacted.value(key))
        const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? ""
        yield* signIn("csk_nonsense")
        for (let time = 0; time < 2; time++) {
          yield* send("/console/session", { method: "DELETE", headers: { ...own, cookie } })
        }
        const { auditLog } = yield* countersign.clientWith(key)
        const { entries } = yield* auditLog.list({ query: {} })
        assert.deepStrictEqual(
          entries.map(({ action }) => action),
          ["console.signed_out", "console.signed_in", "key.created"]
        )
        const [out, signedIn, made] = entries
        assert.deepStrictEqual(out?.actor, { id: made?.target_id, name: "Ada" })
        assert.deepStrictEqual(signedIn?.actor, out?.actor)
        assert.strictEqual(signedIn?.target_id, made?.target_id)
        assert.strictEqual(signedIn?.request_id, answer.headers.get("x-request-id"))
      })
    )
  }
)
