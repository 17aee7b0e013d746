/**
 * Every error that a client can act on: one class per code, with its status. An operation declares the problems of its
 * own; its middleware adds the shared ones: `INVALID_REQUEST`, `UNAVAILABLE` and `INTERNAL_ERROR` (every operation),
 * `INVALID_API_KEY`, `ADDRESS_NOT_ALLOWED` and `RATE_LIMITED` (authentication), `INSUFFICIENT_SCOPE` (a required
 * scope), `PAYLOAD_TOO_LARGE` and `UNSUPPORTED_MEDIA_TYPE` (a body). `REQUEST_TIMEOUT`, `EXPECTATION_FAILED` and
 * `HEADERS_TOO_LARGE` are sent before a request reaches an operation.
 */
import { Schema } from "effect"
import { problem } from "./Problem.ts"
import { DatasetId, ReleaseId, TraceId } from "../domain/Ids.ts"
import { Scope } from "../domain/identity/Scope.ts"
import { ProviderFailureReason } from "../domain/tasks/ProviderFailure.ts"

export class InvalidRequest extends problem<InvalidRequest>()(
  "INVALID_REQUEST",
  400,
  "Invalid request",
  "The body, query, headers or cursor is malformed: invalid JSON, a wrong type, a missing field or a value out of range. `errors` names up to 20 fields."
) {}

export class InvalidWebhookEvents extends problem<InvalidWebhookEvents>()(
  "INVALID_WEBHOOK_EVENTS",
  400,
  "Invalid event selection",
  "`events` is empty or contains an unknown event type."
) {}

export class InvalidUrl extends problem<InvalidUrl>()(
  "INVALID_URL",
  400,
  "URL not allowed",
  "The URL is not public HTTPS, or contains credentials. `detail` names the rule that it breaks."
) {}

export class InvalidHeaders extends problem<InvalidHeaders>()(
  "INVALID_HEADERS",
  400,
  "Headers not allowed",
  "A header must not be sent to a collector or model provider, or there are too many. `errors` names each one."
) {}

export class InvalidApiKey extends problem<InvalidApiKey>()(
  "INVALID_API_KEY",
  401,
  "Invalid API key",
  "The API key is missing, malformed, unknown, revoked or expired."
) {}

export class InvalidFeedbackToken extends problem<InvalidFeedbackToken>()(
  "INVALID_FEEDBACK_TOKEN",
  401,
  "Invalid feedback token",
  "The feedback token is missing, malformed, for another run, expired or used up, or its API key was revoked. Ask your server for a new one."
) {}

export class InsufficientScope extends problem<InsufficientScope>()(
  "INSUFFICIENT_SCOPE",
  403,
  "Missing scope",
  "The API key is valid but lacks a scope that the operation requires.",
  {
    required_scope: Scope.annotateKey({ description: "The scope that the key lacks." })
  }
) {}

export class AddressNotAllowed extends problem<AddressNotAllowed>()(
  "ADDRESS_NOT_ALLOWED",
  403,
  "Address not allowed",
  "The API key is valid, but its `allowed_networks` do not contain the address that the request came from."
) {}

export class OriginNotAllowed extends problem<OriginNotAllowed>()(
  "ORIGIN_NOT_ALLOWED",
  403,
  "Origin not allowed",
  "The page that sent the feedback has an origin that is not among the organization's `allowed_origins`."
) {}

export class SelfApproval extends problem<SelfApproval>()(
  "SELF_APPROVAL",
  403,
  "Self-approval not allowed",
  "The API key that submitted the step cannot decide it, nor can a key that it created. A rule with `self_approval` allows it. Likewise for the key that claimed a step and the resolution of its execution."
) {}

export class SessionOfAnotherKey extends problem<SessionOfAnotherKey>()(
  "SESSION_OF_ANOTHER_KEY",
  403,
  "Session of another key",
  "Only the API key that created the agent session can use it, or a key that created this key or was created by it. `detail` names the key. Use one of these keys, or create sessions with `shared: true`."
) {}

export class FeedbackOfAnotherKey extends problem<FeedbackOfAnotherKey>()(
  "FEEDBACK_OF_ANOTHER_KEY",
  403,
  "Feedback of another key",
  "Only the API key that gave the feedback or created the end user's feedback token can withdraw it, or a key created by this key. `detail` names the key. An admin can delete the feedback instead."
) {}

