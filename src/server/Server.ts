/**
 * The only module that assembles layers. From the bottom: the database and its keys (`layerStore`), the way to other
 * hosts and the time (`layerEdge`), and the services over both (`layerServices`). Above them: background workers
 * (`layerSchedulers`), routes (`layerRoutes`), and the whole listening service (`layer`). The services require the
 * edge, so leaving out a part of it does not compile.
 */
import { Clock, type Context, Duration, Effect, Layer, Option, References } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api/Api.ts"
import type { Authentication as AuthenticationMiddleware } from "../api/Authorization.ts"
import { EndUserFeedbackApi } from "../api/EndUserFeedback.ts"
import { MAX_STEP_ID_LENGTH } from "../domain/Ids.ts"
import { ApiKeys } from "./identity/ApiKeys.ts"
import { AuthenticationRefusals } from "./identity/AuthenticationRefusals.ts"
import { ApprovalFeed } from "./console/ApprovalFeed.ts"
import { makeApprovalCollector } from "./approvals/pendingApprovals.ts"
import { Approvals } from "./approvals/Approvals.ts"
import { Audit } from "./identity/Audit.ts"
import { AuditChain } from "./identity/AuditChain.ts"
import * as Authentication from "./http/Authentication.ts"
import { ComparisonRuns } from "./tasks/ComparisonRuns.ts"
import { Comparisons } from "./tasks/Comparisons.ts"
import { layerComparisonSpans } from "./tasks/Comparisons/layerComparisonSpans.ts"
import { layerWorker } from "./concurrency/Worker.ts"
import { ClientAddress } from "./http/ClientAddress.ts"
import * as Console from "./console/Console.ts"
import { LISTEN_CONNECTIONS, MAX_CONNECTIONS } from "./store/Database.ts"
import { SlowStatementMillis } from "./store/Database/slowStatements.ts"
import { makeDataDirectoryCollector } from "./store/dataDirectoryCollector.ts"
import { makeDatabaseCollector } from "./store/Database/metricCollector.ts"
import { layerMigrated } from "./store/migrate.ts"
import { Datasets } from "./tasks/Datasets.ts"
import * as RowRetention from "./deletion/RowRetention.ts"
import * as DataRetention from "./deletion/DataRetention.ts"
import { Deletions } from "./deletion/Deletions.ts"
import { RetentionSettings } from "./deletion/RetentionSettings.ts"
import { Claims } from "./approvals/Claims.ts"
import { Deadlines } from "./approvals/Deadlines.ts"
import { Delivery, ENGINE_CONNECTIONS } from "./delivery/Delivery.ts"
import { makeDeliveryCollector } from "./delivery/Delivery/metricCollector.ts"
import { AgreementHistory } from "./console/AgreementHistory.ts"
import { FeedbackList } from "./console/FeedbackList.ts"
import { Playground } from "./tasks/Playground.ts"
import { Egress, ProviderEgress } from "./egress/Egress.ts"
import { Email } from "./notifications/Email.ts"
import * as MailChannel from "./notifications/Email/MailChannel.ts"
import * as EndUserFeedback from "./http/EndUserFeedback.ts"
import { EndUsers } from "./tasks/EndUsers.ts"
import { Feedback } from "./tasks/Feedback.ts"
import { FeedbackSettings } from "./tasks/FeedbackSettings.ts"
import { FeedbackTokens } from "./tasks/FeedbackTokens.ts"
import { layerConsoleServices } from "./console/layerConsoleServices.ts"
import { layerProcessClock, processClock } from "./concurrency/processClock.ts"
import * as Envelope from "./http/Envelope.ts"
import * as ProblemFrame from "./http/ProblemFrame.ts"
import * as CredentialFree from "./http/CredentialFree.ts"
import * as HookDenials from "./http/HookDenials.ts"
import * as Idempotency from "./http/Idempotency.ts"
import { KnownSecrets } from "./secrets/KnownSecrets.ts"
import { makeOldSecretsCollector } from "./secrets/oldSecrets.ts"
import * as MasterKeys from "./secrets/MasterKeys.ts"
import { LimitUse } from "./observability/LimitUse.ts"
import { layerRegistry, Metrics } from "./observability/Metrics.ts"
import * as EmailConfirmation from "./http/EmailConfirmation.ts"
import * as LeakedKeys from "./http/LeakedKeys.ts"
import { Invitations } from "./notifications/Invitations.ts"
import { MailTransport } from "./notifications/MailTransport.ts"
import * as EndpointOutages from "./notifications/EndpointOutages.ts"
import { EventLog } from "./notifications/EventLog.ts"
import { Notifications } from "./notifications/Notifications.ts"
import { RecentEvents } from "./notifications/Notifications/RecentEvents.ts"
import * as WebhookChannel from "./notifications/Notifications/WebhookChannel.ts"
import { layerVerificationLinks } from "./notifications/layerVerificationLinks.ts"
import { EmailAddresses } from "./identity/EmailAddresses.ts"
import { VerificationPolicy } from "./identity/VerificationPolicy.ts"
import { OrganizationLimits } from "./admission/OrganizationLimits.ts"
import { Organizations } from "./identity/Organizations.ts"
import { StoredUsage } from "./identity/StoredUsage.ts"
import { Revocations } from "./identity/Revocations.ts"
import * as OwnTelemetry from "./observability/OwnTelemetry.ts"
import { Providers } from "./tasks/Providers.ts"
import { NearestExample } from "./tasks/Providers/NearestExample.ts"
import { OpenAi } from "./tasks/Providers/OpenAi.ts"
import { Anthropic } from "./tasks/Providers/Anthropic.ts"
import { RateLimits } from "./admission/RateLimits.ts"
import { Canaries } from "./tasks/Canaries.ts"
import { Releases } from "./tasks/Releases.ts"
import * as RequestBody from "./http/RequestBody.ts"
import * as RequestLog from "./http/RequestLog.ts"
import { VerifiedCredentials } from "./admission/VerifiedCredentials.ts"
import { WorkLimits } from "./admission/WorkLimits.ts"
import { RedactionSettings } from "./redaction/RedactionSettings.ts"
import { DecisionWaits } from "./approvals/DecisionWaits.ts"
import { Grants } from "./approvals/Grants.ts"
import { ReviewerDecisions } from "./approvals/ReviewerDecisions.ts"
import { layerReviewerReleases } from "./approvals/ReviewerDecisions/layerReviewerReleases.ts"
import { Reviewers } from "./approvals/Reviewers.ts"
import * as ReviewerWorkers from "./approvals/ReviewerWorkers.ts"
import { Rules } from "./approvals/Rules.ts"
import { RuleSuggestions } from "./approvals/RuleSuggestions.ts"
import { RuleTests } from "./approvals/RuleTests.ts"
import { Tickets } from "./approvals/Tickets.ts"
import { ShadowRules } from "./approvals/ShadowRules.ts"
import { RunImports } from "./tasks/RunImports.ts"
import { TrainingExports } from "./tasks/TrainingExports.ts"
import { RunLog } from "./tasks/RunLog.ts"
import { Runs } from "./tasks/Runs.ts"
import { ScoreLabels } from "./tasks/ScoreLabels.ts"
import { layerRunSpans } from "./tasks/Runs/layerRunSpans.ts"
import { layerListen } from "./http/listen.ts"
import { layerStopDelay, Stopping } from "./http/Stopping.ts"
import { UnsentResponses } from "./admission/UnsentResponses.ts"
import { loopbackNetworks } from "./admission/Connections.ts"
import { layerContractHandlers, layerEndUserFeedbackHandlers } from "./contractHandlers.ts"
import { layerStore } from "./main/layerStore.ts"
import { Hooks } from "./approvals/Hooks.ts"
import { Messages } from "./approvals/Messages.ts"
import { Sessions } from "./approvals/Sessions.ts"
import { SessionEvents } from "./approvals/SessionEvents.ts"
import { BudgetCounters } from "./approvals/BudgetCounters.ts"
import { SessionFacts } from "./approvals/SessionFacts.ts"
import { SessionSignals } from "./approvals/SessionSignals.ts"
import { SessionWriter } from "./approvals/SessionWriter.ts"
import { SessionStream } from "./approvals/SessionStream.ts"
import type { Settings } from "./config/Settings.ts"
import { CompiledSchemas } from "./tasks/CompiledSchemas.ts"
import * as SpanErasure from "./telemetry/eraseSpans.ts"
import { Spans } from "./telemetry/Spans.ts"
import { RecentPayloads } from "./telemetry/Spans/RecentPayloads.ts"
import { Steps } from "./approvals/Steps.ts"
import { StoreClock } from "./store/StoreClock.ts"
import * as System from "./http/OperatorRoutes.ts"
import { Tasks } from "./tasks/Tasks.ts"
import { Telemetry } from "./telemetry/Telemetry.ts"
import * as OtlpChannel from "./telemetry/Telemetry/OtlpChannel.ts"

