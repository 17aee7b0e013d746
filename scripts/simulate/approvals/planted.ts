import type { PlantedBug } from "../planted.ts"

const approvals = "src/server/approvals"

/** Bugs that are planted in approvals, deadlines and session streams. */
export const approvalBugs: Readonly<Record<string, PlantedBug | ReadonlyArray<PlantedBug>>> = {
  "decision-without-state": {
    file: `${approvals}/SessionWriter/transitionChange.ts`,
    from: "AND a.status = n.old_status",
    to: ""
  },
  "vote-without-count": {
    file: `${approvals}/SessionWriter/transitionChange.ts`,
    from: "AND a.approvals_given = n.old_approvals_given",
    to: ""
  },
  "quorum-of-one": {
    file: "src/domain/approvals/ApprovalState.ts",
    from: "if (votes.length < approvalsRequired(state.quorum)) {",
    to: "if (votes.length < 0) {"
  },
  "one-person-twice": [
    {
      file: "src/domain/approvals/ApprovalState.ts",
      from: "if (approve && hasApproved) return Result.succeed(null)",
      to: ""
    },
    {
      file: "src/domain/approvals/ApprovalState.ts",
      from: 'if (state.votes.some((vote) => isSamePerson(vote, input))) return Result.fail("SamePerson")',
      to: ""
    }
  ],
  "vote-of-the-wrong-group": {
    file: "src/domain/approvals/ApprovalState.ts",
    from: 'if (countApprovals(state.quorum, votes) < votes.length) return Result.fail("GroupRequired")',
    to: ""
  },
  "proposal-twice": {
    file: `${approvals}/proposalRows.ts`,
    from: "AND proposed_digest = ${digest}\n        AND proposal_step_id IS NULL",
    to: "AND proposed_digest = ${digest}"
  },
  "proposal-ignored": {
    file: `${approvals}/SessionWriter/writeStatement.ts`,
    from: "AND (NOT o.asks OR s.proposals_until IS NULL OR s.proposals_until <= o.at)",
    to: ""
  },
  "proposal-for-a-quorum": {
    file: "src/domain/approvals/StoredProposal.ts",
    from: "approvalsRequired(terms.quorum) === 1 &&",
    to: ""
  },
  "grant-ignored": {
    file: `${approvals}/SessionWriter/writeStatement.ts`,
    from: "AND (NOT o.asks OR s.grants_until IS NULL OR s.grants_until <= o.at)",
    to: ""
  },
  "grant-of-the-requester": {
    file: "src/domain/approvals/grantAllows.ts",
    from: "mayAnswer(grant.granter, step.ruling.terms, step.requesters) &&",
    to: ""
  },
  "grant-for-other-arguments": {
    file: "src/domain/approvals/grantAllows.ts",
    from: "return grant.content_digest === step.contentDigest()",
    to: "return true"
  },
  "grant-outlives-its-session": {
    file: `${approvals}/Sessions.ts`,
    from: "if (canHaveGrants(locked?.grants_until ?? null, now))",
    to: "if (false)"
  },
  "decision-without-lock": {
    file: `${approvals}/approvalRows.ts`,
    from: "FOR NO KEY UPDATE OF agent_sessions, approvals",
    to: ""
  },
  "deadline-without-lock": {
    file: `${approvals}/Approvals/transitionRows.ts`,
    from: "FOR NO KEY UPDATE OF agent_sessions, approvals SKIP LOCKED",
    to: ""
  },
  "close-without-lock": {
    file: `${approvals}/Sessions.ts`,
    from: "yield* lockSessionForUpdate(sql, org_id, id)",
    to: "Option.none()"
  },
  "closed-session-written": {
    file: `${approvals}/SessionWriter/writeStatement.ts`,
    from: "WHERE s.closed_at IS NULL",
    to: "WHERE true"
  },
  "stale-rules": {
    file: `${approvals}/SessionWriter/writeStatement.ts`,
    from: "AND (o.rules_revision IS NULL OR o.rules_revision = coalesce(r.revision, 0))",
    to: ""
  },
  "stale-endpoints": {
    file: `${approvals}/SessionWriter/writeStatement.ts`,
    from: "WHERE n.endpoints <> u.endpoints",
    to: "WHERE false"
  },
  "decision-event-twice": {
    file: `${approvals}/SessionWriter/stepUpdates.ts`,
    from: "AND coalesce(s.last_decision, s.decision) = n.old_decision",
    to: ""
  },
  "outcome-twice": {
    file: `${approvals}/Steps/stepsInTransaction.ts`,
    from: "if (saved.completed) return yield* alreadyCompleted",
    to: ""
  },
  "one-event-of-many-queued": {
    file: `${approvals}/Approvals/recordTransitions.ts`,
    from: "deps.notifications.publish(org_id, events, now)",
    to: "deps.notifications.publish(org_id, [Arr.headNonEmpty(events)], now)"
  },
  "queued-without-commit": {
    file: "src/server/delivery/Delivery/DeliveryQueue.ts",
    from: "endEnqueue(committed ? result : undefined)",
    to: "endEnqueue(result)"
  },
  "time-of-the-machine": {
    file: "src/server/store/StoreClock.ts",
    from: "if (Math.abs(nearest - offset) > 1) offset = Math.round(nearest)",
    to: ""
  },
  "time-moved-with-the-machine": {
    file: "src/server/store/StoreClock.ts",
    from: "return Math.floor(now() + offset)",
    to: "return Math.floor(clock.currentTimeMillisUnsafe() + offset - measuredMachineOffset)"
  },
  "stream-without-first-read": {
    file: `${approvals}/SessionStream/Hub.ts`,
    from: "mustRead: true,",
    to: "mustRead: false,"
  },
  "stream-repeats-a-page": {
    file: `${approvals}/SessionStream/Hub.ts`,
    from: "subscription.cursor = nextChunk.last",
    to: "if (nextChunk.closes) subscription.cursor = nextChunk.last"
  },
  "stream-ends-early": {
    file: `${approvals}/SessionStream.ts`,
    from: "if (closed && after === newest) return Option.none()",
    to: "if (closed) return Option.none()"
  },
  "signals-of-one-replica": {
    file: `${approvals}/SessionSignals.ts`,
    from: "outgoing.add(signals)",
    to: ""
  },
  "no-poll-of-events": {
    file: `${approvals}/SessionStream.ts`,
    from: "hub.signal(missed)",
    to: ""
  }
}
