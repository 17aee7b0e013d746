/**
 * The statements of approvals, sessions and streams on the model: each does what its SQL does. A statement is recognized by its text, and
 * takes its locks and the conditions of its writes from it, so that a lock or a condition that is missing there is missing here. A statement
 * that is not known ends the run: whoever changes the SQL changes the model, and the contract test compares the two.
 */
import type { Transaction, Wait } from "../core/Store.ts"
import {
  approvalKey,
  type ApprovalEntry,
  type ApprovalModel,
  type SessionEntry,
  sessionKey,
  type StepEntry,
  stepKey
} from "./ApprovalModel.ts"
import { Given } from "./Given.ts"
import { grantStatements } from "./grantStatements.ts"
import { queuedDeliveries } from "./queuedDeliveries.ts"
import {
  approvalRow,
  date,
  dateOrNull,
  type ModelStatement,
  newApproval,
  newStep,
  PAUSE,
  resumedStep,
  withGivenState
} from "./rows.ts"
import { GROUPS } from "./Plan.ts"
import { writeSessions } from "./writeSessions.ts"

/** Makes the statement of one kind. */
export type Handler = (model: ApprovalModel, given: Given) => ModelStatement

/** Makes the statement for an SQL text and its parameters. */
export const statementOf = (
  model: ApprovalModel,
  sql: string,
  parameters: ReadonlyArray<unknown>
): ModelStatement => {
  const given = new Given(sql, parameters)
  const known = handlers.get(sql) ?? kinds.find(([pattern]) => pattern.test(given.text))?.[1]
  if (known === undefined) throw new Error(`The model does not know this statement: ${given.text}`)
  handlers.set(sql, known)
  return known(model, given)
}

const handlers = new Map<string, Handler>()

/** A statement that reads, in one snapshot. */
const reads =
  (read: (model: ApprovalModel, given: Given, transaction: Transaction) => ReadonlyArray<object>): Handler =>
  (model, given) =>
    function* (transaction) {
      const rows = read(model, given, transaction)
      yield PAUSE
      return rows
    }

/** A statement that inserts rows. */
const inserts =
  (insert: (model: ApprovalModel, given: Given, transaction: Transaction) => void): Handler =>
  (model, given) =>
    function* (transaction) {
      yield PAUSE
      insert(model, given, transaction)
      return []
    }

/**
 * FOR NO KEY UPDATE of rows that a statement has read: waits for the lock of each, in order, and returns the newest
 * versions. Without such a clause it returns what the statement has read.
 */
function* locked<Row>(
  given: Given,
  table: string,
  row: Row,
  lock: () => Generator<Wait, Row | undefined, void>
): Generator<Wait, Row | undefined, void> {
  const clause = /FOR NO KEY UPDATE(?: OF ([\w, ]+?))?(?: SKIP LOCKED)?$/.exec(given.text)
  if (clause === null) return row
  const [, tables] = clause
  if (tables !== undefined && !tables.split(", ").includes(table)) return row
  return yield* lock()
}

const sessionOf = (given: Given) => ({
  org_id: given.scalars.text("org_id"),
  session_id: given.scalars.text("session_id")
})

const stepOf = (given: Given) => ({ ...sessionOf(given), step_id: given.scalars.text("step_id") })

const limitOf = (given: Given): number => {
  const limit = given.parameter(Number(/ LIMIT \$(\d+)/.exec(given.text)?.[1]))
  return typeof limit === "number" ? limit : Infinity
}

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Due approvals in the order of the index, locked with their sessions; locked rows are skipped. */
const lockDueApprovals: Handler = (model, given) =>
  function* (transaction) {
    const now = given.scalars.time("next_due_at")
    const [, time, id] = /> \(\$(\d+), \$(\d+)\)/.exec(given.text) ?? []
    const after = given.parameter(Number(time))
    const afterMillis = after instanceof Date ? after.getTime() : 0
    const afterId = String(given.parameter(Number(id)))
    const isDue = (row: ApprovalEntry) => row.next_due_at !== null && row.next_due_at <= now
    const due = [...transaction.scan(model.approvals)]
      .map(([, row]) => row)
      .filter(
        (row) =>
          isDue(row) && ((row.next_due_at ?? 0) - afterMillis || compareText(row.approval_id, afterId)) > 0
      )
      .toSorted(
        (a, b) => (a.next_due_at ?? 0) - (b.next_due_at ?? 0) || compareText(a.approval_id, b.approval_id)
      )
    yield PAUSE
    const limit = limitOf(given)
    const skips = given.says("SKIP LOCKED")
    const rows: Array<object> = []
    for (const row of due) {
      if (rows.length === limit) break
      if (!given.says("FOR NO KEY UPDATE OF agent_sessions, approvals")) {
        rows.push(approvalRow(given, row))
        continue
      }
      const session = skips
        ? transaction.tryLock(model.sessions, sessionKey(row))
        : yield* transaction.lock(model.sessions, sessionKey(row))
      if (session === undefined || session === "locked") continue
      const approval = skips
        ? transaction.tryLock(model.approvals, approvalKey(row))
        : yield* transaction.lock(model.approvals, approvalKey(row))
      if (approval === undefined || approval === "locked" || !isDue(approval)) continue
      rows.push(approvalRow(given, approval))
    }
    return rows
  }

