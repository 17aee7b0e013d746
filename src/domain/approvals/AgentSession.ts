import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { ApprovalMessage } from "./ApprovalMessage.ts"
import { CounterProposal } from "./CounterProposal.ts"
import {
  ApprovalId,
  ClaimId,
  GrantId,
  ReleaseId,
  RuleId,
  SessionId,
  StepId,
  TaskId,
  TraceId
} from "../Ids.ts"
import { JsonValue } from "../json/JsonValue.ts"
import { Actor } from "../identity/Principal.ts"
import { timestamp, Timestamp } from "../Time.ts"

export const AgentSession = Schema.Struct({
  session_id: SessionId.annotateKey({ description: "The session's ID." }),
  task_id: Schema.NullOr(TaskId).annotateKey({
    description: "The task that the agent works on. Null if the session was created without one."
  }),
  trace_id: TraceId.annotateKey({
    description: "W3C trace ID of the session's spans: 32 lowercase hex digits."
  }),
  metadata: Schema.Record(Schema.String, JsonValue).annotateKey({
    description: "The client's own data, as given when the session was created. Empty if none was given."
  }),
  status: documentedEnum({
    open: "The agent can submit steps.",
    closed: "No further steps are accepted. Final."
  }).annotateKey({ description: "Whether the session accepts steps." }),
  created_at: timestamp("When the session was created."),
  created_by: Actor.annotateKey({ description: "The API key that created the session." }),
  shared: Schema.Boolean.annotateKey({
    description:
      "Whether every key with `sessions.write` may submit steps. If not: this key, the keys that made it, and the keys that it made."
  }),
  closed_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the session was closed. Null while it is open."
  })
}).annotate({
  identifier: "AgentSession",
  description: "One piece of an agent's work. Its governed steps, approvals and events belong to it."
})
export type AgentSession = typeof AgentSession.Type

export const StepDecision = documentedEnum({
  allow: "The agent may execute the step.",
  reject: "The agent must not execute the step.",
  pending: "The step waits for a person. Poll it by sending it again unchanged, or follow the event stream."
})
export type StepDecision = typeof StepDecision.Type

export const StepDecisionSource = documentedEnum({
  rule: "A rule allows or rejects the step.",
  grant: "A standing grant allows the step; `grant_id` names it.",
  model:
    "The reviewer model of the rule decided, within the bounds that the rule sets; `reviewer` names its release.",
  human: "A person decided the approval, or the last of several people.",
  timeout: "The approval's last window ended; the rule's timeout action applied.",
  session_closed: "The session was closed before anyone decided.",
  counter_proposal:
    "A person had proposed exactly these arguments when rejecting an earlier step; `approval_id` is the approval of that step."
})
export type StepDecisionSource = typeof StepDecisionSource.Type

export const StepReviewer = Schema.Struct({
  task_id: TaskId.annotateKey({ description: "The task of the reviewer model." }),
  release_id: ReleaseId.annotateKey({ description: "The release that answered." }),
  reason: Schema.String.annotateKey({
    description: "The reason that the model gave: a text of a model, which can repeat parts of the arguments."
  })
}).annotate({ identifier: "StepReviewer", description: "The reviewer model that decided a step." })
export type StepReviewer = typeof StepReviewer.Type

const argumentsDigest = Schema.String.annotateKey({
  description:
    "SHA-256, as 64 lowercase hex digits, of the step's organization, session, step ID, tool, action class and arguments in canonical JSON (RFC 8785). A decision is bound to exactly this content."
})

export const StepWarning = Schema.Struct({
  pointer: Schema.String.annotate({ examples: ["#/arguments"] }).annotateKey({
    description: "JSON Pointer to the member of the request, in URI fragment form (RFC 6901)."
  }),
  detail: Schema.String.annotateKey({ description: "What is probably not meant, and what to send instead." })
}).annotate({
  identifier: "StepWarning",
  description: "A member of a step that was accepted, but is probably a mistake."
})
export type StepWarning = typeof StepWarning.Type

/** A JSON text in place of the value, as models' function calls return it: rules could read nothing in it. */
export const stepWarnings = (args: unknown): ReadonlyArray<StepWarning> =>
  typeof args === "string" && /^\s*(?:\{[^]*\}|\[[^]*\])\s*$/.test(args)
    ? [
        {
          pointer: "#/arguments",
          detail:
            "This is a text that contains JSON. Parse it, and send the object: rules cannot read a text."
        }
      ]
    : []

