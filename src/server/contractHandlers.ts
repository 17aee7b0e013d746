/** The handlers of the API contract: each takes the input of an operation apart, calls one method and shapes the response. */
import { Effect, Layer, Option, Record, Redacted, type Schema, Stream } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import { ApprovalPage } from "../api/AgentApprovals.ts"
import { AgentSessionPage } from "../api/AgentSessions.ts"
import { Api } from "../api/Api.ts"
import { ApiKeyPage } from "../api/ApiKeys.ts"
import { AuditEntryPage } from "../api/AuditLog.ts"
import { Authorized } from "../api/Authorization.ts"
import { ComparisonPage, ReleasePage } from "../api/Comparisons.ts"
import { DatasetPage, ExamplePage } from "../api/Datasets.ts"
import { DecisionResults } from "../api/DecisionBatch.ts"
import { DeletionPage } from "../api/Deletions.ts"
import { CurrentFeedbackToken, EndUserFeedbackApi } from "../api/EndUserFeedback.ts"
import { ExecutionPage } from "../api/Executions.ts"
import { DEFAULT_QUALITY_DAYS, FeedbackPage, PromotionPreview } from "../api/Feedback.ts"
import { GrantPage } from "../api/Grants.ts"
import { DEFAULT_HOOK_WAIT_SECONDS } from "../api/Hooks.ts"
import { NotificationDeliveries, NotificationEndpoints } from "../api/NotificationEndpoints.ts"
import { ReviewerAnswerPage } from "../api/Reviewers.ts"
import { ReviewResults } from "../api/ReviewBatch.ts"
import { RunPage } from "../api/Runs.ts"
import { TaskPage, TRACE_HEADER } from "../api/Tasks.ts"
import { TelemetryDeliveries } from "../api/TelemetryDestinations.ts"
import { type TraceId } from "../domain/Ids.ts"
import { stepWarnings } from "../domain/approvals/AgentSession.ts"
import { type RuleTestLine, RuleTestReport } from "../domain/approvals/RuleTest.ts"
import { readHookInput } from "../domain/hooks/HookInput.ts"
import { ChainedAuditEntry } from "../domain/identity/ChainedAuditEntry.ts"
import { Example } from "../domain/tasks/Dataset.ts"
import { ChatExample, PreferencePair } from "../domain/tasks/TrainingExample.ts"
import { Approvals } from "./approvals/Approvals.ts"
import { Claims } from "./approvals/Claims.ts"
import { DecisionWaits } from "./approvals/DecisionWaits.ts"
import { Grants } from "./approvals/Grants.ts"
import { Hooks } from "./approvals/Hooks.ts"
import { Messages } from "./approvals/Messages.ts"
import { ReviewerDecisions } from "./approvals/ReviewerDecisions.ts"
import { Reviewers } from "./approvals/Reviewers.ts"
import { RuleSuggestions } from "./approvals/RuleSuggestions.ts"
import { RuleTests } from "./approvals/RuleTests.ts"
import { Rules } from "./approvals/Rules.ts"
import { SessionStream } from "./approvals/SessionStream.ts"
import { Sessions } from "./approvals/Sessions.ts"
import { ShadowRules } from "./approvals/ShadowRules.ts"
import { Steps } from "./approvals/Steps.ts"
import { STREAM_HEADERS } from "./approvals/sseFrames.ts"
import { Deletions } from "./deletion/Deletions.ts"
import { RetentionSettings } from "./deletion/RetentionSettings.ts"
import { layerGroup } from "./http/layerGroup.ts"
import { respondLines, respondSummary } from "./http/respondLines.ts"
import { ApiKeys } from "./identity/ApiKeys.ts"
import { Audit } from "./identity/Audit.ts"
import { AuditChain } from "./identity/AuditChain.ts"
import { RateLimits } from "./admission/RateLimits.ts"
import { Invitations } from "./notifications/Invitations.ts"
import { EventLog } from "./notifications/EventLog.ts"
import { Notifications } from "./notifications/Notifications.ts"
import { RedactionSettings } from "./redaction/RedactionSettings.ts"
import type { Page } from "./store/Pagination.ts"
import { Canaries } from "./tasks/Canaries.ts"
import { Comparisons } from "./tasks/Comparisons.ts"
import { Datasets } from "./tasks/Datasets.ts"
import { Feedback } from "./tasks/Feedback.ts"
import { FeedbackSettings } from "./tasks/FeedbackSettings.ts"
import { FeedbackTokens } from "./tasks/FeedbackTokens.ts"
import { Releases } from "./tasks/Releases.ts"
import { RunImports } from "./tasks/RunImports.ts"
import { RunLog } from "./tasks/RunLog.ts"
import { Runs } from "./tasks/Runs.ts"
import { Tasks } from "./tasks/Tasks.ts"
import { TrainingExports } from "./tasks/TrainingExports.ts"
import { Telemetry } from "./telemetry/Telemetry.ts"
import { compileJsonEncoder } from "../domain/json/compileJsonEncoder.ts"