const lockPendingApprovals: Handler = (model, given) =>
  function* (transaction) {
    const session = sessionOf(given)
    const after = given.scalars.text("approval_id")
    const isWanted = (row: ApprovalEntry) => row.status === "pending" && row.approval_id > after
    const pending = [...transaction.scan(model.approvals, sessionKey(session))]
      .map(([, row]) => row)
      .filter(isWanted)
      .toSorted((a, b) => compareText(a.approval_id, b.approval_id))
    yield PAUSE
    const rows: Array<object> = []
    for (const row of pending) {
      if (rows.length === limitOf(given)) break
      const approval = yield* locked(given, "approvals", row, () =>
        transaction.lock(model.approvals, approvalKey(row))
      )
      if (approval !== undefined && isWanted(approval)) rows.push(approvalRow(given, approval))
    }
    return rows
  }

const lockApproval: Handler = (model, given) =>
  function* (transaction) {
    const key = approvalKey({
      org_id: given.scalars.text("org_id"),
      approval_id: given.scalars.text("approval_id")
    })
    const row = transaction.get(model.approvals, key)
    yield PAUSE
    if (row === undefined) return []
    const session = transaction.get(model.sessions, sessionKey(row))
    if (session === undefined) return []
    yield* locked(given, "agent_sessions", session, () => transaction.lock(model.sessions, sessionKey(row)))
    const approval = yield* locked(given, "approvals", row, () => transaction.lock(model.approvals, key))
    return approval === undefined ? [] : [approvalRow(given, approval)]
  }

const lockSession: Handler = (model, given) =>
  function* (transaction) {
    const key = sessionKey(sessionOf(given))
    const row = transaction.get(model.sessions, key)
    yield PAUSE
    if (row === undefined) return []
    const session = yield* locked(given, "agent_sessions", row, () => transaction.lock(model.sessions, key))
    if (session === undefined) return []
    const { closed_at, created_by_id, grants_until, proposals_until, task_id } = session
    return [
      {
        task_id,
        closed: closed_at !== null,
        created_by_id,
        proposals_until: dateOrNull(proposals_until),
        grants_until: dateOrNull(grants_until)
      }
    ]
  }

/** An update of one session's row. */
const updateSession =
  (change: (given: Given, row: SessionEntry) => SessionEntry): Handler =>
  (model, given) =>
    function* (transaction) {
      yield PAUSE
      const row = yield* transaction.lock(model.sessions, sessionKey(sessionOf(given)))
      if (row !== undefined) model.writeSession(transaction, change(given, row))
      return []
    }

/** An update of one step's row. */
const updateStep =
  (change: (given: Given, row: StepEntry) => StepEntry): Handler =>
  (model, given) =>
    function* (transaction) {
      yield PAUSE
      const row = yield* transaction.lock(model.steps, stepKey(stepOf(given)))
      if (row !== undefined) model.writeStep(transaction, change(given, row))
      return []
    }

const reserveNumbers: Handler = (model, given) =>
  function* (transaction) {
    yield PAUSE
    const rows: Array<object> = []
    for (const row of given.rows("org_id", "session_id", "count")) {
      const session = yield* transaction.lock(
        model.sessions,
        sessionKey({ org_id: row.text("org_id"), session_id: row.text("session_id") })
      )
      if (session === undefined) continue
      const last_event = session.last_event + row.number("count")
      model.writeSession(transaction, { ...session, last_event })
      rows.push({
        session_id: session.session_id,
        trace_id: session.trace_id,
        newest_before: session.last_event
      })
    }
    return rows
  }

