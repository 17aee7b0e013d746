import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import {
  AgentSession,
  Claim,
  GovernedStep,
  OutcomeStatus,
  StepOutcome
} from "../domain/approvals/AgentSession.ts"
import { DEFAULT_LEASE_SECONDS, LEASE_SECONDS } from "../domain/approvals/Execution.ts"
import { JsonValue } from "../domain/json/JsonValue.ts"
import { ClaimId, SessionId, StepId, TaskId } from "../domain/Ids.ts"
import { ClaimMismatch, StepAlreadyClaimed } from "./ApprovalProblems.ts"
import { Authentication, requires, requiresEither } from "./Authorization.ts"
import { BodyLimit, Idempotent, idempotencyHeaders, RepeatableByKey, RequestBody } from "./Middleware.ts"
import { listOrder, searchWords } from "./listQuery.ts"
import { numberCursor, page, pageQuery } from "./Pagination.ts"
import {
  CursorExpired,
  InsufficientScope,
  LimitReached,
  NotFound,
  SessionClosed,
  SessionOfAnotherKey,
  StepAlreadyCompleted,
  StepMismatch,
  StepNotAllowed
} from "./Problems.ts"
import { eventCursor, SessionEventStream, streamDocument } from "./SessionStream.ts"
import { Comment, Metadata, Name, Summary } from "./Text.ts"

export const NewAgentSession = Schema.Struct({
  task_id: Schema.optionalKey(Schema.NullOr(TaskId)).annotateKey({
    description: "The task that the agent works on. Steps inherit it. Default null."
  }),
  metadata: Schema.optionalKey(Metadata).annotateKey({
    description: "The client's own data: a JSON object of at most 16,384 characters. Default empty."
  }),
  shared: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Whether every key with `sessions.write` may submit the session's steps, report their outcomes and close it: for receivers that resume steps with a key of their own. Default `false`: only the key that creates it, the keys that made that one, and the keys that it makes."
  })
}).annotate({ identifier: "NewAgentSession", description: "An agent session to create." })
export type NewAgentSession = typeof NewAgentSession.Type

const leaseSeconds = Schema.optionalKey(
  Schema.Int.check(
    Schema.isBetween(LEASE_SECONDS, {
      expected: `a whole number of seconds from ${LEASE_SECONDS.minimum} to ${LEASE_SECONDS.maximum} (1 hour)`
    })
  )
)

const LEASE = `How long the claim lasts, in seconds, 1 to 3,600 (1 hour). Default ${DEFAULT_LEASE_SECONDS}. Choose it longer than the tool takes, or renew the claim.`

/** The header by which a claim whose response was lost is repeated. The claim's own row stores it, so it takes no further statement. */
const claimHeaders = {
  "idempotency-key": idempotencyHeaders["idempotency-key"].annotateKey({
    description:
      "A unique value of your choice, such as a UUID: 1 to 255 visible ASCII characters. It makes a claim repeatable: the same request with the same key and API key gets the same claim again until the lease ends, even if the connection broke before the first response. Without it, a repeated claim gets 409 `STEP_ALREADY_CLAIMED`. Never share a key between two agents."
  })
}

/** The longest wait of one request, in seconds. */
export const MAX_STEP_WAIT_SECONDS = 60

/** How long a request may wait for a decision, as a query parameter. */
export const waitSeconds = (maximum: number, byDefault: number) =>
  Schema.optionalKey(
    Schema.Int.check(
      Schema.isBetween(
        { minimum: 0, maximum },
        { expected: `a whole number of seconds from 0 to ${maximum}` }
      )
    )
  ).annotateKey({
    description: `How long the request waits for the decision of a person, in seconds, 0 to ${maximum}. Default ${byDefault}.`
  })

export const StepRequest = Schema.Struct({
  step_id: StepId.annotateKey({
    description:
      "The agent's name for the step, unique in the session: 1 to 200 visible characters on one line, not `.` or `..`."
  }),
  task_id: Schema.optionalKey(Schema.NullOr(TaskId)).annotateKey({
    description:
      "The task of the step. If absent, the session's task; a session with a task takes steps of no other."
  }),
  tool: Name.annotateKey({ description: "The tool to use: 1 to 200 visible characters." }),
  action_class: Name.annotateKey({
    description:
      "A class of actions that rules can match, such as `read` or `write`: 1 to 200 visible characters. It is the agent's claim; nothing checks it."
  }),
  arguments: Schema.optionalKey(JsonValue).annotateKey({
    description: "The tool's arguments: any JSON. Absent, `null` and `{}` are three different values."
  }),
  summary: Schema.optionalKey(Schema.NullOr(Summary)).annotateKey({
    description:
      "What the step does, in one sentence for the person who decides, at most 500 characters. Shown as the agent's claim. It is no part of the step's content: the decision is bound to the arguments, and a repeated request may have another summary, which is ignored. Default null."
  }),
  claim: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Whether to claim the step if it is allowed, so that no other caller can execute it. A step that waits is claimed by the repeated request that gets `allow`. Default false."
  }),
  lease_seconds: leaseSeconds.annotateKey({ description: `Only with \`claim\`. ${LEASE}` }),
  after_unknown: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Only with `claim`. Whether to claim the step also after an attempt whose outcome is unknown, if its rule has `retry_unknown`. Default false."
  })
}).annotate({
  identifier: "StepRequest",
  description: "A step that the agent wants to execute. Send it again unchanged to poll its decision."
})
export type StepRequest = typeof StepRequest.Type