export class SelfReview extends problem<SelfReview>()(
  "SELF_REVIEW",
  403,
  "Review by another key required",
  "The API key that submitted the correction cannot stage it, nor can a key that it created, because the task has `self_review: false`."
) {}

export class AdminRequired extends problem<AdminRequired>()(
  "ADMIN_REQUIRED",
  403,
  "Admin required",
  "The approval was escalated; deciding it requires `approvals.admin`."
) {}

export class GroupRequired extends problem<GroupRequired>()(
  "GROUP_REQUIRED",
  403,
  "Group required",
  "The approval's quorum asks for members of certain groups, and the API key is in none whose approval is still needed."
) {}

export class SamePerson extends problem<SamePerson>()(
  "SAME_PERSON",
  403,
  "Same person",
  "The API key created a key that has approved already, or was created by it. Both count as one person in a quorum."
) {}

export class NotFound extends problem<NotFound>()(
  "NOT_FOUND",
  404,
  "Not found",
  "No such resource in this organization. Other organizations' resources get the same answer."
) {}

export class MethodNotAllowed extends problem<MethodNotAllowed>()(
  "METHOD_NOT_ALLOWED",
  405,
  "Method not allowed",
  "The path exists but does not accept this method. The header `allow` lists the methods it accepts."
) {}

export class DestinationExists extends problem<DestinationExists>()(
  "DESTINATION_EXISTS",
  409,
  "Telemetry destination exists",
  "The organization already has a telemetry destination. Remove it first."
) {}

export class NotReplayable extends problem<NotReplayable>()(
  "NOT_REPLAYABLE",
  409,
  "Delivery not replayable",
  "Only failed deliveries can be replayed."
) {}

export class QueueFull extends problem<QueueFull>()(
  "QUEUE_FULL",
  409,
  "Queue full",
  "The destination's queue is full. Retry when some of its deliveries have been sent."
) {}

export class StepMismatch extends problem<StepMismatch>()(
  "STEP_MISMATCH",
  409,
  "Step differs from the saved step",
  "The step ID was used before with a different tool, action class or arguments. The saved step is unchanged.",
  {
    mismatched: Schema.Array(Schema.Literals(["tool", "action_class", "arguments"])).annotateKey({
      description: "The members that differ from the saved step."
    })
  }
) {}

export class StepAlreadyCompleted extends problem<StepAlreadyCompleted>()(
  "STEP_ALREADY_COMPLETED",
  409,
  "Step already completed",
  "The step already has an outcome."
) {}

export class StepNotAllowed extends problem<StepNotAllowed>()(
  "STEP_NOT_ALLOWED",
  409,
  "Step not allowed",
  "An outcome was reported, or a claim requested, for a step that is pending or rejected."
) {}

export class RulesChanged extends problem<RulesChanged>()(
  "RULES_CHANGED",
  409,
  "Approval rules changed",
  "The rules were replaced since the given revision was read. Read them again.",
  {
    current_revision: Schema.Int.annotateKey({ description: "The current revision of the rules." })
  }
) {}

const changedSettings = {
  current_revision: Schema.Int.annotateKey({ description: "The current revision of the settings." })
}

export class FeedbackSettingsChanged extends problem<FeedbackSettingsChanged>()(
  "FEEDBACK_SETTINGS_CHANGED",
  409,
  "Feedback settings changed",
  "The feedback settings changed since the `revision` that was sent.",
  changedSettings
) {}

export class RedactionSettingsChanged extends problem<RedactionSettingsChanged>()(
  "REDACTION_SETTINGS_CHANGED",
  409,
  "Redaction settings changed",
  "The settings were replaced since the given revision was read. Read them again.",
  changedSettings
) {}

export class RetentionSettingsChanged extends problem<RetentionSettingsChanged>()(
  "RETENTION_SETTINGS_CHANGED",
  409,
  "Retention settings changed",
  "The settings were replaced since the given revision was read. Read them again.",
  changedSettings
) {}

export class SessionClosed extends problem<SessionClosed>()(
  "SESSION_CLOSED",
  409,
  "Session closed",
  "The agent session is closed and accepts no further steps or outcomes."
) {}

