/**
 * Every error a caller can act on: one class per code of the contract, with its status. An operation names those it
 * can raise; those that belong to many come with their middleware: the frame's (`INVALID_REQUEST`, `UNAVAILABLE`,
 * `INTERNAL_ERROR`), authentication's (`INVALID_API_KEY`, `RATE_LIMITED`), a gate's, a body's.
 */
import { Schema } from "effect"
import { problem } from "./Problem.ts"
import { DatasetId, TraceId } from "../domain/Ids.ts"
import { Scope } from "../domain/identity/Scope.ts"

/** Malformed JSON, a wrong type, a missing field, a bad query or cursor. */
export class InvalidRequest extends problem<InvalidRequest>()(
  "INVALID_REQUEST",
  400,
  "The request is malformed"
) {}

/** An empty `events`, or an event type there is none of. */
export class InvalidWebhookEvents extends problem<InvalidWebhookEvents>()(
  "INVALID_WEBHOOK_EVENTS",
  400,
  "The events are not a selection of supported event types"
) {}

/** A URL that is not public HTTPS; `detail` says which rule it breaks. */
export class InvalidUrl extends problem<InvalidUrl>()(
  "INVALID_URL",
  400,
  "The URL may not be used as a destination"
) {}

/** A header that may not be sent to a collector, or too many of them; `errors` names each. */
export class InvalidHeaders extends problem<InvalidHeaders>()(
  "INVALID_HEADERS",
  400,
  "The headers may not be sent to a collector"
) {}

/** The API key is missing, malformed, unknown, revoked or expired. */
export class InvalidApiKey extends problem<InvalidApiKey>()(
  "INVALID_API_KEY",
  401,
  "The API key is not valid"
) {}

/** The key is valid but does not hold the scope that the operation asks for. */
export class InsufficientScope extends problem<InsufficientScope>()(
  "INSUFFICIENT_SCOPE",
  403,
  "The API key lacks a scope",
  { required_scope: Scope }
) {}

/** The key that asked for the step may not decide it, since its rule does not allow that. */
export class SelfApproval extends problem<SelfApproval>()(
  "SELF_APPROVAL",
  403,
  "The key that asked may not decide"
) {}

/** An escalated approval is decided with `approvals.admin`. */
export class AdminRequired extends problem<AdminRequired>()(
  "ADMIN_REQUIRED",
  403,
  "An escalated approval is decided by an admin"
) {}

/** There is no such thing in this organization. Other organizations' ids are answered the same. */
export class NotFound extends problem<NotFound>()(
  "NOT_FOUND",
  404,
  "There is no such thing in this organization"
) {}

/** The path is known, the method is not. */
export class MethodNotAllowed extends problem<MethodNotAllowed>()(
  "METHOD_NOT_ALLOWED",
  405,
  "The path does not know this method"
) {}

/** The organization has a telemetry destination, which must be removed before another is configured. */
export class DestinationExists extends problem<DestinationExists>()(
  "DESTINATION_EXISTS",
  409,
  "There is a telemetry destination already"
) {}

/** The delivery is not in a state that can be replayed. */
export class NotReplayable extends problem<NotReplayable>()(
  "NOT_REPLAYABLE",
  409,
  "The delivery cannot be replayed"
) {}

/** The destination already has as many waiting deliveries as it may. */
export class QueueFull extends problem<QueueFull>()("QUEUE_FULL", 409, "The queue is full") {}

/** A saved step is resumed with something else than what was saved. Nothing is consumed. */
export class StepMismatch extends problem<StepMismatch>()(
  "STEP_MISMATCH",
  409,
  "The step differs from the one that was saved",
  { mismatched: Schema.Array(Schema.Literals(["tool", "action_class", "arguments"])) }
) {}

/** The step has its outcome already. */
export class StepAlreadyCompleted extends problem<StepAlreadyCompleted>()(
  "STEP_ALREADY_COMPLETED",
  409,
  "The step has its outcome already"
) {}

/** An outcome before the step was allowed, or after it was rejected. */
export class StepNotAllowed extends problem<StepNotAllowed>()(
  "STEP_NOT_ALLOWED",
  409,
  "The step is not allowed"
) {}

/** The rules were replaced since the list of this revision was read. */
export class RulesChanged extends problem<RulesChanged>()("RULES_CHANGED", 409, "The rules have changed", {
  current_revision: Schema.Int
}) {}

/** The session was closed. */
export class SessionClosed extends problem<SessionClosed>()("SESSION_CLOSED", 409, "The session is closed") {}

/** The organization has as many of these as it may. */
export class LimitReached extends problem<LimitReached>()("LIMIT_REACHED", 409, "A limit is reached") {}

/** Revoking this key would leave the organization without a usable admin key. */
export class LastAdminKey extends problem<LastAdminKey>()(
  "LAST_ADMIN_KEY",
  409,
  "This is the last usable admin key"
) {}

/** A task's shapes are fixed once it has run or has a dataset: what is kept fits them. */
export class TaskInUse extends problem<TaskInUse>()(
  "TASK_IN_USE",
  409,
  "The task has runs or a dataset, so its shapes are fixed"
) {}

/** The task has another newest dataset version than the one that the change was made for. */
export class DatasetBaseChanged extends problem<DatasetBaseChanged>()(
  "DATASET_BASE_CHANGED",
  409,
  "The dataset has changed since it was read",
  {
    current_dataset_id: Schema.NullOr(DatasetId),
    /** Where corrections were to be promoted: what names those that are staged now. */
    current_feedback_revision: Schema.optionalKey(Schema.String)
  }
) {}

