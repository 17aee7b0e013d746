import { DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { StepRequest } from "../../../api/AgentSessions.ts"
import type { Ruling } from "../../../domain/approvals/ApprovalRule.ts"
import { proposalDigestInSlices } from "../../../domain/approvals/StepDigest.ts"
import type { SessionId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import type { Timestamp } from "../../../domain/Time.ts"
import { digestInTurns } from "../digestInTurns.ts"
import { contentDigest } from "../Grants/createGrant.ts"
import { canHaveGrants } from "../Grants/rows.ts"
import { makeTakeGrant } from "../Grants/takeGrant.ts"
import { findProposal, useProposal } from "../proposalRows.ts"
import type { LockedSession } from "../Sessions/rows.ts"
import { type AdvanceDecision, contentOf } from "./newStep.ts"

/**
 * Makes a function that uses the counter-proposal or the grant which allows a new step, if its rule requires an approval. The caller has
 * locked the session, whose row tells until when it can have them.
 */
export const makeTakeAdvance = (sql: SqlClient.SqlClient) => {
  const takeGrant = makeTakeGrant(sql)
  return Effect.fnUntraced(function* (
    { actor, org_id }: Principal,
    session_id: SessionId,
    step: StepRequest,
    { created_by_id, grants_until, proposals_until }: LockedSession,
    ruling: Ruling,
    now: Timestamp
  ): Effect.fn.Return<AdvanceDecision> {
    if (ruling.effect !== "require_approval") return {}
    const use = { org_id, session_id, requesters: [actor.id, created_by_id], now }
    if (proposals_until !== null && DateTime.isGreaterThan(proposals_until, now)) {
      const content = { org_id, session_id, ...contentOf(step) }
      const digest = yield* digestInTurns(() => proposalDigestInSlices(content))
      const proposal = yield* Effect.orDie(findProposal(sql, { ...use, digest, terms: ruling.terms }))
      if (proposal !== undefined) {
        yield* Effect.orDie(useProposal(sql, { org_id, approval_id: proposal.approval_id }, step.step_id))
        return { proposal }
      }
    }
    if (!canHaveGrants(grants_until, now)) return {}
    const grant = yield* takeGrant({
      ...use,
      tool: step.tool,
      action_class: step.action_class,
      arguments: step.arguments,
      contentDigest: contentDigest({ org_id, session_id, ...step }, step.arguments),
      ruling
    })
    return { grant }
  })
}
