import { Effect } from "effect"
import type { Request } from "./operations.ts"
import type { SeededOrganization } from "./seedOneOfEach.ts"

const task = { name: "another", input_schema: { type: "object" }, answer_schema: { type: "object" } }

/**
 * A successful request for every operation. Sent in this order to one seeded organization: an operation that removes something comes after
 * the operations that need it. Every kind of id that a request can name occurs in one of them.
 */
export const requests: Readonly<
  Record<string, (seeded: SeededOrganization) => Request | Effect.Effect<Request>>
> = {
  "tasks.list": () => ({}),
  "tasks.get": ({ ids }) => ({ params: { id: ids.task } }),
  "tasks.create": () => ({ body: task }),
  "tasks.update": ({ ids }) => ({ params: { id: ids.task }, body: { name: "renamed" } }),
  "tasks.run": ({ ids }) => ({
    params: { id: ids.task },
    body: { input: { text: "my parcel" }, session_id: ids.session }
  }),
  "runs.list": ({ ids }) => ({ params: { id: ids.task }, query: { release_id: ids.release } }),
  "runs.get": ({ ids }) => ({ params: { id: ids.trace } }),
  "runs.import": ({ ids }) => ({
    params: { id: ids.task },
    body: { runs: [{ id: "past", input: { text: "hello" }, answer: { category: "other" }, score: 1 }] }
  }),
  "runs.remove": ({ ids }) => ({ params: { id: ids.trace_to_delete } }),
  "runs.dismiss": ({ ids }) => ({ params: { id: ids.sampled_trace } }),
  "datasets.list": ({ ids }) => ({ params: { id: ids.task } }),
  "datasets.get": ({ ids }) => ({ params: { id: ids.dataset } }),
  "datasets.listExamples": ({ ids }) => ({ params: { id: ids.dataset } }),
  "datasets.export": ({ ids }) => ({ params: { id: ids.dataset } }),
  "datasets.exportChats": ({ ids }) => ({ params: { id: ids.dataset }, query: { release_id: ids.release } }),
  "datasets.exportPreferences": ({ ids }) => ({ params: { id: ids.dataset }, query: { form: "trl" } }),
  "comparisons.list": ({ ids }) => ({ params: { id: ids.task } }),
  "comparisons.get": ({ ids }) => ({ params: { id: ids.comparison } }),
  "comparisons.cancel": ({ ids }) => ({ params: { id: ids.comparison } }),
  "comparisons.create": ({ ids }) => ({
    params: { id: ids.task },
    body: { candidate: { dataset_id: ids.dataset } }
  }),
  "releases.list": ({ ids }) => ({ params: { id: ids.task } }),
  "releases.getChanges": ({ ids }) => ({ params: { id: ids.release }, query: { since: ids.release } }),
  "releases.create": ({ ids }) => ({
    params: { id: ids.task },
    body: { comparison_id: ids.comparison }
  }),
  "canaries.get": ({ ids }) => ({ params: { id: ids.canary_task } }),
  "canaries.start": ({ ids }) => ({
    params: { id: ids.canary_task },
    body: { comparison_id: ids.canary_comparison, share: 0.2 }
  }),
  "canaries.stop": ({ ids }) => ({ params: { id: ids.canary_task } }),
  "feedback.list": ({ ids }) => ({ query: { task_id: ids.task, inference_log_id: ids.trace } }),
  "feedback.get": ({ ids }) => ({ params: { id: ids.staged } }),
  "feedback.remove": ({ ids }) => ({ params: { id: ids.feedback_to_delete } }),
  "feedback.getQuality": ({ ids }) => ({ params: { id: ids.task } }),
  "feedback.create": ({ ids }) => ({
    body: { inference_log_id: ids.trace, score: -1, correction: { category: "other" } }
  }),
  "feedback.createToken": ({ ids }) => ({ params: { id: ids.trace }, body: { max_uses: 1 } }),
  "feedback.stage": ({ ids }) => ({ params: { id: ids.feedback_to_stage } }),
  "feedback.reject": ({ ids }) => ({ params: { id: ids.feedback_to_reject }, body: { note: "no" } }),
  "feedback.confirm": ({ ids }) => ({ params: { id: ids.trace } }),
  "feedback.withdraw": ({ ids }) => ({ params: { id: ids.feedback_to_withdraw } }),
  "feedback.reviewMany": ({ ids }) => ({
    body: { feedback_ids: [ids.feedback_to_reject], verdict: "reject" }
  }),
  "feedback.unstage": ({ ids }) => ({ params: { id: ids.feedback_to_unstage } }),
  "feedback.previewSelection": ({ ids }) => ({
    params: { id: ids.task },
    body: { feedback_ids: [ids.staged] }
  }),
  "feedback.previewPromotion": ({ ids }) => ({ params: { id: ids.task } }),
  "feedback.promote": ({ admin, ids }) =>
    Effect.map(
      Effect.orDie(admin.feedback.previewPromotion({ params: { id: ids.task }, query: {} })),
      ({ base_dataset_id, feedback_revision }) => ({
        params: { id: ids.task },
        body: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
    ),
  "datasets.create": ({ ids }) => ({
    params: { id: ids.other_task },
    body: { examples: [{ input: { text: "a" }, answer: { category: "other" } }] }
  }),
  "datasets.remove": ({ ids }) => ({ params: { id: ids.spare_dataset } }),
  "tasks.remove": ({ ids }) => ({ params: { id: ids.spare_task } }),
  "deletions.list": () => ({}),
  "deletions.get": ({ ids }) => ({ params: { id: ids.deletion } }),
  "deletions.erase": () => ({ body: { metadata_key: "customer", metadata_value: "another" } }),
  "retentionSettings.get": () => ({}),
  "retentionSettings.replace": () => ({ body: { run_days: 3_000 } }),
  "sessions.create": ({ ids }) => ({ body: { task_id: ids.task } }),
  "sessions.list": () => ({}),
  "sessions.get": ({ ids }) => ({ params: { id: ids.session } }),
  "sessions.step": ({ ids }) => ({
    params: { id: ids.session },
    body: { step_id: "another", task_id: ids.task, tool: "read", action_class: "read" }
  }),
  "sessions.reportOutcome": ({ ids }) => ({
    params: { id: ids.session, step_id: "allowed" },
    body: { status: "succeeded" }
  }),
  "sessions.claim": ({ ids }) => ({
    params: { id: ids.session, step_id: "claimable" },
    body: { lease_seconds: 60 }
  }),
  "sessions.renewClaim": ({ ids }) => ({
    params: { id: ids.session, step_id: "claimed" },
    body: { claim_id: ids.claim }
  }),
  "executions.list": ({ ids }) => ({ query: { session_id: ids.session, tool: "read", state: "unknown" } }),
  "executions.get": ({ ids }) => ({ params: { claim_id: ids.unknown_claim } }),
  "executions.resolve": ({ ids }) => ({
    params: { claim_id: ids.unknown_claim },
    body: { resolution: "succeeded" }
  }),
  "sessions.stream": ({ ids }) => ({ params: { id: ids.session } }),
  "approvals.list": ({ ids }) => ({ query: { session_id: ids.session, task_id: ids.task } }),
  "approvals.get": ({ ids }) => ({ params: { id: ids.approval } }),
  "approvals.listMessages": ({ ids }) => ({ params: { id: ids.approval } }),
  "approvals.sendMessage": ({ ids }) => ({ params: { id: ids.approval }, body: { text: "Why?" } }),
  "approvals.decide": ({ ids }) => ({ params: { id: ids.approval }, body: { decision: "approve" } }),
  "approvals.decideMany": ({ ids }) => ({ body: { approval_ids: [ids.approval], decision: "approve" } }),
  "hooks.claudeCode": () => ({
    query: { defer: "true" },
    body: {
      hook_event_name: "PreToolUse",
      session_id: "coding",
      tool_name: "Bash",
      tool_input: { command: "ls" },
      tool_use_id: "toolu_1"
    }
  }),
  "grants.list": ({ ids }) => ({ query: { session_id: ids.session, tool: "pay", state: "active" } }),
  "grants.get": ({ ids }) => ({ params: { id: ids.grant } }),
  "grants.revoke": ({ ids }) => ({ params: { id: ids.grant } }),
  "sessions.close": ({ ids }) => ({ params: { id: ids.session_to_close } }),
  "approvalRules.get": () => ({}),
  "approvalRules.replace": ({ ids }) => ({
    body: { rules: [{ id: ids.rule, effect: "allow", task_id: ids.task }] }
  }),
  "approvalRules.test": ({ ids }) => ({ body: { rules: [{ effect: "reject", task_id: ids.task }] } }),
  "approvalRules.suggest": () => ({}),
  "approvalRules.getShadow": () => ({}),
  "approvalRules.listShadowDifferences": () => ({ query: { live: "allow" } }),
  "approvalRules.promoteShadow": () => ({ body: {} }),
  "approvalRules.replaceShadow": ({ ids }) => ({
    body: { rules: [{ id: ids.rule, effect: "reject", task_id: ids.task }] }
  }),
  "approvalRules.removeShadow": () => ({}),
  "reviewers.list": () => ({}),
  "reviewers.create": () => ({ body: { name: "another", provider: { kind: "examples" }, tools: ["*"] } }),
  "reviewers.get": ({ ids }) => ({ params: { task_id: ids.reviewer } }),
  "reviewers.update": ({ ids }) => ({ params: { task_id: ids.reviewer }, body: { daily_calls: 10 } }),
  "reviewers.answers": ({ ids }) => ({
    params: { task_id: ids.reviewer },
    query: { approval_id: ids.approval }
  }),
  "reviewers.backtest": ({ ids }) => ({
    params: { task_id: ids.reviewer },
    body: { min_lower_bound: 0.9, max_false_approvals: 0.05 }
  }),
  "reviewers.promote": ({ ids }) => ({ params: { task_id: ids.reviewer }, body: {} }),
  "reviewers.stop": ({ ids }) => ({ params: { task_id: ids.reviewer } }),
  // Stops a reviewer that is not stopped.
  "reviewers.markWrong": ({ ids }) => ({
    params: { task_id: ids.reviewer, answer_id: ids.reviewer_answer }
  }),
  "reviewers.restore": ({ ids }) => ({ params: { task_id: ids.reviewer } }),
  "reviewers.remove": ({ ids }) => ({ params: { task_id: ids.spare_reviewer } }),
  "feedbackSettings.get": () => ({}),
  "feedbackSettings.replace": () => ({ body: { allowed_origins: ["https://app.example.com"] } }),
  "redactionSettings.get": () => ({}),
  "redactionSettings.preview": () => ({ body: { value: "EMP-123456" } }),
  "redactionSettings.replace": () => ({
    body: { patterns: [{ name: "Employee", pattern: "EMP-[0-9]{6}" }], personal_data: ["iban"] }
  }),
  "notificationEndpoints.list": () => ({}),
  "notificationEndpoints.create": () => ({ body: { url: "http://127.0.0.1:9/another" } }),
  "notificationEndpoints.update": ({ ids }) => ({
    params: { id: ids.endpoint },
    body: { events: ["approval.expired"] }
  }),
  "notificationEndpoints.listDeliveries": ({ ids }) => ({ params: { id: ids.endpoint } }),
  "notificationEndpoints.getDelivery": ({ ids }) => ({
    params: { id: ids.endpoint, delivery_id: ids.delivery }
  }),
  "notificationEndpoints.replayDelivery": ({ ids }) => ({
    params: { id: ids.endpoint, delivery_id: ids.delivery }
  }),
  "notificationEndpoints.replayDeliveries": ({ ids }) => ({
    params: { id: ids.endpoint },
    body: { since: "2026-01-01T00:00:00Z" }
  }),
  "notificationEndpoints.test": ({ ids }) => ({ params: { id: ids.endpoint } }),
  "notificationEndpoints.verify": ({ ids }) => ({ params: { id: ids.endpoint } }),
  "notificationEndpoints.rotateSecret": ({ ids }) => ({ params: { id: ids.endpoint } }),
  "notificationEndpoints.remove": ({ ids }) => ({ params: { id: ids.endpoint } }),
  "telemetryDestinations.list": () => ({}),
  "telemetryDestinations.listDeliveries": ({ ids }) => ({ params: { id: ids.destination } }),
  "telemetryDestinations.test": ({ ids }) => ({ params: { id: ids.destination } }),
  "telemetryDestinations.replayDelivery": ({ ids }) => ({
    params: { id: ids.destination, delivery_id: ids.batch }
  }),
  "telemetryDestinations.remove": ({ ids }) => ({ params: { id: ids.destination } }),
  "telemetryDestinations.create": () => ({ body: { url: "http://127.0.0.1:9/v1/traces" } }),
  "apiKeys.list": () => ({}),
  "apiKeys.get": ({ ids }) => ({ params: { id: ids.spare_key } }),
  "apiKeys.create": () => ({ body: { name: "another", preset: "runtime" } }),
  "apiKeys.update": ({ ids }) => ({ params: { id: ids.spare_key }, body: { name: "renamed" } }),
  "apiKeys.verifyEmail": ({ ids }) => ({ params: { id: ids.spare_key } }),
  "apiKeys.revoke": ({ ids }) => ({ params: { id: ids.spare_key } }),
  "invitations.list": () => ({}),
  "invitations.create": () => ({ body: { name: "guest", preset: "reviewer", email: "guest@example.org" } }),
  "invitations.revoke": ({ ids }) => ({ params: { id: ids.invitation } }),
  "events.list": () => ({ query: { type: "approval.requested" } }),
  "auditLog.list": ({ ids }) => ({ query: { target_id: ids.task, actor_id: ids.spare_key } }),
  "auditLog.export": () => ({}),
  "auditLog.getCheckpoint": () => ({})
}

/** The request for an operation in the current state of the organization. */
export const requestOf = (name: string, seeded: SeededOrganization): Effect.Effect<Request> => {
  const request = requests[name]?.(seeded)
  if (request === undefined)
    return Effect.die(new Error(`test/support/seedOneOfEach has no request for ${name}`))
  return Effect.isEffect(request) ? request : Effect.succeed(request)
}
