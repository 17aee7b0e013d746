import { createHash } from "node:crypto"
import { type Context, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ClaimRequest } from "../../../api/AgentSessions.ts"
import { StepAlreadyClaimed } from "../../../api/ApprovalProblems.ts"
import type { GovernedStep } from "../../../domain/approvals/AgentSession.ts"
import type { RuleInput } from "../../../domain/approvals/ApprovalRule.ts"
import {
  DEFAULT_LEASE_SECONDS,
  type ExecutionRecord,
  type ExecutionTransition,
  type HeldState,
  transition
} from "../../../domain/approvals/Execution.ts"
import { executionEvents, stepGovernedEvent } from "../../../domain/approvals/SessionEvent.ts"
import { ClaimId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { formatTimestamp, type Timestamp } from "../../../domain/Time.ts"
import { executionsUnknown } from "../../observability/metricDefinitions.ts"
import { findOutcome } from "../executionRows.ts"
import type { RuleList } from "../Rules.ts"
import type { ResumedStep, SessionWriter, StepKey } from "../SessionWriter.ts"

/** How a request claims a step. */
export interface ClaimOptions {
  readonly principal: Principal
  readonly lease_seconds: number
  readonly after_unknown: boolean
  /** Identifies the request; null if it cannot be repeated. */
  readonly request: string | null
}

/** `operation`: a key that was used for one operation does not repeat the other. */
export const claimOptions = (
  principal: Principal,
  operation: "step" | "claim",
  { after_unknown = false, lease_seconds = DEFAULT_LEASE_SECONDS }: ClaimRequest,
  idempotency_key: string | undefined
): ClaimOptions => {
  const content = [principal.actor.id, operation, idempotency_key, lease_seconds, after_unknown]
  return {
    principal,
    lease_seconds,
    after_unknown,
    request:
      idempotency_key === undefined
        ? null
        : createHash("sha256").update(JSON.stringify(content)).digest("hex")
  }
}

/** Applies a claim to the execution of a step that is allowed; null: it is not claimed. `after_unknown`: its rule allows another attempt. */
export const claimExecution = (
  from: ExecutionRecord | null,
  { after_unknown, lease_seconds, principal, request }: ClaimOptions,
  now: Timestamp
) =>
  Effect.map(ClaimId.generate, (claim_id) =>
    transition(
      from,
      {
        _tag: "Claim",
        claim_id,
        claimed_by: principal.actor,
        lease_seconds,
        request,
        after_unknown
      },
      now
    )
  )

/** Counts the executions whose outcome became unknown. Called once for each transition, after its commit. */
export const countUnknown = (transitions: ReadonlyArray<Pick<ExecutionTransition, "event">>) =>
  Effect.contextWith((context: Context.Context<never>) => {
    for (const { event } of transitions) if (event === "unknown") executionsUnknown().updateUnsafe(1, context)
    return Effect.void
  })

/** Fails with the state of an execution that cannot be claimed; null: the step was completed without a claim. */
export const refuseClaim = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  key: StepKey,
  execution: ExecutionRecord | null
) {
  const state = execution === null || execution.state === "retryable" ? "completed" : execution.state
  return yield* new StepAlreadyClaimed({
    detail: details[state](execution),
    state,
    claimed_at: execution?.claimed_at ?? null,
    claimed_by: execution?.claimed_by ?? null,
    outcome: state === "completed" ? yield* Effect.orDie(findOutcome(sql, key)) : null
  })
})

const details: Readonly<Record<HeldState, (execution: ExecutionRecord | null) => string>> = {
  executing: (execution) =>
    `Another caller is executing the step${execution === null ? "" : `, until ${formatTimestamp(execution.expires_at)} at the latest`}. Do not execute it.`,
  unknown: () =>
    "An earlier attempt ended without an outcome, so the step may have been executed. Do not execute it: a person resolves it, or its rule allows `after_unknown`.",
  completed: () => "The step was executed. Do not execute it again; `outcome` is its outcome."
}

/**
 * Claims a saved step whose current decision is `answer`, which allows it. Undefined: that needs the session's lock.
 */
export const makeClaimSaved = (sql: SqlClient.SqlClient, writer: SessionWriter["Service"]) =>
  Effect.fnUntraced(function* (
    key: StepKey,
    saved: ResumedStep,
    answer: GovernedStep,
    {
      isLocked,
      list,
      now,
      options,
      step
    }: {
      readonly options: ClaimOptions
      /** The current rules, and the saved step with its arguments. */
      readonly list: RuleList
      readonly step: RuleInput
      readonly now: Timestamp
      readonly isLocked: boolean
    }
  ) {
    if (saved.completed) return yield* refuseClaim(sql, key, saved.execution)
    // By the rule that decided the step, whichever rule matches now: a person who allowed it did so under that rule.
    const after_unknown = options.after_unknown && list.compiled.retriesUnknown(saved.rule_id, step)
    const claim = { ...options, after_unknown }
    const { execution, refusal, transitions } = yield* claimExecution(saved.execution, claim, now)
    if (refusal !== null || execution === null) return yield* refuseClaim(sql, key, execution)
    // A repeated request: its claim is already written.
    if (transitions.length === 0) return execution
    const outcome = yield* writer.write(
      {
        org_id: key.org_id,
        session_id: key.session_id,
        change: {
          _tag: "Execution",
          step_id: key.step_id,
          from: { decision: saved.last_decision, execution: saved.execution },
          to: { decision: answer.decision, execution }
        },
        rules_revision: list.revision,
        events: [
          ...(answer.decision === saved.last_decision ? [] : [stepGovernedEvent(answer, saved)]),
          ...executionEvents(transitions, saved)
        ],
        published: [],
        now,
        onWritten: () => countUnknown(transitions)
      },
      isLocked
    )
    return outcome._tag === "Written" ? execution : undefined
  })