export class LimitReached extends problem<LimitReached>()(
  "LIMIT_REACHED",
  409,
  "Limit reached",
  "A limit of the organization or of the task is reached. `detail` names it."
) {}

export class GrantNotAllowed extends problem<GrantNotAllowed>()(
  "GRANT_NOT_ALLOWED",
  409,
  "Grant not allowed",
  "The approval needs more than one person, and a standing grant stands for one person's approval. Approve the step without `grant`."
) {}

export class EmailNotVerifiable extends problem<EmailNotVerifiable>()(
  "EMAIL_NOT_VERIFIABLE",
  409,
  "Email address not verifiable",
  "No link can be sent: the API key has no email address, is revoked or has expired, or the service has no mail server. `detail` says which."
) {}

export class MailNotConfigured extends problem<MailNotConfigured>()(
  "MAIL_NOT_CONFIGURED",
  409,
  "No mail server",
  "The service has no mail server, so it can send no invitation. The operator configures one by COUNTERSIGN_SMTP_URL and COUNTERSIGN_MAIL_FROM."
) {}

export class KeyEnded extends problem<KeyEnded>()(
  "KEY_ENDED",
  409,
  "API key revoked or expired",
  "The API key was revoked or has expired, so it cannot be changed."
) {}

export class NameInUse extends problem<NameInUse>()(
  "NAME_IN_USE",
  409,
  "Name in use",
  "A usable API key of the organization has this name, apart from letter case. Choose another, or revoke that key first."
) {}

export class LastAdminKey extends problem<LastAdminKey>()(
  "LAST_ADMIN_KEY",
  409,
  "Last usable admin key",
  "Revoking this key would leave the organization without a usable admin key. Create another one first."
) {}

export class TaskInUse extends problem<TaskInUse>()(
  "TASK_IN_USE",
  409,
  "Task in use",
  "Schemas cannot change once a task has runs or a dataset. Create a new task instead."
) {}

export class DatasetInUse extends problem<DatasetInUse>()(
  "DATASET_IN_USE",
  409,
  "Dataset version in use",
  "The dataset version is used by the live release, by the canary or by a comparison that is running, or it is the newest one, which the next version is based on. `detail` names which."
) {}

export class DatasetBusy extends problem<DatasetBusy>()(
  "DATASET_BUSY",
  409,
  "Dataset is being changed",
  "Another change of the task's dataset, such as an import, is in progress. Retry when it has finished; the header `retry-after` repeats `retry_after_seconds`.",
  {
    retry_after_seconds: Schema.Int.annotateKey({
      description: "Whole seconds to wait before the next request, at least 1."
    })
  }
) {}

export class DatasetBaseChanged extends problem<DatasetBaseChanged>()(
  "DATASET_BASE_CHANGED",
  409,
  "Dataset changed",
  "`base_dataset_id` is not the newest version of the task's dataset.",
  {
    current_dataset_id: Schema.NullOr(DatasetId).annotateKey({
      description: "The newest version of the task's dataset. Null if it has none."
    }),
    current_feedback_revision: Schema.optionalKey(Schema.String).annotateKey({
      description: "Revision of the set of staged corrections. Present if corrections were to be promoted."
    })
  }
) {}

export class FeedbackChanged extends problem<FeedbackChanged>()(
  "FEEDBACK_CHANGED",
  409,
  "Staged corrections changed",
  "The set of staged corrections changed since the preview, or a selected correction is not staged. Preview it again.",
  {
    current_dataset_id: Schema.NullOr(DatasetId).annotateKey({
      description: "The newest version of the task's dataset. Null if it has none."
    }),
    current_feedback_revision: Schema.String.annotateKey({
      description: "The current revision of the set of staged corrections."
    })
  }
) {}

export class FeedbackNotPending extends problem<FeedbackNotPending>()(
  "FEEDBACK_NOT_PENDING",
  409,
  "Correction not pending",
  "The feedback has no correction, or its status does not allow the change: a rejected correction stays rejected, and a promoted one promoted."
) {}

export class NothingStaged extends problem<NothingStaged>()(
  "NOTHING_STAGED",
  409,
  "No staged corrections",
  "The task has no staged correction to promote."
) {}

