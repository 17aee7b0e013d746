import type { Wait } from "../core/Store.ts"
import {
  approvalKey,
  type ApprovalModel,
  sessionKey,
  type SessionEntry,
  type StepEntry,
  stepKey
} from "./ApprovalModel.ts"
import type { Given, GivenRow } from "./Given.ts"
import { queuedDeliveries } from "./queuedDeliveries.ts"
import { type ModelStatement, PAUSE, resumedStep, withGivenState, withoutProposal } from "./rows.ts"

/** A write of the statement. */
interface Op {
  readonly op: number
  readonly org_id: string
  readonly session_id: string
  readonly rules_revision: number | null
  /** Whether a counter-proposal or a standing grant could replace the person whom the write asks. */
  readonly asks: boolean
  readonly event_count: number
  readonly at: number
}

const opOf = (row: GivenRow): Op => ({
  op: row.number("op"),
  org_id: row.text("org_id"),
  session_id: row.text("session_id"),
  rules_revision: row.numberOrNull("rules_revision"),
  asks: row.boolean("asks"),
  event_count: row.number("event_count"),
  at: row.time("at")
})

/** A row of the result without the columns of deliveries. */
const withoutDelivery = {
  delivery_id: null,
  is_full: false,
  waiting: 0,
  seq: null,
  consecutive_failures: null,
  cooldown_round: null,
  cooldown_ms: null
}

const byOp = (rows: ReadonlyArray<GivenRow>): ReadonlyMap<number, GivenRow> =>
  new Map(rows.map((row) => [row.number("op"), row]))