const updateApprovals: Handler = (model, given) =>
  function* (transaction) {
    yield PAUSE
    for (const row of given.rows("approval_id", "status", "next_due_at")) {
      const key = approvalKey({ org_id: row.text("org_id"), approval_id: row.text("approval_id") })
      const approval = yield* transaction.lock(model.approvals, key)
      if (approval !== undefined) model.writeApproval(transaction, withGivenState(approval, row))
    }
    return []
  }

/** Stores the proposal of an approval, and until when its session has proposals. */
const insertProposal: Handler = (model, given) =>
  function* (transaction) {
    yield PAUSE
    const { scalars } = given
    const org_id = scalars.text("org_id")
    const key = approvalKey({ org_id, approval_id: scalars.text("approval_id") })
    const approval = yield* transaction.lock(model.approvals, key)
    if (approval === undefined) return []
    const expires_at = scalars.time("proposal_expires_at")
    model.writeApproval(transaction, {
      ...approval,
      proposed_arguments: scalars.text("proposed_arguments"),
      proposed_digest: scalars.text("proposed_digest"),
      proposed_by: scalars.text("proposed_by"),
      proposal_expires_at: expires_at,
      arguments_bytes: approval.arguments_bytes + Buffer.byteLength(scalars.text("proposed_arguments"))
    })
    const session = yield* transaction.lock(model.sessions, sessionKey(approval))
    if (session === undefined) return []
    const proposals_until = Math.max(session.proposals_until ?? 0, expires_at)
    model.writeSession(transaction, { ...session, proposals_until })
    return []
  }

const findProposals: Handler = (model, given) =>
  function* (transaction) {
    const { scalars } = given
    const after = given.says("proposal_expires_at >") ? scalars.time("proposal_expires_at") : 0
    const found = [...transaction.scan(model.approvals, sessionKey(sessionOf(given)))]
      .map(([, row]) => row)
      .filter(
        (row) =>
          row.proposed_digest === scalars.text("proposed_digest") &&
          (row.proposal_step_id === null || !given.says("proposal_step_id IS NULL")) &&
          (row.proposal_expires_at ?? 0) > after
      )
      .toSorted(
        (a, b) =>
          (a.proposal_expires_at ?? 0) - (b.proposal_expires_at ?? 0) ||
          compareText(a.approval_id, b.approval_id)
      )
    yield PAUSE
    return found.map((row) => approvalRow(given, row))
  }

const useProposal: Handler = (model, given) =>
  function* (transaction) {
    yield PAUSE
    const { scalars } = given
    const key = approvalKey({ org_id: scalars.text("org_id"), approval_id: scalars.text("approval_id") })
    const approval = yield* transaction.lock(model.approvals, key)
    if (approval === undefined) return []
    if (approval.proposal_step_id !== null && given.says("AND proposal_step_id IS NULL RETURNING")) return []
    model.writeApproval(transaction, { ...approval, proposal_step_id: scalars.text("proposal_step_id") })
    const session = yield* transaction.lock(model.sessions, sessionKey(approval))
    if (session === undefined) return []
    const others = [...transaction.scan(model.approvals, sessionKey(approval))].flatMap(([, row]) =>
      row.proposed_digest !== null &&
      row.proposal_step_id === null &&
      row.approval_id !== approval.approval_id
        ? [row.proposal_expires_at ?? 0]
        : []
    )
    const proposals_until = others.length === 0 ? null : Math.max(...others)
    model.writeSession(transaction, { ...session, proposals_until })
    return [{ session_id: session.session_id }]
  }

/** Creates the row of an organization without rules: waits for a transaction that inserts it too. */
const insertRules: Handler = (model, given) =>
  function* (transaction) {
    yield PAUSE
    const org_id = String(given.parameter(1))
    const row = yield* transaction.lock(model.rules, org_id)
    if (row === undefined) model.writeRules(transaction, { org_id, revision: 0, rules: "[]" })
    return []
  }

