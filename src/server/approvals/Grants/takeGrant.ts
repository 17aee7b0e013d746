import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type AskingStep, grantAllows, type GrantConditions } from "../../../domain/approvals/grantAllows.ts"
import { GrantScope, MAX_SESSION_GRANTS } from "../../../domain/approvals/Grant.ts"
import { RuleCondition } from "../../../domain/approvals/RuleCondition.ts"
import { GrantId, KeyId, type OrgId, type SessionId } from "../../../domain/Ids.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { LruCache } from "../../concurrency/LruCache.ts"
import { identityMakers } from "../../identity/identityMakers.ts"
import { mayDecide } from "../../identity/mayDecide.ts"
import { rowsOf } from "../../store/rows.ts"
import { compileConditions } from "./compileConditions.ts"

/** Grants whose conditions one replica keeps compiled, and their weight in all: about 1 kB a unit. */
const MAX_COMPILED = 1_000
const MAX_COMPILED_WEIGHT = 10_000

const CandidateRow = Schema.Struct({
  grant_id: GrantId,
  scope: GrantScope,
  tool: Schema.String,
  action_class: Schema.String,
  content_digest: Schema.NullOr(Schema.String),
  conditions: Schema.Array(RuleCondition),
  reason: Schema.String,
  created_by_id: KeyId,
  created_by_name: Schema.String,
  makers: Schema.Array(KeyId),
  groups: Schema.Array(Schema.String)
})

const candidateRows = rowsOf(CandidateRow)

/** The grant that allows a step. */
export interface TakenGrant {
  readonly grant_id: GrantId
  readonly reason: string
}

/** A step that asks, in a session whose row the caller has locked. */
export interface GrantRequest extends Omit<AskingStep, "contentDigest"> {
  /** Its `grantDigest`. */
  readonly contentDigest: Effect.Effect<string>
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly now: Timestamp
}

/** Makes a function that counts a use of the first grant which allows a step, narrow ones before wide ones. */
export const makeTakeGrant = (sql: SqlClient.SqlClient) => {
  const compiled = new LruCache<GrantConditions>({ entries: MAX_COMPILED, weight: MAX_COMPILED_WEIGHT })

  /** The conditions of a grant never change. */
  const conditionsOf = Effect.fnUntraced(function* ({ conditions, grant_id }: typeof CandidateRow.Type) {
    const known = compiled.get(grant_id)
    if (known !== undefined) return known
    const fresh = yield* compileConditions(conditions)
    compiled.set(grant_id, fresh, fresh.weight)
    return fresh
  })

  /** The active grants of the step's session for its tool, whose makers can still decide approvals. */
  const findCandidates = ({ action_class, now, org_id, session_id, tool }: GrantRequest) =>
    candidateRows.all(sql`
      SELECT
        grants.grant_id, grants.scope, grants.tool, grants.action_class, grants.content_digest, grants.conditions,
        grants.reason, grants.created_by_id, grants.created_by_name, ${identityMakers(sql)} AS makers, api_keys.groups
      FROM grants
        JOIN api_keys ON api_keys.org_id = grants.org_id AND api_keys.key_id = grants.created_by_id
      WHERE grants.org_id = ${org_id}
        AND grants.session_id = ${session_id}
        AND grants.ended_at IS NULL
        AND grants.expires_at > ${toDate(now)}
        AND grants.tool = ${tool}
        AND grants.action_class = ${action_class}
        AND ${mayDecide(sql, now)}
      ORDER BY array_position('{arguments,condition,tool}', grants.scope), grants.grant_id
      LIMIT ${MAX_SESSION_GRANTS}
    `)

  /**
   * Counts a use. False if the grant has ended since it was read. The conditions hold for the newest version of the row, so that a grant
   * that another transaction revokes at the same time is either used before or not at all.
   */
  const countUse = ({ now, org_id }: GrantRequest, grant_id: GrantId) =>
    Effect.map(
      sql`
        UPDATE grants
        SET
          uses = uses + 1,
          last_used_at = ${toDate(now)},
          ended_at = CASE WHEN uses + 1 = max_uses THEN ${toDate(now)}::timestamptz END,
          end_reason = CASE WHEN uses + 1 = max_uses THEN 'used_up' END
        WHERE org_id = ${org_id}
          AND grant_id = ${grant_id}
          AND ended_at IS NULL
          AND expires_at > ${toDate(now)}
          AND (max_uses IS NULL OR uses < max_uses)
        RETURNING grant_id
      `,
      (rows) => rows.length > 0
    )

  return Effect.fnUntraced(function* (request: GrantRequest): Effect.fn.Return<TakenGrant | undefined> {
    const candidates = yield* Effect.orDie(findCandidates(request))
    // Once for all grants: the arguments can be large.
    const contentDigest = candidates.some(({ scope }) => scope === "arguments")
      ? yield* request.contentDigest
      : ""
    for (const row of candidates) {
      const isAllowed = grantAllows(
        {
          scope: row.scope,
          tool: row.tool,
          action_class: row.action_class,
          content_digest: row.content_digest,
          conditions: yield* conditionsOf(row),
          granter: {
            actor: { id: row.created_by_id, name: row.created_by_name },
            makers: row.makers,
            groups: row.groups
          }
        },
        { ...request, contentDigest: () => contentDigest }
      )
      if (isAllowed && (yield* Effect.orDie(countUse(request, row.grant_id)))) {
        return { grant_id: row.grant_id, reason: row.reason }
      }
    }
    return undefined
  })
}
