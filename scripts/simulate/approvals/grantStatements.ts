/** The statements of standing grants on the model: each does what its SQL does, under the conditions that its text has. */
import { type GrantEntry, grantKey, sessionKey } from "./ApprovalModel.ts"
import type { Given } from "./Given.ts"
import { GROUPS } from "./Plan.ts"
import { date, dateOrNull, PAUSE } from "./rows.ts"
import type { Handler } from "./statements.ts"

const timeOf = (given: Given, parameter: number): number => {
  const value = given.parameter(parameter)
  if (!(value instanceof Date)) throw new Error(`Parameter ${parameter} is no time`)
  return value.getTime()
}

/** The conditions of a statement on a grant that has not ended. */
const isOpen = (given: Given, row: GrantEntry): boolean =>
  (row.ended_at === null || !given.says("ended_at IS NULL")) &&
  (!given.says("expires_at > ") || row.expires_at > given.scalars.time("expires_at")) &&
  (!given.says("uses < max_uses") || row.max_uses === null || row.uses < row.max_uses)

/** The row of a grant as a client gets it. Every key of the simulation can decide. */
const listed = (row: GrantEntry): object => {
  const conditions: unknown = JSON.parse(row.conditions)
  return {
    ...row,
    conditions,
    last_used_at: dateOrNull(row.last_used_at),
    created_at: date(row.created_at),
    expires_at: date(row.expires_at),
    ended_at: dateOrNull(row.ended_at),
    is_key_usable: true
  }
}

/** The number of a key in its organization: see `World`. */
const numberOf = (key_id: string): number => Number.parseInt(key_id.slice(-6), 16) % 100

/** The agent's key, which has made that of the second reviewer. */
const makersOf = (key_id: string): ReadonlyArray<string> =>
  numberOf(key_id) === 1
    ? [`key_${(Number.parseInt(key_id.slice(-6), 16) + 98).toString(16).padStart(32, "0")}`]
    : []

const countOpenGrants: Handler = (model, given) =>
  function* (transaction) {
    const org_id = given.scalars.text("org_id")
    const session_id = given.scalars.text("session_id")
    const open = [...transaction.scan(model.grants)]
      .map(([, row]) => row)
      .filter((row) => row.org_id === org_id && isOpen(given, row))
    yield PAUSE
    const session = open.filter((row) => row.session_id === session_id).length
    return [{ session, organization: open.length }]
  }

const insertGrant: Handler = (model, { scalars }) =>
  function* (transaction) {
    yield PAUSE
    model.writeGrant(transaction, {
      org_id: scalars.text("org_id"),
      grant_id: scalars.text("grant_id"),
      session_id: scalars.text("session_id"),
      approval_id: scalars.text("approval_id"),
      step_id: scalars.text("step_id"),
      scope: scalars.text("scope"),
      tool: scalars.text("tool"),
      action_class: scalars.text("action_class"),
      content_digest: scalars.textOrNull("content_digest"),
      conditions: scalars.text("conditions"),
      reason: scalars.text("reason"),
      uses: 0,
      max_uses: scalars.numberOrNull("max_uses"),
      last_used_at: null,
      created_at: scalars.time("created_at"),
      created_by_id: scalars.text("created_by_id"),
      created_by_name: scalars.text("created_by_name"),
      expires_at: scalars.time("expires_at"),
      ended_at: null,
      end_reason: null,
      revoked_by_id: null,
      revoked_by_name: null
    })
    return []
  }

const raiseGrantsUntil: Handler = (model, given) =>
  function* (transaction) {
    yield PAUSE
    const key = sessionKey({
      org_id: given.scalars.text("org_id"),
      session_id: given.scalars.text("session_id")
    })
    const row = yield* transaction.lock(model.sessions, key)
    if (row === undefined) return []
    const grants_until = Math.max(row.grants_until ?? 0, timeOf(given, 1))
    model.writeSession(transaction, { ...row, grants_until })
    return []
  }

