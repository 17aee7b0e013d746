/** Mutants of approvals: their states, rules, deadlines and decisions. */
import type { ListedMutant } from "../list.ts"

const state = "domain/approvals/ApprovalState.ts"
const stateTests = ["domain/approvals/ApprovalState.test.ts"]
const rule = "domain/approvals/ApprovalRule.ts"
const ruleTests = ["domain/approvals/ApprovalRule.test.ts"]
const digest = "domain/approvals/StepDigest.ts"
const digestTests = ["domain/approvals/StepDigest.test.ts"]
const decisionTests = ["domain/approvals/StepDecision.test.ts"]
const decisions = ["server/approvals/Approvals.test.ts"]
const deadlines = ["server/approvals/Deadlines.test.ts", "server/approvals/Approvals.test.ts"]
const writer = ["server/approvals/SessionWriter.test.ts"]
const transitionRows = "server/approvals/Approvals/transitionRows.ts"
const rules = ["server/approvals/Rules.test.ts"]

export const approvals: ReadonlyArray<ListedMutant> = [
  {
    file: state,
    from: 'if (state.stage === "admin" && !input.admin) return Result.fail("AdminRequired")',
    to: "",
    tests: stateTests
  },
  {
    file: state,
    from: 'if (!state.self_approval && isOwnRequest(state.requested_by, input)) return Result.fail("SelfApproval")',
    to: "",
    tests: stateTests
  },
  {
    file: state,
    from: "requested_by === actor.id || makers.includes(requested_by)",
    to: "requested_by === actor.id",
    tests: stateTests
  },
  {
    file: state,
    from: "DateTime.isGreaterThanOrEqualTo(now, state.expires_at)",
    to: "DateTime.isGreaterThan(now, state.expires_at)",
    tests: stateTests
  },
  {
    file: state,
    from: "DateTime.isLessThan(now, adminDeadline)",
    to: "DateTime.isLessThanOrEqualTo(now, adminDeadline)",
    tests: stateTests
  },
  {
    file: state,
    from: "state.status === verdict && state.decided_by?.id === input.actor.id",
    to: "state.status === verdict",
    tests: stateTests
  },
  {
    file: state,
    from: 'close(state, now, "expired", "reject", "session_closed")',
    to: 'close(state, now, "expired", state.timeout_action, "session_closed")',
    tests: stateTests
  },
  {
    file: state,
    from: "const last = adminDeadline === null ? state : { ...state, expires_at: adminDeadline }",
    to: "const last = state",
    tests: stateTests
  },
  {
    file: state,
    from: 'transition?.event === "approval.expiring" ? undefined : transition',
    to: "transition",
    tests: stateTests
  },
  { file: digest, from: "step.session_id,", to: "", tests: digestTests },
  {
    file: digest,
    from: "if (step.arguments !== undefined) parts.push(step.arguments)",
    to: "parts.push(step.arguments ?? null)",
    tests: digestTests
  },
  {
    file: "domain/approvals/StepDecision.ts",
    from: "saved.arguments_digest === digest(saved) ? [] :",
    to: "true ? [] :",
    tests: decisionTests
  },
  {
    file: "domain/approvals/StepDecision.ts",
    from: 'if (ruling.effect === "reject") {',
    to: 'if (ruling.effect === "reject" && approval === null) {',
    tests: decisionTests
  },
  {
    file: rule,
    from: "rules.find((candidate) => matches(candidate, step))",
    to: "rules.findLast((candidate) => matches(candidate, step))",
    tests: ruleTests
  },
  {
    file: rule,
    from: 'rule_id: null, effect: "require_approval",',
    to: 'rule_id: null, effect: "allow",',
    tests: ruleTests
  },
  {
    file: rule,
    from: "(rule.task_id === null || rule.task_id === step.task_id)",
    to: "true",
    tests: ruleTests
  },
  { file: rule, from: "text.length < head.length + tail.length ||", to: "", tests: ruleTests },
  { file: rule, from: "|| found + part.length > end", to: "", tests: ruleTests },
  {
    file: "server/approvals/approvalRows.ts",
    from: "FOR NO KEY UPDATE OF agent_sessions, approvals",
    to: "",
    tests: writer
  },
  {
    file: "server/approvals/approvalRows.ts",
    from: "WHERE org_id = ${org_id} AND approvals.approval_id = ${id}",
    to: "WHERE approvals.approval_id = ${id}",
    tests: writer
  },
  {
    file: "server/approvals/approvalRows.ts",
    from: "FROM approvals WHERE org_id = ${org_id} AND approval_id = ${id}",
    to: "FROM approvals WHERE approval_id = ${id}",
    tests: decisions
  },
  {
    file: transitionRows,
    from: "FOR NO KEY UPDATE OF agent_sessions, approvals SKIP LOCKED",
    to: "FOR NO KEY UPDATE OF agent_sessions, approvals",
    tests: deadlines
  },
  {
    file: transitionRows,
    from: "(approvals.next_due_at, approvals.approval_id) > (",
    to: "(approvals.next_due_at, approvals.approval_id) >= (",
    tests: deadlines
  },
  {
    file: "server/approvals/Deadlines.ts",
    from: "yield* sql`SET LOCAL lock_timeout = 0`",
    to: "",
    tests: deadlines
  },
  {
    file: "server/approvals/Deadlines.ts",
    from: "Duration.isZero(next_due_in) ? lockedRetry :",
    to: "",
    tests: deadlines
  },
  {
    file: "server/approvals/Rules.ts",
    from: "sql`AND revision = ${input.revision}`",
    to: 'sql.literal("")',
    tests: rules
  },
  {
    file: "server/approvals/Rules.ts",
    from: "rule.expiring_seconds >= rule.review_seconds",
    to: "rule.expiring_seconds > rule.review_seconds",
    tests: rules
  },
  {
    file: "server/approvals/Rules.ts",
    from: "WHERE org_id = ${org_id} AND task_id = ANY",
    to: "WHERE task_id = ANY",
    tests: [...rules, "api/Tenancy.test.ts"]
  },
  {
    file: "server/approvals/Approvals.ts",
    from: "const redacted = yield* redactComment(principal, request)",
    to: "const redacted = request",
    tests: ["server/redaction/RedactionSettings.test.ts"]
  }
]