export { layerProcessClock } from "./concurrency/processClock.ts"
export { layerStore } from "./main/layerStore.ts"

/** The settings of the services, without the database, the edge and the listening address. */
export type ServiceSettings = Pick<
  Settings,
  | "mailsPerHour"
  | "notifications"
  | "telemetry"
  | "metricsToken"
  | "publicUrl"
  | "rateLimits"
  | "log"
  | "workLimits"
  | "organizationLimits"
  | "verification"
  | "keyRetention"
  | "auditRetention"
  | "connections"
  | "consoleIdle"
  | "singleSignOn"
  | "stop"
>

/** The settings of the edge. */
export type EdgeSettings = Pick<Settings, "egress" | "mail" | "providerAllow">

/**
 * The edge: the services through which the others reach other hosts and the time. Besides the database, they have no other way out of the
 * process, so a test that replaces these replaces everything outside.
 */
export type Edge = Egress | ProviderEgress | MailTransport | Providers | StoreClock

/**
 * The delivery engine's part of the graceful shutdown, after the requests' part. Of the default 8 s it gets 5.2 s,
 * longer than a webhook attempt can take, so that no attempt is interrupted and repeated. An email or a span export can
 * take 10 s: one that has not ended by then is interrupted, and the next owner sends it again.
 */