/** Locks an organization's rules. The plan has no shadow rules. */
const lockRules: Handler = (model, given) =>
  function* (transaction) {
    const org_id = given.scalars.text("org_id")
    const row = transaction.get(model.rules, org_id)
    yield PAUSE
    if (row === undefined) return []
    const rules = yield* locked(given, "approval_rules", row, () => transaction.lock(model.rules, org_id))
    return rules === undefined ? [] : [{ shadow_revision: 0, shadow_rules: null }]
  }

const replaceRules: Handler = (model, given) =>
  function* (transaction) {
    yield PAUSE
    const { scalars } = given
    const row = yield* transaction.lock(model.rules, scalars.text("org_id"))
    if (row === undefined) return []
    if (scalars.has("revision") && row.revision !== scalars.number("revision")) return []
    const revision = row.revision + 1
    model.writeRules(transaction, { ...row, revision, rules: scalars.text("rules") })
    return [{ revision }]
  }

/** Deliveries that are queued by a statement of their own. */
const insertDeliveries: Handler = (model, given) =>
  function* (transaction) {
    const { insert, result } = queuedDeliveries(model, transaction, given)
    yield PAUSE
    insert(() => true)
    return result.map((one) => one())
  }

/** Every statement, recognized by the beginning of its text, and by what sets it apart from others. */
const kinds: ReadonlyArray<readonly [RegExp, Handler]> = [
  [/^WITH ops AS /, writeSessions],
  [/^WITH given AS .* SELECT g\.delivery_id, d\.is_full/, insertDeliveries],
  [/^SET LOCAL lock_timeout = 0$/, inserts(() => {})],
  [/^SELECT clock_timestamp\(\) AS now$/, reads(({ store }) => [{ now: date(store.clockMillis()) }])],
  [
    /^SELECT pg_notify\(\$1, payload\) FROM unnest/,
    inserts((model, given, transaction) =>
      model.notify(
        transaction,
        String(given.parameter(1)),
        given.rows("payload").map((row) => row.text("payload"))
      )
    )
  ],
  [/^SELECT .* FROM approvals JOIN agent_sessions USING .* approvals\.next_due_at <= /, lockDueApprovals],
  [/^SELECT .* FROM approvals WHERE .* AND approval_id > \$3 AND status = 'pending'/, lockPendingApprovals],
  [/^SELECT approvals\.org_id, .* FROM agent_sessions JOIN approvals /, lockApproval],
  [
    /^SELECT approvals\.org_id, .* FROM approvals WHERE org_id = \$1 AND approval_id = \$2$/,
    reads((model, given, transaction) => {
      const row = transaction.get(
        model.approvals,
        approvalKey({ org_id: given.scalars.text("org_id"), approval_id: given.scalars.text("approval_id") })
      )
      return row === undefined ? [] : [approvalRow(given, row)]
    })
  ],
  [
    /^SELECT approvals\.org_id, .* FROM unnest\(.* JOIN approvals USING .*arguments_bytes <= /,
    reads((model, given, transaction) =>
      given.rows("org_id", "approval_id").flatMap((wanted) => {
        const row = transaction.get(
          model.approvals,
          approvalKey({ org_id: wanted.text("org_id"), approval_id: wanted.text("approval_id") })
        )
        if (row === undefined || row.arguments_bytes > given.scalars.number("arguments_bytes")) return []
        return [approvalRow(given, row)]
      })
    )
  ],
  [
    /^SELECT next_due_at FROM approvals WHERE next_due_at IS NOT NULL ORDER BY next_due_at LIMIT 1$/,
    reads((model, _, transaction) => {
      let first = Infinity
      for (const [, row] of transaction.scan(model.approvals))
        first = Math.min(first, row.next_due_at ?? first)
      return first === Infinity ? [] : [{ next_due_at: date(first) }]
    })
  ],
  [
    /^SELECT DISTINCT unnest\(groups\) AS name FROM api_keys /,
    reads(() => [...new Set(GROUPS.flat())].map((name) => ({ name })))
  ],
  [/^UPDATE approvals SET /, updateApprovals],
  [
    /^INSERT INTO approvals /,
    inserts((model, { scalars }, transaction) => model.writeApproval(transaction, newApproval(scalars)))
  ],
  ...grantStatements,
  [/^WITH proposed AS \( UPDATE approvals /, insertProposal],
  [/^SELECT approvals\.approval_id, .* AND proposed_digest = /, findProposals],
  [/^WITH used AS \( UPDATE approvals SET proposal_step_id = /, useProposal],
  [/^SELECT task_id, closed_at IS NOT NULL AS closed, .* FROM agent_sessions /, lockSession],
  [
    /^SELECT session_id, task_id, .* FROM agent_sessions WHERE org_id = \$1 AND session_id = \$2$/,
    reads((model, given, transaction) => {
      const row = transaction.get(model.sessions, sessionKey(sessionOf(given)))
      if (row === undefined) return []
      const metadata: unknown = JSON.parse(row.metadata)
      return [{ ...row, metadata, created_at: date(row.created_at), closed_at: dateOrNull(row.closed_at) }]
    })
  ],
  [
    /^INSERT INTO agent_sessions /,
    inserts((model, given, transaction) => {
      for (const row of given.rows("session_id", "trace_id", "metadata")) {
        model.writeSession(transaction, {
          org_id: row.text("org_id"),
          session_id: row.text("session_id"),
          task_id: row.textOrNull("task_id"),
          trace_id: row.text("trace_id"),
          metadata: row.text("metadata"),
          created_at: row.time("created_at"),
          created_by_id: row.text("created_by_id"),
          created_by_name: row.text("created_by_name"),
          closed_at: null,
          last_event: 0,
          proposals_until: null,
          grants_until: null
        })
      }
    })
  ],
  [
    /^UPDATE agent_sessions SET closed_at = /,
    updateSession((given, row) => ({ ...row, closed_at: given.scalars.time("closed_at") }))
  ],
  [/^UPDATE agent_sessions SET last_event = last_event \+ added\.count /, reserveNumbers],
  [
    /^SELECT s\.org_id, s\.session_id, s\.task_id FROM unnest/,
    reads((model, given, transaction) =>
      given.rows("org_id", "session_id").flatMap((wanted) => {
        const row = transaction.get(
          model.sessions,
          sessionKey({ org_id: wanted.text("org_id"), session_id: wanted.text("session_id") })
        )
        return row === undefined
          ? []
          : [{ org_id: row.org_id, session_id: row.session_id, task_id: row.task_id }]
      })
    )
  ],
  [
    /^SELECT wanted\.index, json_build_object\(/,
    reads((model, given, transaction) =>
      given.rows("index", "step_id").flatMap((wanted) => {
        const key = {
          org_id: wanted.text("org_id"),
          session_id: wanted.text("session_id"),
          step_id: wanted.text("step_id")
        }
        const session = transaction.get(model.sessions, sessionKey(key))
        const step = transaction.get(model.steps, stepKey(key))
        return session === undefined || step === undefined
          ? []
          : [{ index: wanted.number("index"), saved: resumedStep(model, transaction, session, step) }]
      })
    )
  ],
  [
    /^SELECT step_id, task_id, .* FROM governed_steps WHERE /,
    reads((model, given, transaction) => {
      const row = transaction.get(model.steps, stepKey(stepOf(given)))
      if (row === undefined) return []
      return [
        {
          ...row,
          requested_at: date(row.requested_at),
          last_decision: row.last_decision ?? row.decision,
          completed: row.outcome_at !== null
        }
      ]
    })
  ],
  [
    /^INSERT INTO governed_steps /,
    inserts((model, { scalars }, transaction) => {
      const row = newStep(scalars)
      if (model.steps.cells.has(stepKey(row))) throw new Error(`Duplicate step ${row.step_id}`)
      model.writeStep(transaction, row)
    })
  ],
  [
    /^UPDATE governed_steps SET last_decision = \$1 /,
    updateStep((given, row) => ({ ...row, last_decision: given.scalars.text("last_decision") }))
  ],
  [
    /^UPDATE governed_steps SET outcome_status = \$1, /,
    updateStep((given, row) => ({
      ...row,
      outcome_status: given.scalars.text("outcome_status"),
      outcome_at: given.scalars.time("outcome_at")
    }))
  ],
  [
    /^INSERT INTO session_events /,
    inserts((model, given, transaction) => {
      for (const row of given.rows("session_id", "number", "data")) {
        model.insertEvent(transaction, {
          org_id: row.text("org_id"),
          session_id: row.text("session_id"),
          number: row.number("number"),
          type: row.text("type"),
          step_id: row.textOrNull("step_id"),
          data: row.text("data")
        })
      }
    })
  ],
  [
    /^SELECT last_event::float8 AS newest, closed_at IS NOT NULL AS closed, /,
    reads((model, given, transaction) => {
      const key = sessionKey(sessionOf(given))
      const row = transaction.get(model.sessions, key)
      if (row === undefined) return []
      let first: number | null = null
      for (const [, event] of transaction.scan(model.events, key))
        first = Math.min(first ?? Infinity, event.number)
      return [{ newest: row.last_event, closed: row.closed_at !== null, first_retained: first }]
    })
  ],
  [
    /^SELECT session\.last_event::float8 AS newest, event\.number/,
    reads((model, given, transaction) => {
      const after = Number(given.parameter(Number(/number > \$(\d+)::bigint/.exec(given.text)?.[1])))
      const limit = limitOf(given)
      const key = sessionKey(sessionOf(given))
      const row = transaction.get(model.sessions, key)
      if (row === undefined) return []
      const events = [...transaction.scan(model.events, key)]
        .map(([, event]) => event)
        .filter(({ number }) => number > after)
        .toSorted((a, b) => a.number - b.number)
        .slice(0, limit)
      const newest = row.last_event
      if (events.length === 0) return [{ newest, number: null, type: null, data: null }]
      return events.map(({ data, number, type }) => ({ newest, number, type, data }))
    })
  ],
  [
    /^SELECT known\.session_id, coalesce\(session\.last_event::float8, known\.newest \+ 1\) AS newest FROM unnest/,
    reads((model, given, transaction) =>
      given.rows("org_id", "session_id", "newest").flatMap((known) => {
        const session_id = known.text("session_id")
        const row = transaction.get(model.sessions, sessionKey({ org_id: known.text("org_id"), session_id }))
        const newest = row?.last_event ?? known.number("newest") + 1
        return newest <= known.number("newest") ? [] : [{ session_id, newest }]
      })
    )
  ],
  [
    /^SELECT revision::int, CASE WHEN revision = \$1::int THEN NULL ELSE rules END AS rules, .* FROM approval_rules /,
    reads((model, given, transaction) => {
      const row = transaction.get(model.rules, given.scalars.text("org_id"))
      if (row === undefined) return []
      const rules: unknown = given.parameter(1) === row.revision ? null : JSON.parse(row.rules)
      // The plan has no shadow rules.
      return [{ revision: row.revision, rules, shadow_revision: 0, shadow_since: null, shadow_rules: null }]
    })
  ],
  [/^INSERT INTO approval_rules .* ON CONFLICT \(org_id\) DO NOTHING$/, insertRules],
  [/^SELECT shadow_revision::int, shadow_rules FROM approval_rules /, lockRules],
  [/^UPDATE approval_rules SET rules = /, replaceRules],
  [
    /^SELECT endpoint_id, events, xmin::text AS version FROM notification_endpoints /,
    reads((model, given, transaction) => {
      const types: unknown = given.parameter(Number(/events && \$(\d+)/.exec(given.text)?.[1]))
      const wanted = Array.isArray(types) ? types.map(String) : []
      return [...transaction.scan(model.endpoints, given.scalars.text("org_id"))]
        .map(([, row]) => row)
        .filter(({ active, events }) => active && events.some((type) => wanted.includes(type)))
        .toSorted((a, b) => compareText(a.endpoint_id, b.endpoint_id))
        .map(({ endpoint_id, events, version }) => ({ endpoint_id, events, version }))
    })
  ],
  [
    /^INSERT INTO approval_events /,
    inserts((model, given, transaction) => {
      for (const row of given.rows("event_id", "type", "approval_id")) {
        model.insertNotification(transaction, {
          org_id: row.text("org_id"),
          event_id: row.text("event_id"),
          type: row.text("type"),
          approval_id: row.textOrNull("approval_id")
        })
      }
    })
  ],
  [
    /^INSERT INTO audit_log /,
    inserts((model, { scalars }, transaction) =>
      model.insertAudit(transaction, {
        org_id: scalars.text("org_id"),
        entry_id: scalars.text("entry_id"),
        action: scalars.text("action"),
        target_id: scalars.text("target_id"),
        actor_id: scalars.textOrNull("actor_id")
      })
    )
  ]
]
