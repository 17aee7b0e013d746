import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { OrgId, SessionId, StepId } from "../../../domain/Ids.ts"
import { onlyOrganization } from "../../store/onlyOrganization.ts"
import { int4Array, textArray } from "../../store/pgArrays.ts"
import { decodeResumedStep, type ResumedStep, resumedStepJson } from "./ResumedStep.ts"

/** The key of a step. */
export interface StepKey {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly step_id: StepId
}

/**
 * Reads saved steps without locks, in one statement: one result for each key, in order. On a cluster, where planning the statement takes most
 * of its time, a step is looked up first: most are new.
 */
export const findSavedSteps = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  keys: ReadonlyArray<StepKey>,
  org_id?: OrgId
) {
  const [first, ...others] = keys
  if (org_id !== undefined && first !== undefined && others.length === 0) {
    const { session_id, step_id } = first
    const existing = yield* sql`
      SELECT 1 FROM governed_steps WHERE org_id = ${org_id} AND session_id = ${session_id} AND step_id = ${step_id}
    `
    if (existing.length === 0) return [{ step: undefined }]
  }
  const ofOrganization = (table: string) => onlyOrganization(sql, `${table}.org_id`, org_id)
  const rows = yield* sql<{ readonly index: number; readonly saved: string }>`
    SELECT wanted.index, ${sql.literal(resumedStepJson)} AS saved
    FROM unnest(
      ${int4Array(keys.map((_, index) => index))}::int[],
      ${textArray(keys.map(({ org_id }) => org_id))}::text[],
      ${textArray(keys.map(({ session_id }) => session_id))}::text[],
      ${textArray(keys.map(({ step_id }) => step_id))}::text[]
    ) AS wanted (index, org_id, session_id, step_id)
      JOIN agent_sessions session ON session.org_id = wanted.org_id AND session.session_id = wanted.session_id
      JOIN governed_steps step
        ON step.org_id = wanted.org_id AND step.session_id = wanted.session_id AND step.step_id = wanted.step_id
          ${ofOrganization("step")}
      LEFT JOIN approvals approval ON approval.org_id = wanted.org_id AND approval.approval_id = step.approval_id
        ${ofOrganization("approval")}
      LEFT JOIN approval_rules rules ON rules.org_id = wanted.org_id ${ofOrganization("rules")}
    WHERE true ${ofOrganization("session")}
  `
  const found = new Map<number, ResumedStep>()
  for (const { index, saved } of rows) found.set(index, yield* Effect.orDie(decodeResumedStep(saved)))
  return keys.map((_, index) => ({ step: found.get(index) }))
})
