/** Mutants of agent sessions, their steps, and the shared statement that writes them. */
import type { ListedMutant } from "../list.ts"

const writeStatement = "server/approvals/SessionWriter/writeStatement.ts"
const stepUpdates = "server/approvals/SessionWriter/stepUpdates.ts"
const steps = "server/approvals/Steps.ts"
const inTransaction = "server/approvals/Steps/stepsInTransaction.ts"
const writer = ["server/approvals/SessionWriter.test.ts"]
const approvals = ["server/approvals/Approvals.test.ts"]
const stepTests = ["server/approvals/Steps.test.ts"]
const sessionTests = ["server/approvals/Sessions.test.ts"]
const twoReplicas = "server/approvals/SessionWriter/twoReplicas.test.ts"
const limits = ["server/identity/OrganizationLimits.test.ts"]

export const sessions: ReadonlyArray<ListedMutant> = [
  {
    file: "server/approvals/SessionWriter/transitionChange.ts",
    from: "AND a.status = n.old_status",
    to: "",
    tests: [...writer, ...approvals]
  },
  {
    file: "server/approvals/SessionWriter/transitionChange.ts",
    from: "AND a.stage = n.old_stage -- A parameter has milliseconds; a row that something else has written may have microseconds. AND date_trunc('milliseconds', a.expires_at) = n.old_expires_at AND a.expiring_notified = n.old_expiring_notified",
    to: "",
    tests: [...writer, ...approvals]
  },
  {
    file: stepUpdates,
    from: "AND s.outcome_at IS NULL AND coalesce(s.last_decision, s.decision) = 'allow'",
    to: "AND coalesce(s.last_decision, s.decision) = 'allow'",
    tests: [...stepTests, ...writer]
  },
  {
    file: stepUpdates,
    from: "AND coalesce(s.last_decision, s.decision) = 'allow'",
    to: "",
    tests: [...writer, ...stepTests]
  },
  {
    file: stepUpdates,
    from: "AND coalesce(s.last_decision, s.decision) = n.old_decision",
    to: "",
    tests: writer
  },
  {
    file: "server/approvals/SessionWriter/stepChange.ts",
    from: "ON CONFLICT (org_id, session_id, step_id) DO NOTHING",
    to: "",
    tests: writer
  },
  {
    file: writeStatement,
    from: "WHERE s.closed_at IS NULL AND (o.rules_revision",
    to: "WHERE (o.rules_revision",
    tests: writer
  },
  {
    file: writeStatement,
    from: "AND (o.rules_revision IS NULL OR o.rules_revision = coalesce(r.revision, 0))",
    to: "",
    tests: writer
  },
  { file: writeStatement, from: "WHERE n.endpoints <> u.endpoints", to: "WHERE false", tests: writer },
  { file: writeStatement, from: "WHERE d.near_limit", to: "WHERE false", tests: writer },
  {
    file: writeStatement,
    from: "FOR NO KEY UPDATE OF s SKIP LOCKED",
    to: "FOR NO KEY UPDATE OF s",
    tests: writer
  },
  {
    file: "server/approvals/SessionWriter.ts",
    from: "const target = targetOf(write)",
    to: "const target = `${byTarget.size}`",
    tests: writer
  },
  {
    file: "server/approvals/SessionWriter/PendingApprovals.ts",
    from: "dueAt !== null && DateTime.isGreaterThan(dueAt, now)",
    to: "true",
    tests: ["server/approvals/SessionWriter/PendingApprovals.test.ts"]
  },
  {
    file: "server/approvals/SessionWriter/PendingApprovals.ts",
    from: "`${org_id} ${approval_id}`",
    to: "`${approval_id}`",
    tests: ["server/approvals/SessionWriter/PendingApprovals.test.ts", ...writer]
  },
  {
    file: "server/approvals/SessionWriter/LongQueues.ts",
    from: "(byOrganization.get(org_id) ?? 0) + count",
    to: "count",
    tests: ["server/approvals/SessionWriter/LongQueues.test.ts"]
  },
  {
    file: "server/approvals/SessionFacts.ts",
    from: "cached.org_id === org_id ? cached : undefined",
    to: "cached",
    tests: writer,
    equivalent:
      "the statement that writes the step looks the session up within the organization, and finds none"
  },
  {
    file: "server/approvals/Sessions.ts",
    from: 'if (session.status === "closed") return session',
    to: "",
    tests: writer
  },
  {
    file: "server/approvals/Sessions.ts",
    from: "yield* lockSessionForUpdate(sql, org_id, id)",
    to: "Option.none()",
    tests: [...sessionTests, ...writer, twoReplicas]
  },
  {
    file: "server/approvals/Sessions.ts",
    from: "if (openSessions > 0) yield* requireCapacity(org_id)",
    to: "",
    tests: limits
  },
  {
    file: "server/approvals/Sessions/rows.ts",
    from: "WHERE org_id = ${org_id} AND closed_at IS NULL LIMIT",
    to: "WHERE org_id = ${org_id} LIMIT",
    tests: limits
  },
  {
    file: "server/approvals/Sessions/rows.ts",
    from: "AND session_id = ${session_id} FOR NO KEY UPDATE",
    to: "AND session_id = ${session_id}",
    tests: [...writer, ...stepTests, twoReplicas]
  },
  {
    file: steps,
    from: "if (list.revision !== saved.rules_revision) return undefined",
    to: "",
    tests: writer
  },
  {
    file: steps,
    from: "if (dueAt !== null && DateTime.isLessThanOrEqualTo(dueAt, now)) return undefined",
    to: "",
    tests: writer
  },
  {
    file: steps,
    from: "if (saved.session_closed) return undefined",
    to: "",
    tests: [...stepTests, ...writer]
  },
  {
    file: steps,
    from: "yield* requireResumable(saved, yield* texts.digestWith(saved), request)",
    to: "",
    tests: approvals
  },
  {
    file: inTransaction,
    from: "if (session.closed) return yield* sessionClosed const saved",
    to: "const saved",
    tests: [...stepTests, ...writer]
  },
  {
    file: inTransaction,
    from: 'last_decision === "reject" || (last_decision === "pending" && answer.decision !== "allow")',
    to: 'last_decision === "reject"',
    tests: stepTests
  },
  {
    file: inTransaction,
    from: "if (saved.completed) return yield* alreadyCompleted",
    to: "",
    tests: stepTests
  }
]
