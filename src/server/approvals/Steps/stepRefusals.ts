import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { StepRequest } from "../../../api/AgentSessions.ts"
import {
  InvalidRequest,
  type LimitReached,
  NotFound,
  SessionClosed,
  type SessionOfAnotherKey,
  StepAlreadyCompleted,
  StepMismatch,
  StepNotAllowed
} from "../../../api/Problems.ts"
import { ClaimMismatch, type StepAlreadyClaimed } from "../../../api/ApprovalProblems.ts"
import type { ExecutionRecord } from "../../../domain/approvals/Execution.ts"
import { stepMismatches } from "../../../domain/approvals/StepDecision.ts"
import type { ClaimId, OrgId, TaskId } from "../../../domain/Ids.ts"
import { requireTask } from "../../tasks/requireTask.ts"
import type { SavedStep } from "./rows.ts"

/** Why a check gets no decision. */
export type CheckStepError =
  | InvalidRequest
  | NotFound
  | SessionOfAnotherKey
  | SessionClosed
  | StepMismatch
  | StepAlreadyCompleted
  | StepAlreadyClaimed
  | LimitReached

/** Why an outcome is refused. */
export type CompleteStepError =
  | NotFound
  | SessionOfAnotherKey
  | SessionClosed
  | StepNotAllowed
  | StepAlreadyCompleted
  | ClaimMismatch

export const stepNotFound = Effect.fail(new NotFound({ detail: "No such step in this session." }))

export const sessionClosed = Effect.fail(
  new SessionClosed({ detail: "The session is closed. Create another session for this step." })
)

export const alreadyCompleted = Effect.fail(
  new StepAlreadyCompleted({ detail: "The outcome of this step is already recorded. Use another step_id." })
)

export const stepNotAllowed = Effect.fail(
  new StepNotAllowed({
    detail: "The step is not allowed. Request its decision and report the outcome after it is allowed."
  })
)

/** Fails unless a step has its session's task, or its session has none and the task exists: a task is the agent's claim, and rules name it. */
export const requireTaskOfStep = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  session_task: TaskId | null,
  task_id: TaskId | null
): Effect.Effect<void, InvalidRequest | NotFound> => {
  if (task_id === session_task || task_id === null) return Effect.void
  return session_task === null
    ? requireTask(sql, org_id, task_id, "#/task_id")
    : Effect.fail(
        new InvalidRequest({
          detail: "The session has another task. Create a session for this task, or leave task_id out.",
          errors: [{ pointer: "#/task_id", detail: "Expected the session's task." }]
        })
      )
}

export const claimMissing = Effect.fail(
  new InvalidRequest({
    detail: "A lease needs a claim. Add `claim: true`, or leave lease_seconds and after_unknown out.",
    errors: [{ pointer: "#/claim", detail: "Expected true." }]
  })
)

/** Fails because a request names another claim than the step's, or none. */
export const claimMismatch = (execution: ExecutionRecord | null, claim_id: ClaimId | null) =>
  Effect.fail(new ClaimMismatch({ detail: mismatchDetail(execution, claim_id) }))

const mismatchDetail = (execution: ExecutionRecord | null, claim_id: ClaimId | null): string => {
  if (execution === null) return "Nobody has claimed the step. Leave claim_id out, or claim the step first."
  if (claim_id === null) return "The step is claimed. Name your claim in claim_id."
  if (execution.claim_id !== claim_id)
    return `Attempt ${execution.attempt} of the step has another claim. This claim is not its holder's.`
  return execution.state === "completed"
    ? "The outcome of this claim is already recorded."
    : "The lease of this claim has ended. Finish, and report the outcome: it is recorded as late."
}

/** Fails unless a resumed step equals the saved step. `digest`: that of the resumed step with the saved tool and action class. */
export const requireSameContent = (
  saved: SavedStep,
  digest: string,
  step: StepRequest
): Effect.Effect<void, StepMismatch> => {
  const mismatched = stepMismatches(saved, step, () => digest)
  if (mismatched.length > 0) {
    const differ = mismatched.length === 1 ? "differs" : "differ"
    const detail = `${listOf(mismatched)} ${differ} from the saved step; the saved step is unchanged.`
    return Effect.fail(new StepMismatch({ detail, mismatched }))
  }
  return Effect.void
}

/** "tool, action_class and arguments" */
const listOf = (names: ReadonlyArray<string>): string =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1) ?? ""}`
