import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { AgentSession, GovernedStep, OutcomeStatus, StepOutcome } from "../domain/approvals/AgentSession.ts"
import { SessionId, StepId, TaskId } from "../domain/Ids.ts"
import { Authentication, requires } from "./Authorization.ts"
import { BodyLimit, Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  CursorExpired,
  NotFound,
  SessionClosed,
  StepAlreadyCompleted,
  StepMismatch,
  StepNotAllowed
} from "./Problems.ts"
import { EventCursor, SessionEventStream, streamDocument } from "./SessionStream.ts"
import { Comment, Metadata, Name } from "./Text.ts"

/** What a new session is made of. */
export const NewAgentSession = Schema.Struct({
  task_id: Schema.optionalKey(Schema.NullOr(TaskId)),
  metadata: Schema.optionalKey(Metadata)
}).annotate({ identifier: "NewAgentSession" })
export type NewAgentSession = typeof NewAgentSession.Type

/**
 * A step that asks before it acts. Sent again, unchanged, it is the resume: it is answered with the decision as it stands.
 * Absent arguments, `null` and `{}` are three different things.
 */
export const StepRequest = Schema.Struct({
  step_id: StepId,
  task_id: Schema.optionalKey(Schema.NullOr(TaskId)),
  tool: Name,
  action_class: Name,
  arguments: Schema.optionalKey(Schema.Json)
}).annotate({ identifier: "StepRequest" })
export type StepRequest = typeof StepRequest.Type

/** What became of a step that was allowed. */
export const OutcomeReport = Schema.Struct({
  status: OutcomeStatus,
  result: Schema.optionalKey(Schema.Json),
  error: Schema.optionalKey(Schema.NullOr(Comment))
}).annotate({ identifier: "OutcomeReport" })
export type OutcomeReport = typeof OutcomeReport.Type

/** Agent sessions and their governed steps. */
export class AgentSessionsApi extends HttpApiGroup.make("sessions")
  .add(
    HttpApiEndpoint.post("create", "/", {
      headers: idempotencyHeaders,
      payload: NewAgentSession,
      success: AgentSession.pipe(HttpApiSchema.status(201)),
      error: NotFound
    })
      .middleware(Idempotent)
      .middleware(requires("sessions.write"))
      .annotate(OpenApi.Description, "Opens a session, under whose trace its steps are recorded."),
    HttpApiEndpoint.get("list", "/", {
      query: pageQuery(SessionId),
      success: page("sessions", AgentSession, SessionId)
    })
      .middleware(requires("sessions.read"))
      .annotate(OpenApi.Description, "Sessions, newest first."),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: SessionId },
      success: AgentSession,
      error: NotFound
    })
      .middleware(requires("sessions.read"))
      .annotate(OpenApi.Description, "One session."),
    HttpApiEndpoint.post("step", "/:id/steps", {
      params: { id: SessionId },
      payload: StepRequest,
      success: GovernedStep,
      error: [NotFound, SessionClosed, StepMismatch, StepAlreadyCompleted]
    })
      .middleware(requires("sessions.write"))
      .annotate(
        OpenApi.Description,
        "Asks before acting. The first rule that matches answers `allow` or `reject`; where a person is to decide, the answer is `pending`, with an approval. Asked again, unchanged, it answers with the decision as it stands; changed, it is 409 `STEP_MISMATCH`."
      )
      .annotate(BodyLimit, ByteSize.mebibytes(4)),
    HttpApiEndpoint.post("complete", "/:id/steps/:step_id/outcome", {
      params: { id: SessionId, step_id: StepId },
      payload: OutcomeReport,
      success: StepOutcome,
      error: [NotFound, SessionClosed, StepNotAllowed, StepAlreadyCompleted]
    })
      .middleware(requires("sessions.write"))
      .annotate(BodyLimit, ByteSize.mebibytes(4))
      .annotate(
        OpenApi.Description,
        "Records how an allowed step went, once. The stream ends with its session, and what an agent did ends with it: report before you close."
      ),
    HttpApiEndpoint.get("stream", "/:id/events/stream", {
      params: { id: SessionId },
      headers: { "last-event-id": Schema.optionalKey(EventCursor) },
      query: { after: Schema.optionalKey(EventCursor) },
      success: [SessionEventStream, HttpApiSchema.NoContent],
      error: [NotFound, CursorExpired]
    })
      .middleware(requires("sessions.read"))
      .annotateMerge(streamDocument),
    HttpApiEndpoint.post("close", "/:id/close", {
      params: { id: SessionId },
      success: AgentSession,
      error: NotFound
    })
      .middleware(requires("sessions.write"))
      .annotate(
        OpenApi.Description,
        "Closes the session: what still waits in it is rejected, and its stream ends. Again: the same answer."
      )
  )
  .prefix("/v1/agent-sessions")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Agent sessions",
      description: "An agent asks before each governed step and is answered allow, reject or pending."
    })
  ) {}