/**
 * Makes the response of an operation that returns many items. Its schema is compiled once, because interpreting it for
 * each item takes ten times as long. A value that the compiled encoder does not accept is returned unchanged, so that
 * the operation's own encoder reports why.
 */
const jsonResponse = <A, I>(
  schema: Schema.Codec<A, I>
): ((value: A) => Effect.Effect<HttpServerResponse.HttpServerResponse | A>) => {
  const encode = compileJsonEncoder(schema)
  return (value) =>
    Effect.sync(() => {
      const text = encode(value)
      return text === undefined ? value : HttpServerResponse.text(text, { contentType: "application/json" })
    })
}

/** `jsonResponse` for a page of a list, whose items are under a noun. */
const respondPage = <Noun extends string, Item, Id, I>(
  noun: Noun,
  schema: Schema.Codec<Readonly<Record<Noun, ReadonlyArray<Item>>> & { readonly next_cursor: Id | null }, I>
) => {
  const respond = jsonResponse(schema)
  return ({ items, next_cursor }: Page<Item, Id>) =>
    respond({ ...Record.singleton(noun, items), next_cursor })
}

const respondApiKeyPage = respondPage("keys", ApiKeyPage)
const respondTaskPage = respondPage("tasks", TaskPage)
const respondRunPage = respondPage("runs", RunPage)
const respondDatasetPage = respondPage("datasets", DatasetPage)
const respondExamplePage = respondPage("examples", ExamplePage)
const respondComparisonPage = respondPage("comparisons", ComparisonPage)
const respondReleasePage = respondPage("releases", ReleasePage)
const respondFeedbackPage = respondPage("feedback", FeedbackPage)
const respondReviewResults = jsonResponse(ReviewResults)
const respondPromotionPreview = jsonResponse(PromotionPreview)
const respondAgentSessionPage = respondPage("sessions", AgentSessionPage)
const respondApprovalPage = respondPage("approvals", ApprovalPage)
const respondExecutionPage = respondPage("executions", ExecutionPage)
const respondResults = jsonResponse(DecisionResults)
const respondNotificationEndpoints = jsonResponse(NotificationEndpoints)
const respondNotificationDeliveries = jsonResponse(NotificationDeliveries)
const respondTelemetryDeliveries = jsonResponse(TelemetryDeliveries)
const respondGrantPage = respondPage("grants", GrantPage)
const respondReviewerAnswerPage = respondPage("answers", ReviewerAnswerPage)
const respondDeletionPage = respondPage("deletions", DeletionPage)
const respondAuditEntryPage = respondPage("entries", AuditEntryPage)

const respondExamples = respondLines("examples", Example)
const respondChats = respondLines("chats", ChatExample)
const respondPairs = respondLines("pairs", PreferencePair)
const respondChain = respondLines("entries", ChainedAuditEntry)
const respondRuleTest = respondSummary(RuleTestReport, (lines: ReadonlyArray<RuleTestLine>) => ({
  steps: lines.filter(({ type }) => type === "step"),
  result: lines.find(({ type }) => type === "result")
}))