export const OutcomeReport = Schema.Struct({
  status: OutcomeStatus.annotateKey({ description: "How the tool ended." }),
  claim_id: Schema.optionalKey(ClaimId).annotateKey({
    description: "The claim under which the step was executed. Required for a step that was claimed."
  }),
  result: Schema.optionalKey(JsonValue).annotateKey({ description: "The tool's result: any JSON." }),
  error: Schema.optionalKey(Schema.NullOr(Comment)).annotateKey({
    description:
      "Description of the error, at most 4,000 characters. Secrets in it are redacted. Default null."
  })
}).annotate({ identifier: "OutcomeReport", description: "The outcome of a step that was allowed." })
export type OutcomeReport = typeof OutcomeReport.Type

export const ClaimRequest = Schema.Struct({
  lease_seconds: leaseSeconds.annotateKey({ description: LEASE }),
  after_unknown: Schema.optionalKey(Schema.Boolean).annotateKey({
    description:
      "Whether to claim the step also after an attempt whose outcome is unknown. Only if its rule has `retry_unknown`. Default false."
  })
}).annotate({ identifier: "ClaimRequest", description: "How to claim a step." })
export type ClaimRequest = typeof ClaimRequest.Type

export const RenewClaimRequest = Schema.Struct({
  claim_id: ClaimId.annotateKey({ description: "The claim to renew." }),
  lease_seconds: leaseSeconds.annotateKey({
    description: `How long the claim lasts from now, in seconds, 1 to 3,600 (1 hour). Default ${DEFAULT_LEASE_SECONDS}.`
  })
}).annotate({ identifier: "RenewClaimRequest", description: "A claim to renew." })
export type RenewClaimRequest = typeof RenewClaimRequest.Type

export const ClaimedStep = Schema.Struct({
  claim: Claim.annotateKey({ description: "The claim." })
}).annotate({ identifier: "ClaimedStep", description: "A step that the caller may execute now." })
export type ClaimedStep = typeof ClaimedStep.Type

const stepParams = {
  id: SessionId.annotateKey({ description: "The agent session's ID." }),
  step_id: StepId.annotateKey({ description: "The step's ID, percent-encoded." })
}

/** The filters of the list. */
export const agentSessionFilter = {
  status: Schema.optionalKey(AgentSession.fields.status).annotateKey({
    description: "Only sessions with this status."
  }),
  text: searchWords("whose agent's name, ID or metadata contains"),
  order: listOrder
}
export type AgentSessionFilter = Schema.Struct.Type<typeof agentSessionFilter>

/** A page of agent sessions. */
export const AgentSessionPage = page("sessions", AgentSession, SessionId)

