/** Changes of lines that hold a guarantee and that Stryker does not break: most are SQL. */
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../..", import.meta.url))

/** A change of one place in the source that breaks a guarantee. */
export interface Mutant {
  /** Relative to `src`. */
  readonly file: string
  /** The text as it is. It occurs exactly once in the file; white space counts as one space. */
  readonly from: string
  readonly to: string
  /** The test file that should notice, relative to `test`. */
  readonly test: string
}

/** Mutants of a file that the same test file should notice, as pairs of `from` and `to`. */
const mutantsOf = (
  file: string,
  test: string,
  changes: ReadonlyArray<readonly [from: string, to: string]>
): ReadonlyArray<Mutant> => changes.map(([from, to]) => ({ file, from, to, test }))

export const mutants: ReadonlyArray<Mutant> = [
  ...mutantsOf("server/delivery/Delivery/writeResults.ts", "server/delivery/Delivery/writeResults.test.ts", [
    ["AND q.attempt = e.attempt FOR UPDATE", "FOR UPDATE"],
    ["FOR UPDATE OF q SKIP LOCKED", ""]
  ]),
  ...mutantsOf("server/delivery/Delivery/writeResults.ts", "server/delivery/Delivery/Finisher.test.ts", [
    ["FOR UPDATE OF q SKIP LOCKED", "FOR UPDATE OF q"]
  ]),
  ...mutantsOf("server/delivery/Delivery/DeliveryStore.ts", "server/delivery/Delivery/writeResults.test.ts", [
    ["SET LOCAL lock_timeout = '500ms'", "SET LOCAL lock_timeout = 0"]
  ]),
  ...mutantsOf("server/delivery/Delivery/ShardStore.ts", "server/delivery/Delivery/leases.test.ts", [
    ["(l.lease_until < now() OR l.lease_until > h.latest)", "true"],
    ["WHERE NOT ${draining}::boolean ON CONFLICT", "WHERE true ON CONFLICT"],
    ["${fromNow(Math.max(0, leaseMillis - heartbeatTimeoutMillis))}", "now()"]
  ]),
  ...mutantsOf("server/delivery/Delivery/Shards.ts", "server/delivery/Delivery/ownership.test.ts", [
    ["leaseUntil = before + leaseMillis", "leaseUntil = monotonicMillis(clock) + leaseMillis"],
    ["&& one.leaseUntil - now >= marginMillis", ""]
  ]),
  ...mutantsOf("server/delivery/Delivery/Replay.ts", "server/delivery/Delivery/Replay.test.ts", [
    [
      "yield* lockDestination(org_id, destination_id) const rows = yield* lockOnNode( sql, org_id, sql<{ readonly status: string; readonly channel: string }>",
      "const rows = yield* lockOnNode( sql, org_id, sql<{ readonly status: string; readonly channel: string }>"
    ],
    ["yield* lockDestination(org_id, destination_id) const capacity", "const capacity"]
  ]),
  ...mutantsOf("server/delivery/Delivery/QueueWrites.ts", "server/delivery/Delivery/capacity.test.ts", [
    ["yield* lockDestination(org_id, destination_id) const capacity", "const capacity"],
    [
      "AND org_id = ${org_id} AND destination_id = ${destination_id} LIMIT ${queueLimit}::int",
      "AND destination_id = ${destination_id} LIMIT ${queueLimit}::int"
    ],
    [
      'AND q.org_id = d.org_id AND q.destination_id = d.destination_id ${ofOrganization("q")} LIMIT',
      'AND q.destination_id = d.destination_id ${ofOrganization("q")} LIMIT'
    ]
  ]),
  ...mutantsOf("server/delivery/Delivery/Retention.ts", "server/delivery/Delivery/Retention.test.ts", [
    ["ORDER BY q.shard, q.seq FOR UPDATE OF q SKIP LOCKED", "ORDER BY q.shard, q.seq FOR UPDATE OF q"],
    [
      "SELECT org_id, destination_id, delivery_id, NULL AS channel FROM expired WHERE status <> 'pending'",
      "SELECT org_id, destination_id, delivery_id, NULL AS channel FROM expired"
    ],
    ["AND l.created_at < ${DateTime.toDateUtc(cutoff)}", ""]
  ]),
  ...mutantsOf("server/delivery/Delivery/writeHealth.ts", "server/delivery/Delivery/Finisher.test.ts", [
    ["FOR UPDATE OF d SKIP LOCKED", "FOR UPDATE OF d"]
  ]),
  ...mutantsOf("server/delivery/Delivery/writeHealth.ts", "server/delivery/Delivery/writeHealth.test.ts", [
    ["WHEN h.failures > 0 AND h.failures < d.consecutive_failures THEN", "WHEN false THEN"],
    ["coalesce(d.failing_since, h.at)", "h.at"],
    ["CASE WHEN h.failures >= d.consecutive_failures THEN d.outage_reported_at END", "d.outage_reported_at"]
  ]),
  ...mutantsOf("server/notifications/EndpointOutages.ts", "server/notifications/EndpointOutages.test.ts", [
    ["AND outage_reported_at IS NULL", ""],
    ["AND p.active", ""],
    ["SET unreported_entry_id = NULL", "SET unreported_entry_id = p.unreported_entry_id"],
    [
      "AND unreported_entry_id = ${entry_id} FOR NO KEY UPDATE SKIP LOCKED",
      "AND unreported_entry_id = ${entry_id}"
    ]
  ]),
  ...mutantsOf("server/store/idempotencyKeys.ts", "server/tasks/Runs/runIdempotency.test.ts", [
    [
      "SET answer = ${sealed} WHERE ${isKey(sql, key)} AND created_at = ${claimedAt}",
      "SET answer = ${sealed} WHERE ${isKey(sql, key)}"
    ],
    ["AND created_at = ${claimedAt} AND answer IS NULL", "AND answer IS NULL"]
  ]),
  ...mutantsOf("server/store/idempotencyKeys.ts", "server/http/Idempotency.test.ts", [
    ["WHERE existing.created_at < ${before(now, RETENTION_MILLIS)} OR (", "WHERE ("],
    ["org_id = ${org_id} AND operation", "operation"],
    ["AND operation = ${operation} AND key = ${key}", "AND key = ${key}"]
  ]),
  ...mutantsOf("server/store/idempotencyKeys.ts", "server/tasks/Runs.test.ts", [
    ["AND existing.created_at < ${before(now, ABANDONED_AFTER_MILLIS)})", ")"]
  ]),
  ...mutantsOf("server/store/withoutTimeouts.ts", "server/secrets/MasterKeys.test.ts", [
    ["yield* sql`SET LOCAL lock_timeout = 0`", ""]
  ]),
  ...mutantsOf("server/store/migrate.ts", "server/store/migrate.test.ts", [
    ["yield* sql`SELECT set_config('lock_timeout', ${String(LOCK_WAIT_MILLIS)}, true)`", ""]
  ]),
  ...mutantsOf(
    "server/approvals/SessionWriter/transitionChange.ts",
    "server/approvals/Approvals/votesOfTwoReplicas.test.ts",
    [["AND a.approvals_given = n.old_approvals_given", ""]]
  ),
  ...mutantsOf("server/identity/findDecidingGroups.ts", "server/approvals/Approvals/quorum.test.ts", [
    ["WHERE org_id = ${org_id}", "WHERE true"]
  ]),
  ...mutantsOf("server/identity/mayDecide.ts", "server/approvals/Approvals/quorum.test.ts", [
    ["AND ${DECIDES} = ANY (${grantedScopes(sql)})", ""]
  ]),
  ...mutantsOf("server/approvals/messageRows.ts", "server/approvals/Messages.test.ts", [
    ["AND sender = ${sender}", ""],
    [
      "greatest(newest_question, newest_answer) + 1 ELSE newest_question",
      "newest_question + 1 ELSE newest_question"
    ]
  ]),
  ...mutantsOf("server/approvals/Steps.ts", "server/approvals/Messages.test.ts", [
    ["after_message ?? approval.newest_answer", "after_message ?? 0"]
  ]),
  ...mutantsOf("server/approvals/proposalRows.ts", "server/approvals/Approvals/proposals.test.ts", [
    ["AND ${mayDecide(sql, now)}", ""],
    ["AND proposal_expires_at > ${toDate(now)}", ""],
    ["AND proposed_digest = ${digest} AND proposal_step_id IS NULL", "AND proposed_digest = ${digest}"]
  ]),
  ...mutantsOf("server/approvals/Rules/lockRules.ts", "server/approvals/Rules.test.ts", [
    ["FOR NO KEY UPDATE", ""]
  ]),
  ...mutantsOf(
    "server/approvals/SessionWriter/writeStatement.ts",
    "server/approvals/Approvals/proposals.test.ts",
    [["AND (NOT o.asks OR s.proposals_until IS NULL OR s.proposals_until <= o.at)", ""]]
  ),
  ...mutantsOf(
    "server/approvals/SessionWriter/writeStatement.ts",
    "server/approvals/ShadowRules/twoReplicas.test.ts",
    [["o.shadow_revision = coalesce(r.shadow_revision, 0)", "true"]]
  ),
  ...mutantsOf("server/approvals/approvalRows.ts", "server/approvals/SessionWriter.test.ts", [
    ["FOR NO KEY UPDATE OF agent_sessions, approvals", ""],
    ["WHERE org_id = ${org_id} AND approvals.approval_id = ${id}", "WHERE approvals.approval_id = ${id}"]
  ]),
  ...mutantsOf("server/approvals/approvalRows.ts", "server/approvals/Approvals.test.ts", [
    [
      "FROM approvals WHERE org_id = ${org_id} AND approval_id = ${id}",
      "FROM approvals WHERE approval_id = ${id}"
    ]
  ]),
  ...mutantsOf("server/approvals/Approvals/transitionRows.ts", "server/approvals/Deadlines.test.ts", [
    [
      "FOR NO KEY UPDATE OF agent_sessions, approvals SKIP LOCKED",
      "FOR NO KEY UPDATE OF agent_sessions, approvals"
    ]
  ]),
  ...mutantsOf("server/approvals/Deadlines.ts", "server/approvals/Deadlines.test.ts", [
    ["yield* sql`SET LOCAL lock_timeout = 0`", ""]
  ]),
  ...mutantsOf(
    "server/approvals/SessionWriter/counterChange.ts",
    "server/approvals/BudgetCounters/twoReplicas.test.ts",
    [
      ["AND l.counter = g.counter AND l.version = g.version", "AND l.counter = g.counter"],
      ["WHERE n.op = o.op AND n.place NOT IN (SELECT place FROM current_counters)", "WHERE false"],
      ["JOIN applied a ON a.op = n.op", ""],
      ["SET version = b.version + 1,", "SET"]
    ]
  ),
  ...mutantsOf("server/approvals/Rules.ts", "server/approvals/Rules.test.ts", [
    ["sql`AND revision = ${input.revision}`", 'sql.literal("")']
  ]),
  ...mutantsOf("server/approvals/Rules/prepareRules.ts", "server/approvals/Rules.test.ts", [
    ["WHERE org_id = ${org_id} AND task_id = ANY", "WHERE task_id = ANY"]
  ]),
  ...mutantsOf("server/approvals/Grants/takeGrant.ts", "server/approvals/Grants.test.ts", [
    ["AND grants.session_id = ${session_id}", ""],
    ["AND ${mayDecide(sql, now)}", ""]
  ]),
  ...mutantsOf("server/approvals/Grants/rows.ts", "server/approvals/Grants.test.ts", [
    [
      "SET grants_until = greatest(grants_until, ${toDate(row.expires_at)})",
      "SET grants_until = grants_until"
    ]
  ]),
  ...mutantsOf("server/approvals/SessionWriter/writeStatement.ts", "server/approvals/Grants.test.ts", [
    ["AND (NOT o.asks OR s.grants_until IS NULL OR s.grants_until <= o.at)", ""]
  ]),
  ...mutantsOf("server/approvals/Grants/createGrant.ts", "server/approvals/Grants.test.ts", [
    ["if (open.session >= limits.session)", "if (false)"],
    ["if (open.organization >= limits.organization)", "if (false)"]
  ]),
  ...mutantsOf(
    "server/approvals/SessionWriter/transitionChange.ts",
    "server/approvals/SessionWriter.test.ts",
    [["AND a.status = n.old_status", ""]]
  ),
  ...mutantsOf("server/approvals/SessionWriter/stepUpdates.ts", "server/approvals/SessionWriter.test.ts", [
    [
      "AND s.outcome_at IS NULL AND coalesce(s.last_decision, s.decision) = n.last_decision",
      "AND coalesce(s.last_decision, s.decision) = n.last_decision"
    ],
    ["AND coalesce(s.last_decision, s.decision) = n.last_decision", ""],
    ["AND coalesce(s.last_decision, s.decision) = n.old_decision RETURNING n.op", "RETURNING n.op"]
  ]),
  ...mutantsOf("server/approvals/SessionWriter/stepChange.ts", "server/approvals/SessionWriter.test.ts", [
    ["ON CONFLICT (org_id, session_id, step_id) DO NOTHING", ""]
  ]),
  ...mutantsOf("server/approvals/SessionWriter/writeStatement.ts", "server/approvals/SessionWriter.test.ts", [
    ["WHERE s.closed_at IS NULL AND (o.rules_revision", "WHERE (o.rules_revision"],
    ["AND (o.rules_revision IS NULL OR o.rules_revision = coalesce(r.revision, 0))", ""],
    ["FOR NO KEY UPDATE OF s SKIP LOCKED", "FOR NO KEY UPDATE OF s"]
  ]),
  ...mutantsOf("server/approvals/Sessions/rows.ts", "server/identity/OrganizationLimits.test.ts", [
    ["WHERE org_id = ${org_id} AND closed_at IS NULL LIMIT", "WHERE org_id = ${org_id} LIMIT"]
  ]),
  ...mutantsOf("server/approvals/Sessions/rows.ts", "server/approvals/SessionWriter.test.ts", [
    ["AND session_id = ${session_id} FOR NO KEY UPDATE", "AND session_id = ${session_id}"]
  ]),
  ...mutantsOf("server/approvals/Sessions.ts", "server/approvals/SessionWriter.test.ts", [
    ["yield* lockSessionForUpdate(sql, org_id, id)", "Option.none()"]
  ]),
  ...mutantsOf("server/approvals/SessionStream/rows.ts", "server/approvals/SessionStream.test.ts", [
    [
      "FROM agent_sessions WHERE org_id = ${org_id} AND session_id = ${session_id}",
      "FROM agent_sessions WHERE session_id = ${session_id}"
    ]
  ]),
  ...mutantsOf("server/tasks/Datasets.ts", "server/tasks/Datasets.test.ts", [
    ["yield* acquireDatasetLock(sql, org_id, task_id) const task", "const task"]
  ]),
  ...mutantsOf("server/tasks/Comparisons/lease.ts", "server/tasks/Comparisons/compareBatch.test.ts", [
    ["AND (lease_until IS NULL OR lease_until <= ${currentTime(sql, clock)})`", "`"],
    ["lease_epoch = lease_epoch + 1,", "lease_epoch = lease_epoch,"],
    [
      "AND lease_epoch = ${row.lease_epoch} AND status IN ('running', 'cancelled') RETURNING 1 AS renewed",
      "AND status IN ('running', 'cancelled') RETURNING 1 AS renewed"
    ],
    [
      "AND lease_epoch = ${row.lease_epoch} AND status = 'running' ` /** Ends",
      "AND status = 'running' ` /** Ends"
    ],
    ["FOR NO KEY UPDATE SKIP LOCKED", ""]
  ]),
  ...mutantsOf("server/tasks/Releases.ts", "server/tasks/Comparisons/compareBatch.test.ts", [
    ['yield* findTask(sql, org_id, task_id, "FOR NO KEY UPDATE")', "yield* findTask(sql, org_id, task_id)"]
  ]),
  ...mutantsOf("server/tasks/Feedback/promoteStaged.ts", "server/tasks/Feedback/promoteStaged.test.ts", [
    ["yield* acquireDatasetLock(sql, org_id, task_id) const base", "const base"]
  ]),
  ...mutantsOf("server/tasks/Feedback/rows.ts", "server/tasks/Feedback/reviewFeedback.test.ts", [
    ['AND ${ofExistingTask(sql, "feedback")} FOR NO KEY UPDATE', 'AND ${ofExistingTask(sql, "feedback")}']
  ]),
  ...mutantsOf("server/tasks/Feedback/rows.ts", "server/tasks/Feedback.test.ts", [
    ["WHERE runs.org_id = n.org_id AND runs.trace_id = n.trace_id", "WHERE runs.trace_id = n.trace_id"]
  ]),
  ...mutantsOf("server/tasks/Comparisons/recordBatch.ts", "server/tasks/Comparisons/compareBatch.test.ts", [
    ["AND lease_epoch = ${row.lease_epoch}", ""],
    ["FOR KEY SHARE SKIP LOCKED", ""]
  ]),
  ...mutantsOf("server/tasks/Comparisons.ts", "server/tasks/Comparisons/compareBatch.test.ts", [
    ["yield* organizations.lockForUpdate(org_id)", ""]
  ]),
  ...mutantsOf("server/tasks/Runs/insertRuns.ts", "server/tasks/Runs/loggedRuns.test.ts", [
    ["WHERE agent_sessions.org_id = n.org_id ${ofOrganization", "WHERE true ${ofOrganization"]
  ]),
  ...mutantsOf("server/tasks/FeedbackTokens/rows.ts", "server/tasks/FeedbackTokens.test.ts", [
    ["AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${toDate(now)})", ""],
    ["WHERE used.uses < ${token.max_uses} AND used.last_digest", "WHERE used.last_digest"],
    ["AND end_user_feedback < ${limit}", ""]
  ]),
  ...mutantsOf("server/tasks/deleteExpired.ts", "server/deletion/DataRetention.test.ts", [
    ["AND run_id < ${RunId.lowerBound(cutoff)} AND created_at < ${toDate(cutoff)}", ""],
    ["AND feedback_id < ${FeedbackId.lowerBound(cutoff)} AND created_at < ${toDate(cutoff)}", ""],
    ["AND status <> 'staged' ORDER BY", "ORDER BY"]
  ]),
  ...mutantsOf("server/tasks/deletionSteps.ts", "server/deletion/Deletions.test.ts", [
    ["AND end_user = ${end_user}", ""]
  ]),
  ...mutantsOf("server/tasks/Datasets/erasedRows.ts", "server/tasks/deleteRuns.test.ts", [
    [
      "AND first_version = ANY(ARRAY(SELECT DISTINCT version FROM promoted)) AND source_feedback_id = ANY(ARRAY(SELECT feedback_id FROM promoted))",
      "AND first_version = ANY(ARRAY(SELECT DISTINCT version FROM promoted))"
    ]
  ]),
  ...mutantsOf("server/tasks/Feedback/insertFeedback.ts", "server/tasks/deleteRuns.test.ts", [
    ["FOR KEY SHARE SKIP LOCKED ) AS run", ") AS run"]
  ]),
  ...mutantsOf("server/tasks/Feedback/insertFeedback.ts", "server/tasks/Feedback/opinions.test.ts", [
    ["added: 1, replaced: -1", "added: 1"],
    ["OR earlier_id IN (SELECT feedback_id FROM outdated)", ""]
  ]),
  ...mutantsOf("server/identity/ApiKeys/rows.ts", "server/identity/ApiKeys.test.ts", [
    ["AND made.created_by_id = line.key_id", "AND made.created_by_id = ${key_id}"]
  ]),
  ...mutantsOf("server/identity/ApiKeys.ts", "server/identity/OrganizationLimits.test.ts", [
    ["yield* organizations.lockForUpdate(org_id) const now", "const now"]
  ]),
  ...mutantsOf("server/identity/ApiKeys/revocation.ts", "server/identity/ApiKeys.test.ts", [
    ["yield* organizations.lockForUpdate(org_id) const row", "const row"]
  ]),
  ...mutantsOf("server/deletion/RowRetention.ts", "server/deletion/keyRetention.test.ts", [
    ["WHERE created_by_id IS NOT NULL AND", "WHERE"]
  ]),
  ...mutantsOf("server/deletion/RowRetention.ts", "server/identity/Audit.test.ts", [
    [
      "bool_and(oldest.occurred_at < ${toDate(cutoff)}) OVER (PARTITION BY due.org_id ORDER BY oldest.position) AS ends",
      "oldest.occurred_at < ${toDate(cutoff)} AS ends"
    ]
  ]),
  ...mutantsOf("server/console/ConsoleSessions.ts", "server/console/Console.test.ts", [
    [
      "AND api_keys.revoked_at IS NULL AND (api_keys.expires_at IS NULL OR api_keys.expires_at > ${toDate(now)}::timestamptz) `",
      "`"
    ]
  ]),
  ...mutantsOf("server/secrets/MasterKeys.ts", "server/secrets/MasterKeys.test.ts", [
    ["AND ${column} = ${value} RETURNING", "RETURNING"],
    ["yield* sql`LOCK TABLE master_keys IN SHARE ROW EXCLUSIVE MODE`", ""],
    ["AND NOT EXISTS (SELECT FROM delivery_owners WHERE lease_until > clock_timestamp())", ""]
  ]),
  ...mutantsOf("server/notifications/Email/rows.ts", "server/notifications/Email.test.ts", [
    ["WHERE org_id = ${org_id} AND email IS NOT NULL", "WHERE email IS NOT NULL"]
  ]),
  ...mutantsOf(
    "server/notifications/Notifications/rows.ts",
    "server/notifications/Notifications/rotateSecret.test.ts",
    [["AND endpoint_id = ${endpoint_id} FOR NO KEY UPDATE", "AND endpoint_id = ${endpoint_id}"]]
  ),
  ...mutantsOf("server/notifications/Notifications/rows.ts", "server/notifications/Notifications.test.ts", [
    [
      "DELETE FROM notification_endpoints WHERE org_id = ${org_id} AND",
      "DELETE FROM notification_endpoints WHERE"
    ]
  ]),
  ...mutantsOf("server/notifications/Notifications.ts", "server/notifications/Notifications.test.ts", [
    ["yield* organizations.lockForUpdate(org_id) if", "if"]
  ]),
  ...mutantsOf("server/telemetry/Telemetry/deliveries.ts", "server/telemetry/Telemetry/export.test.ts", [
    ["AND waiting_spans + ${batch.spans}::int <= ${capacity}::int", ""]
  ]),
  ...mutantsOf("server/telemetry/Spans/storeBatches.ts", "server/telemetry/Telemetry/export.test.ts", [
    ["ORDER BY org_id FOR NO KEY UPDATE", "ORDER BY org_id"]
  ]),
  ...mutantsOf(
    "server/approvals/SessionWriter/reviewerChange.ts",
    "server/approvals/ReviewerDecisions.test.ts",
    [
      ["AND v.generation = g.generation )", ")"],
      ["text[]) AND v.state = 'watching' FOR SHARE SKIP LOCKED", "text[])"]
    ]
  ),
  ...mutantsOf("server/approvals/ReviewerDecisions.ts", "server/approvals/ReviewerDecisions.test.ts", [
    ["AND generation = ${decided.review.generation} FOR SHARE", "FOR SHARE"]
  ]),
  ...mutantsOf("server/approvals/Reviewers/rows.ts", "server/approvals/Reviewers.test.ts", [
    ["THEN used_calls ELSE 0 END < daily_calls", "THEN used_calls ELSE 0 END <= daily_calls"],
    ["state = 'stopped', generation = generation + 1", "state = 'stopped', generation = generation"]
  ])
]

/** Matches `text` however its lines are broken. */
const pattern = (text: string): RegExp =>
  new RegExp(
    text
      .trim()
      .split(/\s+/)
      .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
      .join("\\s+"),
    "g"
  )

/** The source of a mutant's file with its change. */
export const mutate = (source: string, { from, to }: Pick<Mutant, "from" | "to">): string =>
  source.replace(pattern(from), () => to)