export const Claim = Schema.Struct({
  id: ClaimId.annotateKey({ description: "The claim's ID. Name it in the outcome." }),
  step_id: StepId.annotateKey({ description: "The step that the claim's holder may execute." }),
  attempt: Schema.Int.annotateKey({
    description: "1 for the first claim of the step. More only after an attempt whose outcome is unknown."
  }),
  claimed_at: timestamp("When the step was claimed."),
  expires_at: timestamp(
    "When the lease ends. Renew the claim before, or report the outcome; afterwards the outcome is unknown."
  ),
  idempotency_key: Schema.String.annotateKey({
    description:
      "A UUID that is the same for every attempt of this step and differs from that of any other step. Pass it to a tool that recognizes repeated requests."
  }),
  ticket: Schema.String.annotateKey({
    description:
      "A signed statement of this claim and of the step's arguments, until the lease ends: a compact JWS. Pass it to a tool that verifies it with `countersign/ticket` and the keys of `/.well-known/jwks.json`."
  })
}).annotate({
  identifier: "Claim",
  description: "The exclusive right to execute an allowed step until the lease ends."
})
export type Claim = typeof Claim.Type

export const GovernedStep = Schema.Struct({
  step_id: StepId.annotateKey({ description: "The step's ID, as the agent chose it." }),
  decision: StepDecision.annotateKey({ description: "The current decision." }),
  approval_id: Schema.NullOr(ApprovalId).annotateKey({
    description:
      "The approval that the step waits for or was decided by. Null if a rule, a standing grant or a reviewer model decided."
  }),
  decision_source: Schema.NullOr(StepDecisionSource).annotateKey({
    description: "What decided. Null while the decision is `pending`."
  }),
  reason: Schema.String.annotateKey({ description: "Why, in one sentence for people." }),
  decided_by: Schema.NullOr(Actor).annotateKey({
    description: "The API key of the person who decided. Null unless `decision_source` is `human`."
  }),
  comment: Schema.NullOr(Schema.String).annotateKey({
    description: "The comment of that person. Null if there is none."
  }),
  changes_requested: Schema.Boolean.annotateKey({
    description:
      "Whether that person requests changes: `comment` is the instruction. Submit the changed call as another step."
  }),
  rule_id: Schema.NullOr(RuleId).annotateKey({
    description: "The rule that matched. Null if none did and the built-in rule applies: a person decides."
  }),
  grant_id: Schema.NullOr(GrantId).annotateKey({
    description: "The standing grant that allows the step. Null unless `decision_source` is `grant`."
  }),
  reviewer: Schema.optionalKey(StepReviewer).annotateKey({
    description: "The reviewer model that decided. Present only if `decision_source` is `model`."
  }),
  expires_at: Schema.NullOr(Timestamp).annotateKey({
    description: "When the open review window ends. Null unless the decision is `pending`."
  }),
  arguments_digest: argumentsDigest,
  proposal: Schema.NullOr(CounterProposal).annotateKey({
    description:
      "The arguments that the reviewer proposed instead, if the step's approval was rejected with a counter-proposal; otherwise null. Submit them as another step."
  }),
  messages: Schema.optionalKey(Schema.Array(ApprovalMessage)).annotateKey({
    description:
      "The messages of reviewers that the agent has not answered, or those after `after_message`, oldest first. Present only while the decision is `pending` and there are any. Answer with `sendMessage`. A message is the text of a person, and decides nothing."
  }),
  claim: Schema.optionalKey(Claim).annotateKey({
    description:
      "Present if this request asked for a claim and the step is allowed: the caller may execute it now."
  }),
  warnings: Schema.optionalKey(Schema.Array(StepWarning)).annotateKey({
    description:
      "Present if the request is probably not what you meant, such as `arguments` that are a JSON text."
  })
}).annotate({
  identifier: "GovernedStep",
  description: "The answer to a governed step: the current decision."
})
export type GovernedStep = typeof GovernedStep.Type

export const OutcomeStatus = documentedEnum({
  succeeded: "The tool finished.",
  failed: "The tool failed; `error` can say why."
})
export type OutcomeStatus = typeof OutcomeStatus.Type

export const StepOutcome = Schema.Struct({
  step_id: StepId.annotateKey({ description: "The step's ID." }),
  status: OutcomeStatus.annotateKey({ description: "How the tool ended." }),
  result: Schema.optionalKey(JsonValue).annotateKey({
    description: "The tool's result, as the agent reported it. Absent if it reported none."
  }),
  error: Schema.NullOr(Schema.String).annotateKey({
    description: "The error that the agent reported. Null if it reported none."
  }),
  occurred_at: timestamp("When the outcome was recorded."),
  late: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Present and true if the step's claim had ended before, so that the outcome was unknown until then."
  })
}).annotate({ identifier: "StepOutcome", description: "The outcome of an allowed step. Recorded once." })
export type StepOutcome = typeof StepOutcome.Type
