import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { StepDecision } from "../../../domain/approvals/AgentSession.ts"
import { MAX_REVIEWED_ARGUMENTS } from "../../../domain/approvals/Reviewer/reviewerDecision.ts"
import type { OrgId, SessionId, StepId } from "../../../domain/Ids.ts"
import type { KnownValues } from "../../../domain/redaction/Redaction.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { type Timestamp, toDate } from "../../../domain/Time.ts"
import { rowsOf } from "../../store/rows.ts"
import { redactObject } from "../../tasks/redactJson.ts"

/** Steps of the session before the reviewed one that the model sees. */
const MAX_LAST_STEPS = 10

/** A step that a reviewer model is asked about: the parts that a person sees. */
export interface ReviewedStep {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly step_id: StepId
  readonly tool: string
  readonly action_class: string
  /** Undefined if the agent sent none. */
  readonly arguments: Schema.Json | undefined
  readonly agent_summary: string | null
  readonly rule_summary: string | null
  /** The reason of the rule that asks for a review. */
  readonly reason: string
  readonly requested_at: Timestamp
}

/** Whether the arguments of a step are too large to be shown to a model. */
export const isTooLarge = ({ arguments: args }: Pick<ReviewedStep, "arguments">): boolean =>
  args !== undefined && JSON.stringify(args).length > MAX_REVIEWED_ARGUMENTS

const sessionRows = rowsOf(Schema.Struct({ metadata: JsonObject }))

const stepRows = rowsOf(
  Schema.Struct({
    tool: Schema.String,
    action_class: Schema.String,
    decision: StepDecision,
    outcome_status: Schema.NullOr(Schema.String)
  })
)

/** The input of the reviewer's task for a step: redacted, as of the time of its request. */
export const readInput = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  known: KnownValues,
  step: ReviewedStep
) {
  const { org_id, session_id } = step
  const session = yield* sessionRows.first(sql`
    SELECT metadata
    FROM agent_sessions
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
  `)
  const steps = yield* stepRows.all(sql`
    SELECT tool, action_class, coalesce(last_decision, decision) AS decision, outcome_status
    FROM governed_steps
    WHERE org_id = ${org_id}
      AND session_id = ${session_id}
      AND hashtextextended(session_id, 0) = hashtextextended(${session_id}, 0)
      AND requested_at <= ${toDate(step.requested_at)}
      AND step_id <> ${step.step_id}
    ORDER BY requested_at DESC, step_id DESC
    LIMIT ${MAX_LAST_STEPS}
  `)
  const metadata = session?.metadata ?? {}
  const rule = {
    ...(step.reason === "" ? {} : { reason: step.reason }),
    ...(step.rule_summary === null ? {} : { summary: step.rule_summary })
  }
  const input: JsonObject = {
    tool: step.tool,
    action_class: step.action_class,
    ...(step.arguments === undefined ? {} : { arguments: step.arguments }),
    ...(step.agent_summary === null ? {} : { agent_summary: step.agent_summary }),
    ...(Object.keys(rule).length === 0 ? {} : { rule }),
    session: {
      ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
      last_steps: steps.toReversed().map(({ action_class, decision, outcome_status, tool }) => ({
        tool,
        action_class,
        decision,
        ...(outcome_status === null ? {} : { outcome: outcome_status })
      }))
    }
  }
  return (yield* redactObject(input, known, "#")).value
})