const ENGINE_SHARE = 0.65

/** Passes on a service that is provided already, else builds it: so that a replacement is used wherever it is provided. */
const unlessProvided = <Id, Shape, E, R>(
  service: Context.Key<Id, Shape>,
  layer: Layer.Layer<Id, E, R>
): Layer.Layer<Id, E, R> =>
  Layer.unwrap(
    Effect.map(
      Effect.serviceOption(service),
      Option.match({
        onNone: () => layer,
        onSome: (provided): Layer.Layer<Id, E, R> => Layer.succeed(service, provided)
      })
    )
  )

/**
 * The real edge, over the database. An edge service that is provided to this layer is passed on in place of the real one: the real
 * `Providers`, for example, call their models through a provided `ProviderEgress`.
 */
export const layerEdge = (settings: EdgeSettings) =>
  unlessProvided(
    Providers,
    // By the kind of the release's provider.
    Providers.layer.pipe(Layer.provide([NearestExample.layer, OpenAi.layer(), Anthropic.layer()]))
  ).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        unlessProvided(Egress, Egress.layer(settings.egress)),
        unlessProvided(
          ProviderEgress,
          // Only providers may reach the operator's model servers, and plain http.
          ProviderEgress.layer({
            ...settings.egress,
            allow: settings.providerAllow,
            allowHttp: true
          })
        ),
        unlessProvided(MailTransport, MailTransport.layer(settings.mail)),
        unlessProvided(StoreClock, StoreClock.layer)
      )
    )
  )

/**
 * Every service of Countersign, over a migrated database, a key ring and the edge. They include the delivery engine;
 * other background work is in `layerSchedulers`.
 */