/** The handlers of the public API, by group. */
export const layerContractHandlers = Layer.mergeAll(
  layerGroup(Api, "apiKeys", { keys: ApiKeys }, (handlers, { keys }) =>
    handlers.handleAll({
      list: ({ query }) => Effect.flatMap(keys.list(query), respondApiKeyPage),
      create: ({ payload }) =>
        Effect.map(keys.create(payload), ({ key, secret }) => ({ key, secret: Redacted.value(secret) })),
      get: ({ params }) => keys.get(params.id),
      update: ({ params, payload }) => keys.update(params.id, payload),
      verifyEmail: ({ params }) => keys.verifyEmail(params.id),
      revoke: ({ params, query }) => keys.revoke(params.id, { made_keys: query.made_keys ?? "revoke" })
    })
  ),
  layerGroup(Api, "invitations", { invitations: Invitations }, (handlers, { invitations }) =>
    handlers.handleAll({
      list: ({ query }) =>
        Effect.map(invitations.list(query), ({ items, next_cursor }) => ({
          invitations: items,
          next_cursor,
          mail_configured: invitations.isMailConfigured
        })),
      create: ({ payload }) => invitations.create(payload),
      revoke: ({ params }) => invitations.revoke(params.id)
    })
  ),
  layerGroup(Api, "tasks", { tasks: Tasks, runs: Runs }, (handlers, { tasks, runs }) =>
    handlers.handleAll({
      list: ({ query }) => Effect.flatMap(tasks.list(query), respondTaskPage),
      create: ({ payload }) => tasks.create(payload),
      get: ({ params }) => tasks.get(params.id),
      update: ({ params, payload }) => tasks.update(params.id, payload),
      remove: ({ params }) => tasks.remove(params.id),
      run: ({ headers, params, payload }) =>
        runs.run(params.id, payload, headers).pipe(
          Effect.tap(({ trace_id }) => setTraceHeader(trace_id)),
          Effect.tapErrorTag(["PROVIDER_FAILED", "NO_EXAMPLE", "NO_NEAR_EXAMPLE"], ({ trace_id }) =>
            trace_id === undefined ? Effect.void : setTraceHeader(trace_id)
          )
        )
    })
  ),
  layerGroup(Api, "runs", { runs: RunLog, imports: RunImports }, (handlers, { runs, imports }) =>
    handlers.handleAll({
      list: ({ params, query }) => Effect.flatMap(runs.list(params.id, query), respondRunPage),
      get: ({ params }) => runs.get(params.id),
      import: ({ params, payload }) => imports.import(params.id, payload.runs),
      remove: ({ params }) => runs.remove(params.id),
      dismiss: ({ params }) => runs.dismissReview(params.id)
    })
  ),
  layerGroup(
    Api,
    "datasets",
    { datasets: Datasets, training: TrainingExports },
    (handlers, { datasets, training }) =>
      handlers.handleAll({
        list: ({ params, query }) => Effect.flatMap(datasets.list(params.id, query), respondDatasetPage),
        create: ({ params, payload }) => datasets.create(params.id, payload),
        get: ({ params }) => datasets.get(params.id),
        remove: ({ params }) => datasets.remove(params.id),
        listExamples: ({ params, query }) =>
          Effect.flatMap(datasets.examples(params.id, query), respondExamplePage),
        export: ({ params, query }) =>
          Effect.flatMap(datasets.export(params.id, query.cursor), (examples) =>
            respondExamples(
              Stream.map(examples, (one) => ({ id: one.id, line: Option.some(one) })),
              query
            )
          ),
        exportChats: ({ params, query }) =>
          Effect.flatMap(training.chats(params.id, query), (chats) => respondChats(chats, query)),
        exportPreferences: ({ params, query: { form = "openai", ...options } }) =>
          Effect.flatMap(training.preferences(params.id, { ...options, form }), (pairs) =>
            respondPairs(pairs, options)
          )
      })
  ),
  layerGroup(Api, "comparisons", { comparisons: Comparisons }, (handlers, { comparisons }) =>
    handlers.handleAll({
      list: ({ params, query }) => Effect.flatMap(comparisons.list(params.id, query), respondComparisonPage),
      create: ({ params, payload }) =>
        Effect.map(comparisons.create(params.id, payload), (comparison) => ({ comparison })),
      get: ({ params, query }) => comparisons.get(params.id, query),
      cancel: ({ params }) => Effect.map(comparisons.cancel(params.id), (comparison) => ({ comparison }))
    })
  ),
  layerGroup(Api, "releases", { releases: Releases }, (handlers, { releases }) =>
    handlers.handleAll({
      list: ({ params, query }) => Effect.flatMap(releases.list(params.id, query), respondReleasePage),
      getChanges: ({ params, query }) => releases.changes(params.id, query.since),
      create: ({ params, payload }) => releases.create(params.id, payload)
    })
  ),
  layerGroup(Api, "canaries", { canaries: Canaries }, (handlers, { canaries }) =>
    handlers.handleAll({
      get: ({ params }) => canaries.get(params.id),
      start: ({ params, payload }) => canaries.start(params.id, payload),
      stop: ({ params }) => canaries.stop(params.id)
    })
  ),
  layerGroup(
    Api,
    "feedback",
    { feedback: Feedback, tokens: FeedbackTokens, limits: RateLimits },
    (handlers, { feedback, tokens, limits }) =>
      handlers.handleAll({
        create: ({ payload }) => feedback.create(payload),
        createToken: ({ params, payload }) => tokens.create(params.id, payload ?? {}),
        list: ({ query }) => Effect.flatMap(feedback.list(query), respondFeedbackPage),
        get: ({ params }) => feedback.get(params.id),
        remove: ({ params }) => feedback.remove(params.id),
        stage: ({ params }) => feedback.stage(params.id),
        unstage: ({ params }) => feedback.unstage(params.id),
        reject: ({ params, payload }) => feedback.reject(params.id, payload?.note ?? null),
        confirm: ({ params }) => feedback.confirm(params.id),
        withdraw: ({ params }) => feedback.withdraw(params.id),
        reviewMany: ({ payload }) =>
          Authorized("feedback.write").pipe(
            // The first of them was counted when the request was admitted.
            Effect.flatMap((principal) => limits.charge(principal, payload.feedback_ids.length - 1)),
            Effect.andThen(feedback.reviewMany(payload)),
            Effect.flatMap((results) => respondReviewResults({ results }))
          ),
        getQuality: ({ params, query }) => feedback.quality(params.id, query.days ?? DEFAULT_QUALITY_DAYS),
        previewPromotion: ({ params, query }) =>
          Effect.flatMap(feedback.preview(params.id, query), respondPromotionPreview),
        previewSelection: ({ params, payload, query }) =>
          Effect.flatMap(
            feedback.previewSelection(params.id, query, payload.feedback_ids),
            respondPromotionPreview
          ),
        promote: ({ params, payload }) => feedback.promote(params.id, payload)
      })
  ),
  layerGroup(Api, "feedbackSettings", { settings: FeedbackSettings }, (handlers, { settings }) =>
    handlers.handleAll({
      get: () => settings.get,
      replace: ({ payload }) => settings.replace(payload)
    })
  ),
  layerGroup(
    Api,
    "sessions",
    { sessions: Sessions, steps: Steps, claims: Claims, waits: DecisionWaits, streams: SessionStream },
    (handlers, { sessions, steps, claims, waits, streams }) =>
      handlers.handleAll({
        create: ({ payload }) => sessions.create(payload),
        list: ({ query }) => Effect.flatMap(sessions.list(query), respondAgentSessionPage),
        get: ({ params }) => sessions.get(params.id),
        step: ({ headers, params, payload, query: { after_message, wait_seconds = 0 } }) => {
          const warnings = stepWarnings(payload.arguments)
          const ask = steps.check(params.id, payload, {
            idempotency_key: headers["idempotency-key"],
            after_message
          })
          const answer =
            wait_seconds === 0
              ? ask
              : Effect.flatMap(ask, (first) =>
                  waits.untilDecided(first, params.id, { seconds: wait_seconds, after_message }, ask)
                )
          return warnings.length === 0 ? answer : Effect.map(answer, (step) => ({ ...step, warnings }))
        },
        reportOutcome: ({ params, payload }) => steps.complete(params.id, params.step_id, payload),
        claim: ({ headers, params, payload }) =>
          Effect.map(
            claims.claim(params.id, params.step_id, payload, headers["idempotency-key"]),
            (claim) => ({ claim })
          ),
        renewClaim: ({ params, payload }) =>
          Effect.map(claims.renew(params.id, params.step_id, payload), (claim) => ({ claim })),
        close: ({ params }) => sessions.close(params.id),
        stream: ({ headers, params, query }) =>
          Effect.map(
            streams.open(params.id, headers["last-event-id"] ?? query.after),
            Option.match({
              onNone: () => HttpServerResponse.empty({ status: 204 }),
              onSome: (events) => HttpServerResponse.stream(events, streamResponse)
            })
          )
      })
  ),
  layerGroup(
    Api,
    "approvals",
    { approvals: Approvals, messages: Messages, limits: RateLimits },
    (handlers, { approvals, limits, messages }) =>
      handlers.handleAll({
        listMessages: ({ params, query }) =>
          Effect.map(messages.list(params.id, query.after ?? 0), (found) => ({ messages: found })),
        sendMessage: ({ params, payload }) => messages.send(params.id, payload),
        list: ({ query }) => Effect.flatMap(approvals.list(query), respondApprovalPage),
        get: ({ params }) => approvals.get(params.id),
        decide: ({ params, payload }) => approvals.decide(params.id, payload),
        decideMany: ({ payload }) =>
          Authorized("approvals.decide").pipe(
            // The first of them was counted when the request was admitted.
            Effect.flatMap((principal) => limits.charge(principal, payload.approval_ids.length - 1)),
            Effect.andThen(approvals.decideMany(payload)),
            Effect.flatMap((results) => respondResults({ results }))
          )
      })
  ),
  layerGroup(Api, "executions", { claims: Claims }, (handlers, { claims }) =>
    handlers.handleAll({
      list: ({ query }) => Effect.flatMap(claims.list(query), respondExecutionPage),
      get: ({ params }) => claims.get(params.claim_id),
      resolve: ({ params, payload }) => claims.resolve(params.claim_id, payload)
    })
  ),
  layerGroup(Api, "grants", { grants: Grants }, (handlers, { grants }) =>
    handlers.handleAll({
      list: ({ query }) => Effect.flatMap(grants.list(query), respondGrantPage),
      get: ({ params }) => grants.get(params.id),
      revoke: ({ params }) => grants.revoke(params.id)
    })
  ),
  layerGroup(
    Api,
    "reviewers",
    { reviewers: Reviewers, reviews: ReviewerDecisions },
    (handlers, { reviewers, reviews }) =>
      handlers.handleAll({
        list: () => Effect.map(reviewers.list, (found) => ({ reviewers: found })),
        create: ({ payload }) => reviewers.create(payload),
        get: ({ params, query }) => reviewers.get(params.task_id, query),
        update: ({ params, payload }) => reviewers.update(params.task_id, payload),
        remove: ({ params }) => reviewers.remove(params.task_id),
        stop: ({ params }) => reviewers.stop(params.task_id),
        restore: ({ params }) => reviewers.restore(params.task_id),
        answers: ({ params, query }) =>
          Effect.flatMap(reviewers.answers(params.task_id, query), respondReviewerAnswerPage),
        markWrong: ({ params }) => reviews.markWrong(params.task_id, params.answer_id),
        backtest: ({ params, payload }) => reviewers.backtest(params.task_id, payload),
        promote: ({ params, payload }) => reviewers.promote(params.task_id, payload)
      })
  ),
  layerGroup(Api, "hooks", { hooks: Hooks }, (handlers, { hooks }) =>
    handlers.handleAll({
      claudeCode: ({ payload, query }) =>
        hooks.answer(readHookInput("claude-code", payload), {
          waitSeconds: query.wait_seconds ?? DEFAULT_HOOK_WAIT_SECONDS,
          defer: query.defer === "true"
        })
    })
  ),
  layerGroup(
    Api,
    "approvalRules",
    { rules: Rules, tests: RuleTests, suggestions: RuleSuggestions, shadow: ShadowRules },
    (handlers, { rules, tests, suggestions, shadow }) =>
      handlers.handleAll({
        get: () => rules.list,
        replace: ({ payload }) => rules.replace(payload),
        test: ({ payload }) => Effect.flatMap(tests.test(payload), respondRuleTest),
        suggest: ({ query }) => suggestions.suggest(query),
        getShadow: () => shadow.get,
        replaceShadow: ({ payload }) => shadow.replace(payload),
        removeShadow: () => shadow.remove,
        promoteShadow: ({ payload }) => shadow.promote(payload),
        listShadowDifferences: ({ query }) => shadow.differences(query)
      })
  ),
  layerGroup(Api, "notificationEndpoints", { notifications: Notifications }, (handlers, { notifications }) =>
    handlers.handleAll({
      list: () => Effect.flatMap(notifications.list, respondNotificationEndpoints),
      create: ({ payload }) =>
        Effect.map(notifications.create(payload), ({ endpoint, secret }) => ({
          endpoint,
          secret: Redacted.value(secret)
        })),
      update: ({ params, payload }) => notifications.update(params.id, payload),
      remove: ({ params }) => notifications.remove(params.id),
      rotateSecret: ({ params }) =>
        Effect.map(notifications.rotateSecret(params.id), (secret) => ({ secret: Redacted.value(secret) })),
      verify: ({ params }) => notifications.verify(params.id),
      test: ({ params }) => notifications.test(params.id),
      listDeliveries: ({ params }) =>
        Effect.flatMap(notifications.deliveries(params.id), (deliveries) =>
          respondNotificationDeliveries({ deliveries })
        ),
      getDelivery: ({ params }) => notifications.delivery(params.id, params.delivery_id),
      replayDelivery: ({ params }) =>
        Effect.as(notifications.replay(params.id, params.delivery_id), {
          queued: true as const,
          id: params.delivery_id
        }),
      replayDeliveries: ({ params, payload }) => notifications.replayWindow(params.id, payload)
    })
  ),
  layerGroup(Api, "events", { events: EventLog }, (handlers, { events }) =>
    handlers.handleAll({ list: ({ query }) => events.list(query) })
  ),
  layerGroup(Api, "redactionSettings", { settings: RedactionSettings }, (handlers, { settings }) =>
    handlers.handleAll({
      get: () => settings.get,
      replace: ({ payload }) => settings.replace(payload),
      preview: ({ payload }) => settings.preview(payload)
    })
  ),
  layerGroup(Api, "retentionSettings", { settings: RetentionSettings }, (handlers, { settings }) =>
    handlers.handleAll({
      get: () => settings.get,
      replace: ({ payload }) => settings.replace(payload)
    })
  ),
  layerGroup(Api, "deletions", { deletions: Deletions }, (handlers, { deletions }) =>
    handlers.handleAll({
      list: ({ query }) => Effect.flatMap(deletions.list(query), respondDeletionPage),
      get: ({ params }) => deletions.get(params.id),
      erase: ({ payload }) => deletions.erase(payload)
    })
  ),
  layerGroup(Api, "telemetryDestinations", { telemetry: Telemetry }, (handlers, { telemetry }) =>
    handlers.handleAll({
      list: () => Effect.map(telemetry.list, (destinations) => ({ destinations })),
      create: ({ payload }) => telemetry.create(payload),
      test: ({ params }) => Effect.as(telemetry.test(params.id), { delivered: true as const }),
      remove: ({ params }) => telemetry.remove(params.id),
      listDeliveries: ({ params }) =>
        Effect.flatMap(telemetry.deliveries(params.id), (deliveries) =>
          respondTelemetryDeliveries({ deliveries })
        ),
      replayDelivery: ({ params }) =>
        Effect.as(telemetry.replay(params.id, params.delivery_id), {
          queued: true as const,
          id: params.delivery_id
        })
    })
  ),
  layerGroup(Api, "auditLog", { audit: Audit, chain: AuditChain }, (handlers, { audit, chain }) =>
    handlers.handleAll({
      list: ({ query }) => Effect.flatMap(audit.list(query), respondAuditEntryPage),
      export: ({ query }) =>
        Effect.flatMap(chain.export(Number(query.cursor ?? query.after ?? 0)), (entries) =>
          respondChain(
            Stream.map(entries, (entry) => ({ id: String(entry.position), line: Option.some(entry) })),
            query
          )
        ),
      getCheckpoint: () => chain.checkpoint
    })
  )
)

/** The handler of end users' feedback. */
export const layerEndUserFeedbackHandlers = layerGroup(
  EndUserFeedbackApi,
  "end_user_feedback",
  { tokens: FeedbackTokens },
  (handlers, { tokens }) =>
    handlers.handleAll({
      submit: ({ params, payload }) =>
        Effect.flatMap(CurrentFeedbackToken, (token) => tokens.submit(token, params.id, payload))
    })
)

/** Adds the run's trace id to the response headers, also if the run failed. */
const setTraceHeader = (trace_id: TraceId) =>
  HttpEffect.appendPreResponseHandler((_request, response) =>
    Effect.succeed(HttpServerResponse.setHeader(response, TRACE_HEADER, trace_id))
  )

/** Response options of a stream. Its frames are encoded already, see `sseFrames.ts`. */
const streamResponse: HttpServerResponse.Options.WithContentType = {
  contentType: "text/event-stream",
  headers: STREAM_HEADERS
}