/** The statement of `SessionWriter/writeStatement.ts`, whose parts have the same names there. */
export const writeSessions = (model: ApprovalModel, given: Given): ModelStatement =>
  function* (transaction) {
    const ops = given.rows("op", "event_count").map(opOf)
    const notified = given.rows("op", "endpoints", "body")
    const newSteps = byOp(given.rows("op", "tool", "arguments_digest"))
    const deliveries = queuedDeliveries(model, transaction, given)

    const refused = new Set<number>()
    if (given.says("WHERE n.endpoints <> u.endpoints")) {
      for (const row of notified) {
        const endpoints = model
          .subscribers(transaction, row.text("org_id"), row.text("type"))
          .map(({ endpoint_id, version }) => `${endpoint_id}@${version}`)
          .join(",")
        if (row.text("endpoints") !== endpoints) refused.add(row.number("op"))
      }
    }

    const saved = new Map<number, string>()
    for (const { op, org_id, session_id } of ops) {
      const step_id = newSteps.get(op)?.text("step_id")
      if (step_id === undefined) continue
      const session = transaction.get(model.sessions, sessionKey({ org_id, session_id }))
      const step = transaction.get(model.steps, stepKey({ org_id, session_id, step_id }))
      if (session !== undefined && step !== undefined)
        saved.set(op, resumedStep(model, transaction, session, step))
    }
    yield PAUSE

    /** Whether a counter-proposal of the session may answer for a step's question. */
    const mayBeProposed = ({ asks, at }: Op, { proposals_until }: SessionEntry) =>
      given.says("NOT o.asks OR s.proposals_until IS NULL OR s.proposals_until <= o.at") &&
      asks &&
      (proposals_until ?? 0) > at
    const isOpen = ({ closed_at }: SessionEntry) => closed_at === null || !given.says("s.closed_at IS NULL")
    const mayHaveGrant = ({ asks, at }: Op, { grants_until }: SessionEntry) =>
      asks &&
      grants_until !== null &&
      grants_until > at &&
      given.says("s.grants_until IS NULL OR s.grants_until <= o.at")
    const mayBeAnswered = (op: Op, session: SessionEntry) =>
      mayBeProposed(op, session) || mayHaveGrant(op, session)
    const eligible: Array<Op> = []
    for (const op of ops) {
      const session = transaction.get(model.sessions, sessionKey(op))
      if (session === undefined || !isOpen(session) || mayBeAnswered(op, session)) continue
      const revision = transaction.get(model.rules, op.org_id)?.revision ?? 0
      if (
        op.rules_revision !== null &&
        op.rules_revision !== revision &&
        given.says("o.rules_revision = coalesce(r.revision, 0)")
      ) {
        continue
      }
      if (saved.has(op.op) && given.says("NOT EXISTS (SELECT FROM saved WHERE saved.op = o.op)")) continue
      if (refused.has(op.op) && given.says("NOT EXISTS (SELECT FROM refused WHERE refused.op = o.op)"))
        continue
      if (given.says("FOR NO KEY UPDATE OF s")) {
        const locked = given.says("FOR NO KEY UPDATE OF s SKIP LOCKED")
          ? transaction.tryLock(model.sessions, sessionKey(op))
          : yield* transaction.lock(model.sessions, sessionKey(op))
        if (locked === undefined || locked === "locked" || !isOpen(locked) || mayBeAnswered(op, locked))
          continue
      }
      eligible.push(op)
    }

    const decisions = byOp(given.rows("op", "old_decision"))
    const outcomes = byOp(given.rows("op", "status", "result"))
    const transitions = byOp(given.rows("op", "old_status"))
    const applied: Array<Op> = []

    function* insertStep(op: Op, row: GivenRow): Generator<Wait, boolean, void> {
      const { at, org_id, session_id } = op
      const step_id = row.text("step_id")
      const key = stepKey({ org_id, session_id, step_id })
      // ON CONFLICT DO NOTHING: waits for a transaction that inserts the same step.
      if ((yield* transaction.lock(model.steps, key)) !== undefined) return false
      model.writeStep(transaction, {
        org_id,
        session_id,
        step_id,
        task_id: row.textOrNull("task_id"),
        tool: row.text("tool"),
        action_class: row.text("action_class"),
        arguments: row.textOrNull("arguments"),
        arguments_digest: row.text("arguments_digest"),
        rule_id: row.textOrNull("rule_id"),
        decision: row.text("decision"),
        reason: row.text("reason"),
        approval_id: row.textOrNull("approval_id"),
        proposal_approval_id: null,
        grant_id: null,
        requested_by_id: row.text("requested_by_id"),
        requested_at: at,
        last_decision: null,
        outcome_status: null,
        outcome_at: null
      })
      return true
    }

    /** UPDATE of a step whose row, as the statement sees it and under its lock, meets a condition. */
    function* updateStep(
      { org_id, session_id }: Op,
      step_id: string,
      holds: (row: StepEntry) => boolean,
      change: (row: StepEntry) => StepEntry
    ): Generator<Wait, boolean, void> {
      const key = stepKey({ org_id, session_id, step_id })
      const seen = transaction.get(model.steps, key)
      if (seen === undefined || !holds(seen)) return false
      const row = yield* transaction.lock(model.steps, key)
      if (row === undefined || !holds(row)) return false
      model.writeStep(transaction, change(row))
      return true
    }

    function* transition({ org_id }: Op, row: GivenRow): Generator<Wait, boolean, void> {
      const key = approvalKey({ org_id, approval_id: row.text("approval_id") })
      const holds = (one: {
        readonly status: string
        readonly stage: string
        readonly expires_at: number
        readonly expiring_notified: boolean
        readonly approvals_given: number
      }) =>
        (one.status === row.text("old_status") || !given.says("a.status = n.old_status")) &&
        (one.stage === row.text("old_stage") || !given.says("a.stage = n.old_stage")) &&
        (one.expires_at === row.time("old_expires_at") || !given.says("= n.old_expires_at")) &&
        (one.expiring_notified === row.boolean("old_expiring_notified") ||
          !given.says("a.expiring_notified = n.old_expiring_notified")) &&
        (one.approvals_given === row.number("old_approvals_given") ||
          !given.says("a.approvals_given = n.old_approvals_given"))
      const seen = transaction.get(model.approvals, key)
      if (seen === undefined || !holds(seen)) return false
      const approval = yield* transaction.lock(model.approvals, key)
      if (approval === undefined || !holds(approval)) return false
      model.writeApproval(transaction, withGivenState(approval, row))
      return true
    }

    const isWithoutOutcome = (row: StepEntry) =>
      row.outcome_at === null || !given.says("s.outcome_at IS NULL")
    const decisionOf = (row: StepEntry) => row.last_decision ?? row.decision
    for (const op of eligible) {
      const step = newSteps.get(op.op)
      const decision = decisions.get(op.op)
      const outcome = outcomes.get(op.op)
      const state = transitions.get(op.op)
      let isApplied = false
      if (step !== undefined) isApplied = yield* insertStep(op, step)
      if (decision !== undefined) {
        isApplied = yield* updateStep(
          op,
          decision.text("step_id"),
          (row) =>
            isWithoutOutcome(row) &&
            (decisionOf(row) === decision.text("old_decision") || !given.says("= n.old_decision")),
          (row) => ({ ...row, last_decision: decision.text("new_decision") })
        )
      }
      if (outcome !== undefined) {
        isApplied = yield* updateStep(
          op,
          outcome.text("step_id"),
          (row) =>
            isWithoutOutcome(row) &&
            (decisionOf(row) === "allow" || !given.says("coalesce(s.last_decision, s.decision) = 'allow'")),
          (row) => ({ ...row, outcome_status: outcome.text("status"), outcome_at: op.at })
        )
      }
      if (state !== undefined) isApplied = yield* transition(op, state)
      if (isApplied) applied.push(op)
    }
    yield PAUSE

    const approvals = byOp(given.rows("op", "review_deadline_at"))
    const events = given.rows("op", "position", "tail")
    const audits = byOp(given.rows("op", "entry_id"))
    const numbered = new Map<
      number,
      { readonly op: Op; readonly before: number; readonly trace_id: string }
    >()
    for (const op of applied) {
      const session = yield* transaction.lock(model.sessions, sessionKey(op))
      if (session === undefined) continue
      const before = session.last_event
      model.writeSession(transaction, { ...session, last_event: before + op.event_count })
      numbered.set(op.op, { op, before, trace_id: session.trace_id })
    }
    for (const row of events) {
      const own = numbered.get(row.number("op"))
      if (own === undefined) continue
      const number = own.before + row.number("position")
      model.insertEvent(transaction, {
        org_id: own.op.org_id,
        session_id: own.op.session_id,
        number,
        type: row.text("type"),
        step_id: row.textOrNull("step_id"),
        data: `{"id":${number},${row.text("tail")}`
      })
    }
    for (const [id, { op }] of numbered) {
      const approval = approvals.get(id)
      const step = newSteps.get(id)
      if (approval !== undefined && step !== undefined) {
        const text = step.textOrNull("arguments")
        model.writeApproval(transaction, {
          org_id: op.org_id,
          approval_id: step.text("approval_id"),
          session_id: op.session_id,
          step_id: step.text("step_id"),
          task_id: step.textOrNull("task_id"),
          tool: step.text("tool"),
          action_class: step.text("action_class"),
          arguments: text,
          arguments_bytes: text === null ? 0 : Buffer.byteLength(text),
          arguments_digest: step.text("arguments_digest"),
          rule_summary: approval.textOrNull("rule_summary"),
          agent_summary: approval.textOrNull("agent_summary"),
          telling_arguments: approval.textOrNull("telling_arguments"),
          requested_at: op.at,
          requested_by_id: step.text("requested_by_id"),
          review_deadline_at: approval.time("review_deadline_at"),
          escalation_deadline_at: approval.timeOrNull("escalation_deadline_at"),
          expiring_seconds: approval.numberOrNull("expiring_seconds"),
          timeout_action: approval.text("timeout_action"),
          self_approval: approval.boolean("self_approval"),
          quorum: approval.textOrNull("quorum"),
          approvals_required: approval.number("approvals_required"),
          votes: null,
          approvals_given: 0,
          status: "pending",
          stage: "reviewer",
          expires_at: approval.time("review_deadline_at"),
          expiring_notified: false,
          escalated_at: null,
          outcome: null,
          decision_source: null,
          decided_at: null,
          decided_by_id: null,
          decided_by_name: null,
          comment: null,
          next_due_at: approval.timeOrNull("next_due_at"),
          ...withoutProposal
        })
      }
      const audit = audits.get(id)
      if (audit !== undefined) {
        model.insertAudit(transaction, {
          org_id: op.org_id,
          entry_id: audit.text("entry_id"),
          action: audit.text("action"),
          target_id: audit.text("target_id"),
          actor_id: audit.textOrNull("actor_id")
        })
      }
    }
    const accepted = new Map<string, number>()
    for (const row of notified) {
      const op = row.number("op")
      if (!numbered.has(op)) continue
      accepted.set(row.text("event_id"), op)
      if (row.text("endpoints") === "") continue
      model.insertNotification(transaction, {
        org_id: row.text("org_id"),
        event_id: row.text("event_id"),
        type: row.text("type"),
        approval_id: row.textOrNull("approval_id")
      })
    }
    deliveries.insert((event_id) => accepted.has(event_id))

    const delivered = Map.groupBy(
      deliveries.result.map((row) => row()).filter(({ seq }) => seq !== null),
      ({ event_id }) => accepted.get(event_id)
    )
    const written = [...numbered].flatMap(([id, { before, op, trace_id }]): ReadonlyArray<object> => {
      const common = { op: id, trace_id, newest: before + op.event_count, saved: null, refusal: null }
      const own = delivered.get(id) ?? []
      return own.length === 0
        ? [{ ...common, ...withoutDelivery }]
        : own.map(({ event_id: _, ...row }) => ({ ...common, ...row }))
    })
    const unwritten = { trace_id: null, newest: null, ...withoutDelivery }
    return [
      ...written,
      ...[...saved].map(([op, text]) => ({ op, ...unwritten, saved: text, refusal: null })),
      ...[...refused].map((op) => ({ op, ...unwritten, saved: null, refusal: "EndpointsChanged" }))
    ]
  }