export const layerServices = (settings: ServiceSettings) =>
  layerConsoleServices(settings).pipe(
    Layer.provideMerge(
      Layer.mergeAll(Invitations.layer.pipe(Layer.provideMerge(ApiKeys.layer)), SessionStream.layer())
    ),
    Layer.merge(
      Layer.mergeAll(
        Hooks.layer.pipe(Layer.provideMerge(Layer.mergeAll(Sessions.layer, Steps.layer, Messages.layer))),
        Approvals.layer,
        Grants.layer,
        RuleTests.layer,
        RuleSuggestions.layer,
        ShadowRules.layer,
        Runs.layer,
        RunLog.layer,
        Playground.layer,
        Releases.layer,
        Canaries.layer,
        Comparisons.layer.pipe(Layer.provideMerge(ComparisonRuns.layer())),
        Layer.mergeAll(
          FeedbackList.layer.pipe(Layer.provideMerge(Feedback.layer)),
          FeedbackTokens.layer(settings),
          TrainingExports.layer
        ).pipe(Layer.provide([EndUsers.layer, ScoreLabels.layer])),
        FeedbackSettings.layer,
        AgreementHistory.layer,
        RunImports.layer,
        Deadlines.layer().pipe(Layer.provideMerge(Claims.layer)),
        Deletions.layer.pipe(Layer.provide(EndUsers.layer)),
        RetentionSettings.layer
      )
    ),
    Layer.provideMerge(
      Layer.mergeAll(
        SessionWriter.layer,
        Tickets.layer(settings),
        DecisionWaits.layer(),
        Layer.merge(ReviewerDecisions.layer, layerReviewerReleases).pipe(
          Layer.provideMerge(Reviewers.layer.pipe(Layer.provideMerge(Datasets.layer)))
        )
      )
    ),
    Layer.provideMerge(
      Layer.mergeAll(layerRunSpans, layerComparisonSpans, SessionFacts.layer, BudgetCounters.layer)
    ),
    Layer.provideMerge(
      Layer.mergeAll(
        Notifications.layer,
        EventLog.layer,
        RedactionSettings.layer,
        Rules.layer,
        Tasks.layer,
        Telemetry.layer(settings.telemetry)
      )
    ),
    Layer.provideMerge(Layer.mergeAll(Spans.layer(settings.telemetry), Email.layer)),
    Layer.provideMerge(layerVerificationLinks),
    Layer.provideMerge(SessionEvents.layer),
    Layer.provideMerge(SessionSignals.layer),
    Layer.provideMerge(
      Delivery.layer(
        Effect.all([
          WebhookChannel.make(settings.notifications),
          MailChannel.make(settings),
          OtlpChannel.make(settings.telemetry)
        ]),
        {
          retention: { keep: settings.notifications.retention },
          drainMillis: Duration.toMillis(settings.stop) * ENGINE_SHARE
        }
      )
    ),
    Layer.provideMerge(EmailAddresses.layer),
    Layer.provideMerge(Layer.mergeAll(Audit.layer, AuditChain.layer, Revocations.layer())),
    Layer.provideMerge(
      Layer.mergeAll(
        RecentPayloads.layer,
        RecentEvents.layer,
        Organizations.layer,
        StoredUsage.layer,
        CompiledSchemas.layer,
        KnownSecrets.layer
      )
    ),
    Layer.provideMerge(Layer.mergeAll(LimitUse.layer, AuthenticationRefusals.layer)),
    Layer.provide([
      Layer.succeed(OrganizationLimits, settings.organizationLimits),
      Layer.succeed(VerificationPolicy, settings.verification)
    ])
  )

/** Background workers over the services: deadlines, comparisons, notices of outages, deletions and retention. */
export const layerSchedulers = (settings: ServiceSettings) =>
  Layer.mergeAll(
    Deadlines.layerWorker(),
    ComparisonRuns.layerWorkers,
    ReviewerWorkers.layer,
    RowRetention.layer(settings),
    Deletions.layerWorker,
    EndpointOutages.layer,
    DataRetention.layer,
    SpanErasure.layer
  )

/** Updates the gauges before each export to the operator's collector, so that the exporter reads current values. */
const layerMetricCollection = ({ ownTelemetry }: Pick<Settings, "ownTelemetry">) =>
  ownTelemetry === undefined
    ? Layer.empty
    : Layer.unwrap(
        Effect.map(Metrics, ({ collect }) =>
          layerWorker({ name: "metric_collection", runOnce: collect, every: OwnTelemetry.EXPORT_INTERVAL })
        )
      )

/** The routes of the API contract with one kind of authentication. */
const layerContract = <R>(authentication: Layer.Layer<AuthenticationMiddleware, never, R>) =>
  HttpApiBuilder.layer(Api).pipe(
    // Fresh handlers for each authentication: a handler keeps the authentication that it was built with.
    Layer.provide(Layer.fresh(layerContractHandlers)),
    Layer.provide([
      authentication,
      Authentication.layerScopeChecks,
      CredentialFree.layer,
      RequestBody.layer,
      HookDenials.layer,
      Idempotency.layer,
      ProblemFrame.layer
    ])
  )

/** The route of end users' feedback, which takes feedback tokens, and its preflight. */
const layerEndUserFeedback = Layer.mergeAll(
  HttpApiBuilder.layer(EndUserFeedbackApi).pipe(
    Layer.provide(layerEndUserFeedbackHandlers),
    Layer.provide([EndUserFeedback.layerAuthentication, RequestBody.layer, ProblemFrame.layer])
  ),
  EndUserFeedback.layerPreflight
)

/** All routes, over the services: the API, the console, and those for operators. */
export const layerRoutes = (settings: ServiceSettings) =>
  Layer.mergeAll(
    layerContract(Authentication.layer),
    Console.layerRoutes({ publicUrl: settings.publicUrl, contract: layerContract }),
    LeakedKeys.layer,
    layerEndUserFeedback,
    EmailConfirmation.layer,
    System.layer({ metricsToken: Option.fromUndefinedOr(settings.metricsToken) }),
    Envelope.layer
  ).pipe(
    Layer.provide([
      RateLimits.layer(settings.rateLimits),
      Layer.succeed(WorkLimits, settings.workLimits),
      ClientAddress.layer(settings.connections),
      RequestLog.layer({
        requests: settings.log.requests,
        sampleRatio: settings.log.sampleRatio,
        slowMillis: settings.log.slowRequestMillis
      })
    ])
  )