/** The set of staged corrections is not the one that was previewed. */
export class FeedbackChanged extends problem<FeedbackChanged>()(
  "FEEDBACK_CHANGED",
  409,
  "The staged corrections have changed since they were previewed",
  { current_dataset_id: Schema.NullOr(DatasetId), current_feedback_revision: Schema.String }
) {}

/** The correction was reviewed before with the other verdict, or there is none. */
export class FeedbackNotPending extends problem<FeedbackNotPending>()(
  "FEEDBACK_NOT_PENDING",
  409,
  "The correction is not pending"
) {}

/** The task has no staged correction. */
export class NothingStaged extends problem<NothingStaged>()("NOTHING_STAGED", 409, "Nothing is staged") {}

/** The task has another key for this base URL, which what is live may use: a comparison does not replace it. */
export class ProviderKeyExists extends problem<ProviderKeyExists>()(
  "PROVIDER_KEY_EXISTS",
  409,
  "The task has another key for this base URL"
) {}

/** The comparison is still at work, so there is nothing yet to release by. */
export class ComparisonUnfinished extends problem<ComparisonUnfinished>()(
  "COMPARISON_UNFINISHED",
  409,
  "The comparison is not finished"
) {}

/** The idempotency key was used by another API key, or with another body. */
export class IdempotencyKeyReused extends problem<IdempotencyKeyReused>()(
  "IDEMPOTENCY_KEY_REUSED",
  409,
  "The idempotency key was used by another API key or with another body"
) {}

/** The first request with this idempotency key is still at work. */
export class IdempotencyKeyInUse extends problem<IdempotencyKeyInUse>()(
  "IDEMPOTENCY_KEY_IN_USE",
  409,
  "The first request with this idempotency key is still at work"
) {}

/** Events after the stream's cursor are no longer kept: what became of the session is read anew. */
export class CursorExpired extends problem<CursorExpired>()(
  "CURSOR_EXPIRED",
  410,
  "The events after the cursor are no longer kept",
  { first_kept: Schema.Int }
) {}

/** The request did not come in within the time for it. Answered before there is an operation, as are the two below. */
export class RequestTimeout extends problem<RequestTimeout>()(
  "REQUEST_TIMEOUT",
  408,
  "The request took too long to come in"
) {}

/** An `Expect` other than `100-continue`. */
export class ExpectationFailed extends problem<ExpectationFailed>()(
  "EXPECTATION_FAILED",
  417,
  "The expectation cannot be met"
) {}

/** The request line and the headers have more than 16 KiB, or there are over 100 fields. */
export class HeadersTooLarge extends problem<HeadersTooLarge>()(
  "HEADERS_TOO_LARGE",
  431,
  "The headers are too large"
) {}

/** The body is larger than the operation takes. */
export class PayloadTooLarge extends problem<PayloadTooLarge>()(
  "PAYLOAD_TOO_LARGE",
  413,
  "The body is too large"
) {}

/** The body is not JSON by its content type. */
export class UnsupportedMediaType extends problem<UnsupportedMediaType>()(
  "UNSUPPORTED_MEDIA_TYPE",
  415,
  "The body must be JSON"
) {}

/** The input of a run, or an example, does not fit the task's shapes; `errors` name each field. */
export class InvalidInput extends problem<InvalidInput>()(
  "INVALID_INPUT",
  422,
  "The input does not fit the task's shape"
) {}

/** The correction does not fit the task's answer shape; `errors` name each field. */
export class InvalidCorrection extends problem<InvalidCorrection>()(
  "INVALID_CORRECTION",
  422,
  "The correction does not fit the answer shape"
) {}

/** The correction fits the answer shape only with a value that may not be kept; `errors` name the fields that need another. */
export class CorrectionNeedsSafeValue extends problem<CorrectionNeedsSafeValue>()(
  "CORRECTION_NEEDS_SAFE_VALUE",
  422,
  "The correction needs a safe value in place of one that was removed"
) {}

/** A task's shape is no JSON Schema 2020-12 that can be used here; `errors` name the place. */
export class InvalidSchema extends problem<InvalidSchema>()(
  "INVALID_SCHEMA",
  422,
  "The shape is no usable JSON Schema 2020-12"
) {}

/** Too many requests; `Retry-After` says the same as `retry_after_seconds`, whole seconds from 1 on. */
export class RateLimited extends problem<RateLimited>()("RATE_LIMITED", 429, "Too many requests", {
  retry_after_seconds: Schema.Int
}) {}

/** The model provider failed, or what it answered does not fit the answer shape. The run is logged as failed. */
export class ProviderFailed extends problem<ProviderFailed>()(
  "PROVIDER_FAILED",
  502,
  "The model provider failed",
  { trace_id: Schema.optionalKey(TraceId) }
) {}

/** The collector did not accept the test span; `detail` says what happened, in words of ours. */
export class ExportFailed extends problem<ExportFailed>()(
  "EXPORT_FAILED",
  502,
  "The collector did not accept the span"
) {}

/** The store is out of reach, or a limit of this process is; `Retry-After` says when to come back. */
export class Unavailable extends problem<Unavailable>()(
  "UNAVAILABLE",
  503,
  "The service cannot answer just now"
) {}

/** A fault of ours. The request id is all there is to say about it; the log has the rest. */
export class InternalError extends problem<InternalError>()(
  "INTERNAL_ERROR",
  500,
  "The service failed to answer"
) {}
