import { DateTime, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { NewGrant } from "../../../api/Grants.ts"
import { GrantNotAllowed, InvalidRequest, LimitReached } from "../../../api/Problems.ts"
import type { Decision } from "../../../domain/approvals/Approval.ts"
import type { GrantConditions } from "../../../domain/approvals/grantAllows.ts"
import { grantDigestInSlices } from "../../../domain/approvals/grantDigest.ts"
import {
  DEFAULT_GRANT_SECONDS,
  type Grant,
  MAX_GRANT_CONDITIONS_TEXT,
  MAX_ORGANIZATION_GRANTS,
  MAX_SESSION_GRANTS
} from "../../../domain/approvals/Grant.ts"
import { RuleCondition } from "../../../domain/approvals/RuleCondition.ts"
import { approvalsRequired, DEFAULT_QUORUM } from "../../../domain/approvals/Quorum.ts"
import { describeFirst } from "../../../domain/describeIssue.ts"
import { GrantId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { formatTimestamp, type Timestamp } from "../../../domain/Time.ts"
import type { Audit } from "../../identity/Audit.ts"
import { rowBytes, type StoredUsage } from "../../identity/StoredUsage.ts"
import type { ApprovalRow } from "../approvalRows.ts"
import { digestInTurns } from "../digestInTurns.ts"
import { compileConditions } from "./compileConditions.ts"
import { countOpenGrants, findGrant, insertGrant } from "./rows.ts"
import { parseArguments } from "../parseArguments.ts"

/** A requested grant whose conditions are valid. */
export interface PreparedGrant {
  readonly request: NewGrant
  readonly conditions: GrantConditions
}

/** Why a grant is refused; then the approval stays as it is. */
export type GrantRefusal = InvalidRequest | GrantNotAllowed | LimitReached

/** Most errors that one problem lists. */
const MAX_ERRORS = 20

const invalid = (pointer: string, detail: string) =>
  new InvalidRequest({
    detail: `The grant cannot be made: ${describeFirst([{ pointer, detail }])} This request changed nothing.`,
    errors: [{ pointer, detail }]
  })

/** Checks the parts of a requested grant that do not depend on the approval. */
export const prepareGrant = Effect.fnUntraced(function* (
  decision: Decision,
  request: NewGrant
): Effect.fn.Return<PreparedGrant, InvalidRequest> {
  const when = request.when ?? []
  if (decision !== "approve") return yield* invalid("#/grant", "Expected a grant only with an approval.")
  if (request.scope === "condition" && when.length === 0) {
    return yield* invalid("#/grant/when", "Expected conditions, because the scope is `condition`.")
  }
  if (request.scope !== "condition" && when.length > 0) {
    return yield* invalid("#/grant/when", "Expected conditions only with the scope `condition`.")
  }
  if (JSON.stringify(when).length > MAX_GRANT_CONDITIONS_TEXT) {
    return yield* invalid("#/grant/when", `Expected at most ${MAX_GRANT_CONDITIONS_TEXT} characters of JSON.`)
  }
  const conditions = yield* compileConditions(when)
  const faults = [...(conditions.exceeded === undefined ? [] : [conditions.exceeded]), ...conditions.faults]
  if (faults.length > 0) {
    const errors = faults
      .slice(0, MAX_ERRORS)
      .map(({ detail, pointer }) => ({ detail, pointer: pointer.replace(/^#\/rules(\/0)?/, "#/grant") }))
    return yield* new InvalidRequest({
      detail: `A condition of the grant is invalid: ${describeFirst(errors)} This request changed nothing.`,
      errors
    })
  }
  return { request, conditions }
})

/** What creating a grant uses. */
export interface GrantDeps {
  readonly sql: SqlClient.SqlClient
  readonly audit: Audit["Service"]
  readonly usage: StoredUsage["Service"]
}

/** Fails if the approval needs several people: a grant would decide further steps without the others. */
export const requireOnePerson = ({ quorum }: ApprovalRow): Effect.Effect<void, GrantNotAllowed> =>
  approvalsRequired(quorum ?? DEFAULT_QUORUM) > 1
    ? new GrantNotAllowed({
        detail:
          "The approval needs more than one person, and a grant stands for one. Approve it without `grant`. This request changed nothing."
      })
    : Effect.void

/**
 * Makes the grant that was requested with an approval, in the transaction that approves it and has locked its session. If it is refused, that
 * transaction fails, and the approval is not decided either.
 */
export const createGrant = Effect.fnUntraced(function* (
  { audit, sql, usage }: GrantDeps,
  principal: Principal,
  approval: ApprovalRow,
  { conditions, request }: PreparedGrant,
  now: Timestamp
): Effect.fn.Return<Grant, GrantRefusal> {
  const { org_id, session_id } = approval
  const stepArguments = approval.arguments === null ? undefined : parseArguments(approval.arguments)
  if (request.scope === "condition" && !conditions.hold(stepArguments)) {
    return yield* invalid("#/grant/when", "Expected conditions that hold for the step which is approved.")
  }
  const limits = { session: MAX_SESSION_GRANTS, organization: MAX_ORGANIZATION_GRANTS }
  const open = yield* Effect.orDie(countOpenGrants(sql, approval, limits, now))
  if (open.session >= limits.session) return yield* limitReached("agent session", limits.session)
  if (open.organization >= limits.organization) {
    return yield* limitReached("organization", limits.organization)
  }
  const conditionsText = JSON.stringify(request.when ?? [])
  const expires_at = expiryOf(request, now)
  const grant_id = yield* GrantId.generate
  const max_uses = usesOf(request)
  yield* Effect.orDie(
    insertGrant(sql, {
      org_id,
      grant_id,
      session_id,
      approval_id: approval.approval_id,
      step_id: approval.step_id,
      scope: request.scope,
      tool: approval.tool,
      action_class: approval.action_class,
      content_digest: request.scope === "arguments" ? yield* contentDigest(approval, stepArguments) : null,
      conditions: conditionsText,
      reason: request.reason ?? "",
      max_uses,
      created_at: now,
      created_by_id: principal.actor.id,
      created_by_name: principal.actor.name,
      expires_at
    })
  )
  yield* audit.record(principal, "grant.created", grant_id, {
    session_id,
    approval_id: approval.approval_id,
    scope: request.scope,
    tool: approval.tool,
    action_class: approval.action_class,
    expires_at: formatTimestamp(expires_at),
    max_uses
  })
  const bytes = rowBytes.grant + Buffer.byteLength(conditionsText)
  yield* sql.afterCommit(Effect.sync(() => usage.add(org_id, { bytes })))
  const created = yield* findGrant(sql, org_id, grant_id, now)
  return created ?? (yield* Effect.die(new Error("A grant must exist after it was inserted")))
})

const expiryOf = ({ lasts_seconds = DEFAULT_GRANT_SECONDS }: NewGrant, created_at: Timestamp): Timestamp =>
  DateTime.add(created_at, { seconds: lasts_seconds })

const usesOf = ({ max_uses = null }: NewGrant): number | null => max_uses

const areSameConditions = Schema.toEquivalence(Schema.Array(RuleCondition))

/** Whether a grant is one that this request would have made: allowing the same, as often and as long. */
export const isGrantOf = ({ request }: PreparedGrant, grant: Grant): boolean =>
  grant.scope === request.scope &&
  grant.max_uses === usesOf(request) &&
  DateTime.Equivalence(grant.expires_at, expiryOf(request, grant.created_at)) &&
  areSameConditions(grant.when, request.when ?? [])

/** The digest of the content of a step, apart from its id. */
export const contentDigest = (
  step: Pick<ApprovalRow, "org_id" | "session_id" | "tool" | "action_class">,
  stepArguments: Schema.Json | undefined
): Effect.Effect<string> =>
  digestInTurns(() =>
    grantDigestInSlices({
      org_id: step.org_id,
      session_id: step.session_id,
      tool: step.tool,
      action_class: step.action_class,
      ...(stepArguments === undefined ? {} : { arguments: stepArguments })
    })
  )

const limitReached = (owner: string, limit: number) =>
  new LimitReached({
    detail: `Too many active grants (limit ${limit} for each ${owner}). Revoke some, or approve without \`grant\`. This request changed nothing.`
  })