const findGrant: Handler = (model, given) =>
  function* (transaction) {
    const { scalars } = given
    const found = [...transaction.scan(model.grants)].find(
      ([, row]) =>
        row.org_id === scalars.text("org_id") &&
        (scalars.has("grant_id")
          ? row.grant_id === scalars.text("grant_id")
          : row.approval_id === scalars.text("approval_id"))
    )
    yield PAUSE
    return found === undefined ? [] : [listed(found[1])]
  }

const SCOPES = ["arguments", "condition", "tool"]

const findCandidates: Handler = (model, given) =>
  function* (transaction) {
    const { scalars } = given
    const session = { org_id: scalars.text("org_id"), session_id: scalars.text("session_id") }
    const found = [...transaction.scan(model.grants, sessionKey(session))]
      .map(([, row]) => row)
      .filter(
        (row) =>
          isOpen(given, row) &&
          row.tool === scalars.text("tool") &&
          row.action_class === scalars.text("action_class")
      )
      .toSorted(
        (a, b) => SCOPES.indexOf(a.scope) - SCOPES.indexOf(b.scope) || (a.grant_id < b.grant_id ? -1 : 1)
      )
    yield PAUSE
    return found.map((row) => ({
      ...listed(row),
      makers: makersOf(row.created_by_id),
      groups: GROUPS[numberOf(row.created_by_id)] ?? []
    }))
  }

/** UPDATE of one grant: its conditions hold for the row as the statement sees it, and for its newest version under the lock. */
const updateGrant =
  (change: (given: Given, row: GrantEntry) => GrantEntry): Handler =>
  (model, given) =>
    function* (transaction) {
      const key = grantKey({
        org_id: given.scalars.text("org_id"),
        grant_id: given.scalars.text("grant_id")
      })
      const seen = transaction.get(model.grants, key)
      yield PAUSE
      if (seen === undefined || !isOpen(given, seen)) return []
      const row = yield* transaction.lock(model.grants, key)
      if (row === undefined || !isOpen(given, row)) return []
      model.writeGrant(transaction, change(given, row))
      return [{ grant_id: row.grant_id }]
    }

const endSessionGrants: Handler = (model, given) =>
  function* (transaction) {
    const { scalars } = given
    const session = { org_id: scalars.text("org_id"), session_id: scalars.text("session_id") }
    const open = [...transaction.scan(model.grants, sessionKey(session))].filter(([, row]) =>
      isOpen(given, row)
    )
    yield PAUSE
    for (const [key] of open) {
      const row = yield* transaction.lock(model.grants, key)
      if (row === undefined || !isOpen(given, row)) continue
      model.writeGrant(transaction, { ...row, ended_at: timeOf(given, 1), end_reason: "session_closed" })
    }
    return []
  }

export const grantStatements: ReadonlyArray<readonly [RegExp, Handler]> = [
  [/^SELECT \( ?SELECT count\(\*\)::int FROM \( SELECT FROM grants /, countOpenGrants],
  [/^INSERT INTO grants /, insertGrant],
  [/^UPDATE agent_sessions SET grants_until = greatest\(grants_until, \$1\)/, raiseGrantsUntil],
  [/^SELECT grants\.grant_id, .* FROM grants LEFT JOIN api_keys /, findGrant],
  [/^SELECT grants\.grant_id, .* FROM grants JOIN api_keys /, findCandidates],
  [
    /^UPDATE grants SET uses = uses \+ 1, /,
    updateGrant((given, row) => {
      const uses = row.uses + 1
      const now = timeOf(given, 1)
      const isLast = uses === row.max_uses
      return {
        ...row,
        uses,
        last_used_at: now,
        ended_at: isLast ? now : null,
        end_reason: isLast ? "used_up" : null
      }
    })
  ],
  [
    /^UPDATE grants SET ended_at = \$1, end_reason = 'revoked', /,
    updateGrant((given, row) => ({
      ...row,
      ended_at: timeOf(given, 1),
      end_reason: "revoked",
      revoked_by_id: given.scalars.text("revoked_by_id"),
      revoked_by_name: given.scalars.text("revoked_by_name")
    }))
  ],
  [/^UPDATE grants SET ended_at = \$1, end_reason = 'session_closed' /, endSessionGrants]
]