export class ProviderKeyExists extends problem<ProviderKeyExists>()(
  "PROVIDER_KEY_EXISTS",
  409,
  "Provider key exists",
  "The task has a different key or different headers for this base URL, which the live release may use. Leave `api_key` or `headers` out, or replace them by updating the task."
) {}

export class ComparisonUnfinished extends problem<ComparisonUnfinished>()(
  "COMPARISON_UNFINISHED",
  409,
  "Comparison not finished",
  "The comparison is still running, or it failed. Only the candidate of a completed one can be released."
) {}

export class LiveReleaseChanged extends problem<LiveReleaseChanged>()(
  "LIVE_RELEASE_CHANGED",
  409,
  "Live release changed",
  "The comparison's candidate was compared with a release that is no longer live. Start another comparison, or release it with `force` and a `reason`.",
  {
    current_release_id: ReleaseId.annotateKey({ description: "The release that is live." })
  }
) {}

export class CandidateLost extends problem<CandidateLost>()(
  "CANDIDATE_LOST",
  409,
  "Candidate lost",
  "The candidate agreed with fewer examples than the live release, or has no answer for any. Release it with `force` and a `reason` if you want it nevertheless."
) {}

export class IdempotencyKeyReused extends problem<IdempotencyKeyReused>()(
  "IDEMPOTENCY_KEY_REUSED",
  409,
  "Idempotency key reused",
  "The idempotency key was used for a different request, or by another API key. Use a new one."
) {}

export class IdempotencyKeyInUse extends problem<IdempotencyKeyInUse>()(
  "IDEMPOTENCY_KEY_IN_USE",
  409,
  "Idempotency key in use",
  "The first request with this idempotency key is still in progress. Retry shortly."
) {}

export class CursorExpired extends problem<CursorExpired>()(
  "CURSOR_EXPIRED",
  410,
  "Cursor expired",
  "Events after the cursor have been removed by retention. Read the session and its approvals again, then follow the stream without a cursor: it starts at `first_kept`.",
  {
    first_kept: Schema.optionalKey(Schema.Int).annotateKey({
      description: "Of a session's stream: number of the oldest retained event."
    })
  }
) {}

export class RequestTimeout extends problem<RequestTimeout>()(
  "REQUEST_TIMEOUT",
  408,
  "Request timed out",
  "The request was not received within the time limit."
) {}

export class ExpectationFailed extends problem<ExpectationFailed>()(
  "EXPECTATION_FAILED",
  417,
  "Expectation failed",
  "The request has an `Expect` header other than `100-continue`."
) {}

export class HeadersTooLarge extends problem<HeadersTooLarge>()(
  "HEADERS_TOO_LARGE",
  431,
  "Headers too large",
  "The request line and headers exceed 16 KiB, or there are more than 100 headers."
) {}

export class PayloadTooLarge extends problem<PayloadTooLarge>()(
  "PAYLOAD_TOO_LARGE",
  413,
  "Body too large",
  "The body exceeds the limit of the operation: 1 MiB unless the operation says otherwise. Or it has more than 100,000 values or 20,000 different member names; `errors` then names the first one beyond the limit."
) {}

export class UnsupportedMediaType extends problem<UnsupportedMediaType>()(
  "UNSUPPORTED_MEDIA_TYPE",
  415,
  "Unsupported media type",
  "The `content-type` is not `application/json`."
) {}

export class CommentRequired extends problem<CommentRequired>()(
  "COMMENT_REQUIRED",
  422,
  "Comment required",
  "The rule under which the approval was requested asks for a comment with this decision. `require_comment` of the approval says with which decisions."
) {}

export class InvalidInput extends problem<InvalidInput>()(
  "INVALID_INPUT",
  422,
  "Input does not match the schema",
  "The input, answer or example does not match the task's schema. `errors` names each field."
) {}

export class InvalidCorrection extends problem<InvalidCorrection>()(
  "INVALID_CORRECTION",
  422,
  "Correction does not match the answer schema",
  "The correction does not match the task's answer schema. `errors` names each field."
) {}

export class CorrectionNeedsSafeValue extends problem<CorrectionNeedsSafeValue>()(
  "CORRECTION_NEEDS_SAFE_VALUE",
  422,
  "Correction contains a secret",
  "After redaction of a secret the correction no longer matches the answer schema. `errors` names the fields that need another value."
) {}