/** The state that the listening server shares with the routes. */
export const layerServerState = ({ unreadResponses }: Pick<Settings, "unreadResponses">) =>
  Layer.mergeAll(UnsentResponses.layer(unreadResponses), VerifiedCredentials.layer, Stopping.layer)

/** The connections of one replica, through a pooler and direct. */
const connectionsOf = (store: Settings["store"]): number =>
  MAX_CONNECTIONS +
  ENGINE_CONNECTIONS +
  (store.kind === "external" && store.directUrl !== undefined ? LISTEN_CONNECTIONS : 0)

/** The whole service on the clock of its context. */
const layerOnCurrentClock = (settings: Settings) =>
  layerStopDelay(settings.stopDelay).pipe(
    // Built after the HTTP server, so that shutdown ends open streams first and then waits for the remaining requests.
    Layer.provideMerge(
      Layer.mergeAll(
        SessionStream.layerEndOnShutdown,
        ApprovalFeed.layerEndOnShutdown,
        DecisionWaits.layerEndOnShutdown
      )
    ),
    Layer.provideMerge(
      HttpRouter.serve(layerRoutes(settings), {
        disableLogger: true,
        disableListenLog: true,
        routerConfig: {
          // A path that a proxy blocks must not be reachable with another case or a second slash.
          caseSensitive: true,
          ignoreDuplicateSlashes: false,
          // The longest path parameter. The router's default of 100 would accept a step whose outcome could never be reported.
          maxParamLength: MAX_STEP_ID_LENGTH
        }
      })
    ),
    Layer.provideMerge(layerSchedulers(settings)),
    Layer.provideMerge(layerMetricCollection(settings)),
    Layer.provideMerge(
      Metrics.layer(
        Effect.all([
          // First what needs no database, which may hang.
          Effect.map(LimitUse, ({ collect }) => collect),
          Effect.succeed(makeDataDirectoryCollector(settings.store)),
          makeDeliveryCollector,
          makeDatabaseCollector({ maxConnections: connectionsOf(settings.store) }),
          makeApprovalCollector,
          makeOldSecretsCollector
        ])
      )
    ),
    Layer.provideMerge(layerServices(settings)),
    Layer.provideMerge(layerEdge(settings)),
    Layer.provideMerge(MasterKeys.layerCheckMasterKeys),
    Layer.provideMerge(layerMigrated),
    Layer.provideMerge(layerStore(settings.store)),
    Layer.provideMerge(
      layerListen({
        host: settings.host,
        port: settings.port,
        drain: Duration.times(settings.stop, 1 - ENGINE_SHARE),
        limits: {
          connections: settings.connections.total,
          connectionsPerAddress: settings.connections.perAddress,
          trustedProxies: settings.connections.trustedProxies,
          unlimitedNetworks: [...loopbackNetworks, ...settings.connections.trustedProxies]
        }
      })
    ),
    Layer.provideMerge(layerServerState(settings)),
    Layer.provideMerge(OwnTelemetry.layer(settings.ownTelemetry)),
    Layer.provideMerge(layerRegistry),
    Layer.provideMerge(Layer.succeed(SlowStatementMillis, settings.log.slowStatementMillis)),
    // Without a collector no spans are created: they would be a third of the cost of a small request.
    Layer.provideMerge(Layer.succeed(References.TracerEnabled, settings.ownTelemetry?.traces !== undefined))
  )

/**
 * The whole service: a migrated database, the edge, the services, their workers, and the listening routes. An edge
 * service that is provided to this layer is used in place of the real one.
 *
 * Under another clock than the process's, such as a `TestClock`, the service's time is that clock's: moving it makes
 * approvals expire and retries due. Time-outs, leases and other pauses of I/O stay on the process's clock, so the
 * service starts, answers and stops without a move.
 */
export const layer = (settings: Settings) =>
  Layer.unwrap(
    Effect.map(Clock.Clock, (clock) => {
      const time: Layer.Layer<never> =
        clock === processClock ? Layer.empty : unlessProvided(StoreClock, StoreClock.layerOf(clock))
      return layerOnCurrentClock(settings).pipe(Layer.provide([time, layerProcessClock]))
    })
  )
