import { Approval } from "../domain/approvals/Approval.ts"
import { StepOutcome } from "../domain/approvals/AgentSession.ts"
import { Execution, HeldState } from "../domain/approvals/Execution.ts"
import { Actor } from "../domain/identity/Principal.ts"
import { Timestamp } from "../domain/Time.ts"
import { Schema } from "effect"
import { problem } from "./Problem.ts"

const fields = { approval: Approval.annotateKey({ description: "The approval as it is now." }) }

export class ApprovalAlreadyDecided extends problem<ApprovalAlreadyDecided>()(
  "APPROVAL_ALREADY_DECIDED",
  409,
  "Approval already decided",
  "The approval was already decided. `approval` shows by whom and how.",
  fields
) {}

export class ApprovalExpired extends problem<ApprovalExpired>()(
  "APPROVAL_EXPIRED",
  409,
  "Approval expired",
  "The approval closed before anyone decided. `approval` shows its outcome.",
  fields
) {}

export class StepAlreadyClaimed extends problem<StepAlreadyClaimed>()(
  "STEP_ALREADY_CLAIMED",
  409,
  "Step already claimed",
  "The step is being executed, was executed, or may have been executed. Do not execute it. `state` tells which.",
  {
    state: HeldState.annotateKey({ description: "The state of the execution." }),
    claimed_at: Schema.NullOr(Timestamp).annotateKey({
      description: "When the step was claimed. Null if it was completed without a claim."
    }),
    claimed_by: Schema.NullOr(Actor).annotateKey({
      description: "The API key that claimed the step. Null if it was completed without a claim."
    }),
    outcome: Schema.NullOr(StepOutcome).annotateKey({
      description: "The outcome. Null unless `state` is `completed`."
    })
  }
) {}

export class ClaimMismatch extends problem<ClaimMismatch>()(
  "CLAIM_MISMATCH",
  409,
  "Claim mismatch",
  "The claim that the request names, or the lack of one, is not the step's current claim. `detail` says why."
) {}

export class ExecutionNotUnknown extends problem<ExecutionNotUnknown>()(
  "EXECUTION_NOT_UNKNOWN",
  409,
  "Execution not unknown",
  "The outcome of the execution is known by now, or another person has resolved it. `execution` shows it.",
  {
    execution: Execution.annotateKey({ description: "The execution as it is now." })
  }
) {}