export class InvalidInstructions extends problem<InvalidInstructions>()(
  "INVALID_INSTRUCTIONS",
  422,
  "Unknown variable in instructions",
  "The instructions have a variable, such as `{{input.name}}`, that no input of the task can have, or too many variables. `errors` names the first."
) {}

export class RulesTooLarge extends problem<RulesTooLarge>()(
  "RULES_TOO_LARGE",
  422,
  "Too many rules or conditions",
  "The list of rules exceeds a limit on its rules, conditions or patterns. `errors` names the place and the limit."
) {}

export class InvalidSchema extends problem<InvalidSchema>()(
  "INVALID_SCHEMA",
  422,
  "Unsupported JSON Schema",
  "The input or answer schema is not a JSON Schema 2020-12 that can be used here. `errors` names the place."
) {}

export class UnknownGroup extends problem<UnknownGroup>()(
  "UNKNOWN_GROUP",
  422,
  "Unknown group",
  "A rule's quorum names a group that no usable API key with `approvals.decide` has. `errors` names the member."
) {}

export class InvalidComparison extends problem<InvalidComparison>()(
  "INVALID_COMPARISON",
  422,
  "Comparison does not fit the task",
  "The hold-out, the evaluators, the judge or the budget of the comparison do not fit the task. `errors` names each member."
) {}

export class RateLimited extends problem<RateLimited>()(
  "RATE_LIMITED",
  429,
  "Rate limit exceeded",
  "Too many requests of the key, or too many of the organization at once: `detail` says which. The header `retry-after` repeats `retry_after_seconds`.",
  {
    retry_after_seconds: Schema.Int.annotateKey({
      description: "Whole seconds to wait before the next request, at least 1."
    })
  }
) {}

export class ProviderFailed extends problem<ProviderFailed>()(
  "PROVIDER_FAILED",
  502,
  "Model provider failed",
  "The model provider failed or timed out, or its answer does not match the answer schema: `reason` and `detail` say which. The run is logged as failed.",
  {
    reason: Schema.optionalKey(ProviderFailureReason).annotateKey({ description: "The kind of failure." }),
    trace_id: Schema.optionalKey(TraceId).annotateKey({ description: "The `trace_id` of the failed run." })
  }
) {}

export class NoExample extends problem<NoExample>()(
  "NO_EXAMPLE",
  409,
  "No example",
  "The live release has no dataset version or no example that can answer: `detail` says why. The run is logged as failed. Create a dataset version or a release, then run the task again.",
  {
    trace_id: Schema.optionalKey(TraceId).annotateKey({ description: "The `trace_id` of the failed run." })
  }
) {}

export class NoNearExample extends problem<NoNearExample>()(
  "NO_NEAR_EXAMPLE",
  422,
  "No near example",
  "The score of the nearest example is below the task's `min_score`, or no example has anything in common with the input. The run is logged as failed. Send feedback with a correction to teach the answer.",
  {
    trace_id: Schema.optionalKey(TraceId).annotateKey({ description: "The `trace_id` of the failed run." })
  }
) {}

export class ExportFailed extends problem<ExportFailed>()(
  "EXPORT_FAILED",
  502,
  "Collector did not accept the span",
  "The telemetry collector could not be reached or rejected the test span. `detail` says what happened."
) {}

export class EndpointDisabled extends problem<EndpointDisabled>()(
  "ENDPOINT_DISABLED",
  409,
  "Webhook endpoint is disabled",
  "The webhook endpoint is disabled, by `active: false` or because it answered 410 Gone, so nothing is sent to it. Enable it with `active: true` first."
) {}

export class VerificationFailed extends problem<VerificationFailed>()(
  "VERIFICATION_FAILED",
  502,
  "Endpoint did not answer the challenge",
  "The webhook endpoint could not be reached, or its response does not contain the challenge. `detail` says what happened."
) {}

export class Unavailable extends problem<Unavailable>()(
  "UNAVAILABLE",
  503,
  "Service unavailable",
  "The database is unavailable, or a limit of this replica is reached. Retry after the time in the header `retry-after`."
) {}

export class InternalError extends problem<InternalError>()(
  "INTERNAL_ERROR",
  500,
  "Internal error",
  "Unexpected error. The log has the cause under `request_id`."
) {}