export class AgentSessionsApi extends HttpApiGroup.make("sessions")
  .add(
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewAgentSession,
      success: AgentSession.pipe(HttpApiSchema.status(201)),
      error: [NotFound, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(requires("sessions.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createAgentSession",
          summary: "Create an agent session",
          description:
            "Creates a session. Its steps are recorded under its trace. An organization has a limit of open sessions: close each when the agent has finished."
        })
      ),
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(SessionId), ...agentSessionFilter },
      success: AgentSessionPage
    })
      .middleware(requires("sessions.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listAgentSessions",
          summary: "List agent sessions",
          description: "Lists agent sessions, newest first."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: SessionId.annotateKey({ description: "The agent session's ID." }) },
      success: AgentSession,
      error: [InsufficientScope, NotFound]
    })
      .middleware(requiresEither("sessions.read", "sessions.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getAgentSession",
          summary: "Get an agent session",
          description:
            "Returns one agent session. With `sessions.write` alone, only one that belongs to the key or is shared."
        })
      ),
    HttpApiEndpoint.post("step", "/:id/steps", {
      params: { id: SessionId.annotateKey({ description: "The agent session's ID." }) },
      query: {
        wait_seconds: waitSeconds(MAX_STEP_WAIT_SECONDS, 0),
        after_message: Schema.optionalKey(
          numberCursor(
            "Number of the last message about the step's approval that the agent has seen. `messages` of the answer then has later ones, and a request that waits returns when there are any. Default: those that the agent has not answered, and a request that waits returns when another one comes.",
            "the number of a message, in decimal digits"
          )
        )
      },
      headers: claimHeaders,
      payload: StepRequest,
      success: GovernedStep,
      error: [
        NotFound,
        SessionOfAnotherKey,
        SessionClosed,
        StepMismatch,
        StepAlreadyCompleted,
        StepAlreadyClaimed,
        LimitReached
      ]
    })
      .middleware(requires("sessions.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "submitStep",
          summary: "Submit a governed step",
          description: [
            "Asks for a decision before the agent acts. The first rule that matches decides `allow` or `reject`, or requires approval by a person; then the decision is `pending` and `approval_id` is set.",
            "The session must belong to the key: see `SESSION_OF_ANOTHER_KEY`.",
            "Idempotent: the same step sent again returns its current decision. With a different tool, action class or arguments it fails with 409 `STEP_MISMATCH`.",
            "With `wait_seconds`, the request waits for the decision of a step that is pending, and is answered as soon as it is made, or a reviewer sends a message. If the time is over, the decision is still `pending`: send the request again. Many proxies end a request after 60 seconds.",
            "With `claim`, an allowed step is claimed for this caller alone, at no further cost. A step that is claimed gets no further `allow`: repeating it fails with 409 `STEP_ALREADY_CLAIMED`, unless the rules reject it now. After a person has allowed another attempt, it gets `allow` until that attempt is claimed: claim the step before you execute it.",
            "Body limit: 4 MiB."
          ].join(" ")
        })
      )
      .annotate(RepeatableByKey, true)
      .annotate(BodyLimit, ByteSize.mebibytes(4)),
    HttpApiEndpoint.post("reportOutcome", "/:id/steps/:step_id/outcome", {
      params: stepParams,
      payload: OutcomeReport,
      success: StepOutcome,
      error: [
        NotFound,
        SessionOfAnotherKey,
        SessionClosed,
        StepNotAllowed,
        StepAlreadyCompleted,
        ClaimMismatch
      ]
    })
      .middleware(requires("sessions.write"))
      .annotate(BodyLimit, ByteSize.mebibytes(4))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "reportStepOutcome",
          summary: "Report a step's outcome",
          description: [
            "Records how an allowed step went, once. Report outcomes before closing the session; afterwards they are rejected.",
            "The outcome of a claimed step names its claim. It is accepted also after the lease has ended, and then marked as `late`, unless another attempt was claimed or a person has resolved the execution.",
            "Body limit: 4 MiB."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.post("claim", "/:id/steps/:step_id/claim", {
      params: stepParams,
      headers: claimHeaders,
      payload: ClaimRequest,
      success: ClaimedStep,
      error: [NotFound, SessionOfAnotherKey, SessionClosed, StepNotAllowed, StepAlreadyClaimed]
    })
      .middleware(requires("sessions.write"))
      .annotate(RepeatableByKey, true)
      .annotateMerge(
        OpenApi.annotations({
          identifier: "claimStep",
          summary: "Claim an allowed step",
          description: [
            "Gives the right to execute an allowed step to this caller alone, until the lease ends. Claim before you execute, and report the outcome with the claim's ID. The rules are evaluated again: a step that they reject now cannot be claimed.",
            "Every further claim fails with 409 `STEP_ALREADY_CLAIMED`. If the lease ends without an outcome, the state is `unknown`: the step is never executed again by itself. People see it, and resolve it.",
            "`submitStep` with `claim` does both in one request."
          ].join(" ")
        })
      ),
    HttpApiEndpoint.post("renewClaim", "/:id/steps/:step_id/claim/renew", {
      params: stepParams,
      payload: RenewClaimRequest,
      success: ClaimedStep,
      error: [NotFound, SessionOfAnotherKey, SessionClosed, ClaimMismatch]
    })
      .middleware(requires("sessions.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "renewClaim",
          summary: "Renew a claim",
          description:
            "Extends the lease of a claim while its holder executes the step. A lease that has ended is not renewed: finish, and report the outcome, which is recorded as late."
        })
      ),
    HttpApiEndpoint.get("stream", "/:id/events/stream", {
      params: { id: SessionId.annotateKey({ description: "The agent session's ID." }) },
      headers: {
        "last-event-id": Schema.optionalKey(
          eventCursor(
            "Number of the last event received; the stream resumes after it. Sent by `EventSource` when it reconnects. Takes precedence over `after`."
          )
        )
      },
      query: {
        after: Schema.optionalKey(
          eventCursor(
            "Number of the last event received; the stream resumes after it. 0 starts with the first event."
          )
        )
      },
      success: [SessionEventStream, HttpApiSchema.NoContent],
      error: [InsufficientScope, NotFound, CursorExpired]
    })
      .middleware(requiresEither("sessions.read", "sessions.write"))
      .annotateMerge(streamDocument),
    HttpApiEndpoint.post("close", "/:id/close", {
      params: { id: SessionId.annotateKey({ description: "The agent session's ID." }) },
      success: AgentSession,
      error: [NotFound, SessionOfAnotherKey]
    })
      .middleware(requires("sessions.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "closeAgentSession",
          summary: "Close an agent session",
          description:
            "Closes the session: its pending approvals expire with the outcome `reject`, and its event stream ends. The session must belong to the key, or the key have `approvals.admin`, so that an admin can stop any agent. Idempotent."
        })
      )
  )
  .prefix("/v1/agent-sessions")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Agent sessions",
      description:
        "A session is one run of an agent. The agent submits each governed step before it acts and gets `allow`, `reject` or `pending`; it reports the outcome afterwards."
    })
  ) {}
