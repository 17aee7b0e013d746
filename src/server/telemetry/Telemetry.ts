import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import {
  DestinationExists,
  ExportFailed,
  type InsufficientScope,
  InvalidHeaders,
  InvalidUrl,
  type NotFound,
  type NotReplayable,
  type QueueFull,
  RateLimited
} from "../../api/Problems.ts"
import type { CreatedTelemetryDestination, NewTelemetryDestination } from "../../api/TelemetryDestinations.ts"
import { checkCollectorHeaders } from "../../domain/telemetry/CollectorHeaders.ts"
import { generateTraceId, type TelemetryDeliveryId, TelemetryDestinationId } from "../../domain/Ids.ts"
import { hasSeparateScores, scoresUrl, tracesPath } from "../../domain/telemetry/FeedbackConventions.ts"
import { encodeSpan, envelope } from "../../domain/telemetry/OtlpJson.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { urlHint } from "../../domain/network/PublicUrl.ts"
import { makeSampling } from "../../domain/telemetry/SpanSampling.ts"
import { exportSource, testSpan } from "../../domain/telemetry/SpanConventions.ts"
import type { TelemetryDelivery, TelemetryDestination } from "../../domain/telemetry/TelemetryDestination.ts"
import type { AdminNoticeType } from "../../domain/identity/AdminNotice.ts"
import { Audit } from "../identity/Audit.ts"
import { requireContentScopes } from "../identity/requireContentScopes.ts"
import { Email } from "../notifications/Email.ts"
import { atomic } from "../store/transaction.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { Egress } from "../egress/Egress.ts"
import { invalidUrl } from "../egress/invalidUrl.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { SPAN_QUEUE_LIMIT, Spans } from "./Spans.ts"
import { MAX_BATCH_BYTES } from "./Spans/SpanBuffer.ts"
import { BatchWriter } from "./Spans/BatchWriter.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { makeDeliveries, destinationNotFound } from "./Telemetry/deliveries.ts"
import {
  claimTest,
  deleteDestination,
  findDestination,
  destinationPlace,
  findPreviousHint,
  hasDestination,
  insertDestination,
  rememberRefusedGzip,
  secondsUntilNextTest
} from "./Telemetry/rows.ts"
import { sendProtobufSpans } from "./Telemetry/sendProtobufSpans.ts"
import { encodeHeaders, sendCompressed, sendSpans, unsealAddress } from "./Telemetry/sendSpans.ts"

/** Minimum interval between two tests of one destination. */
const TEST_SECONDS = 10

/** The telemetry destination of an organization and its deliveries, which are batches of spans. */
export class Telemetry extends Context.Service<
  Telemetry,
  {
    /** Lists the destination; an organization has at most one. */
    readonly list: Effect.Effect<ReadonlyArray<TelemetryDestination>, never, Authorized<"org_config.read">>
    /**
     * Creates the destination. Its URL is checked now, and again at every attempt. Spans are exported from the commit on. With content it
     * takes the scopes that read it. Admins get an email about exported content and about another host.
     */
    readonly create: (
      input: NewTelemetryDestination
    ) => Effect.Effect<
      CreatedTelemetryDestination,
      InsufficientScope | InvalidUrl | InvalidHeaders | DestinationExists,
      Authorized<"org_config.write">
    >
    /**
     * Sends one test span, once; succeeds when the collector accepts it. Not counted in metrics and not logged as a
     * delivery.
     */
    readonly test: (
      id: TelemetryDestinationId
    ) => Effect.Effect<void, NotFound | RateLimited | ExportFailed, Authorized<"org_config.write">>
    /** Removes the destination and drops its pending spans. A request in flight may still arrive. */
    readonly remove: (
      id: TelemetryDestinationId
    ) => Effect.Effect<void, NotFound, Authorized<"org_config.write">>
    /** Lists the latest 50 deliveries, newest first. */
    readonly deliveries: (
      id: TelemetryDestinationId
    ) => Effect.Effect<ReadonlyArray<TelemetryDelivery>, NotFound, Authorized<"org_config.read">>
    /** Queues a failed batch again while its spans are retained. Of two concurrent replays one is refused. */
    readonly replay: (
      id: TelemetryDestinationId,
      delivery_id: TelemetryDeliveryId
    ) => Effect.Effect<void, NotFound | NotReplayable | QueueFull, Authorized<"org_config.write">>
  }
>()("countersign/server/telemetry/Telemetry") {
  /** `queueLimit`: pending spans of an organization. Default 10,000. */
  static readonly layer = (options: { readonly queueLimit?: number } = {}) =>
    Layer.effect(
      Telemetry,
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const atomically = atomic(sql)
        const clock = yield* StoreClock
        const box = yield* SecretBox
        const egress = yield* Egress
        const delivery = yield* Delivery
        const spans = yield* Spans
        const audit = yield* Audit
        const email = yield* Email
        const deliveries = makeDeliveries(sql, delivery, audit, spans, options.queueLimit ?? SPAN_QUEUE_LIMIT)

        const checkInput = Effect.fnUntraced(function* ({
          headers = {},
          scores = "span",
          url
        }: NewTelemetryDestination) {
          const faults = checkCollectorHeaders(Object.entries(headers))
          const [fault] = faults
          if (fault !== undefined) {
            return yield* new InvalidHeaders({
              detail: fault.detail,
              errors: faults.map(({ detail, pointer }) => ({ pointer, detail }))
            })
          }
          const address = tracesUrl(url)
          yield* Effect.mapError(egress.vet(address), invalidUrl("#/url"))
          if (hasSeparateScores(scores) && scoresUrl(address, scores) === undefined) {
            const path = tracesPath(scores)
            return yield* new InvalidUrl({
              detail: `With \`scores\` \`${scores}\`, the path of the URL has to end in \`${path}\`. Use the tool's address for OTLP traces.`,
              errors: [{ pointer: "#/url", detail: `Expected a path that ends in ${path}` }]
            })
          }
          return { address, headers, scores }
        })

        /** Sends a single span to the collector. */
        const sendTest = Effect.fnUntraced(function* (principal: Principal, id: TelemetryDestinationId) {
          const { org_id } = principal
          const now = yield* clock.now
          const address = yield* atomically(
            Effect.gen(function* () {
              const found = yield* claimTest(sql, org_id, id, now, TEST_SECONDS)
              if (Option.isSome(found)) yield* audit.record(principal, "destination.tested", id)
              return found
            })
          )
          if (Option.isNone(address)) {
            return yield* new RateLimited({
              detail: `Rate limit exceeded: a destination can be tested once per ${TEST_SECONDS} s.`,
              retry_after_seconds: yield* Effect.orDie(
                secondsUntilNextTest(sql, org_id, id, now, TEST_SECONDS)
              )
            })
          }
          const collector = yield* Effect.orDie(unsealAddress(box, org_id, id, address.value))
          const span = testSpan(yield* generateTraceId, now.epochMilliseconds)
          const request = new BatchWriter(envelope(exportSource(org_id)), MAX_BATCH_BYTES)
          request.append(encodeSpan(span, makeSampling(1).traceState))
          const send = address.value.scores === "phoenix" ? sendProtobufSpans : sendSpans
          const payload = request.finish()
          return yield* sendCompressed(
            address.value,
            (isGzipped) =>
              send(egress, { org_id, destination_id: id }, collector, { payload, spans: 1, isGzipped }),
            rememberRefusedGzip(sql, org_id, id)
          )
        })

        return Telemetry.of({
          list: Effect.gen(function* () {
            const { org_id } = yield* Authorized("org_config.read")
            const found = yield* findDestination(sql, org_id)
            if (Option.isNone(found)) return []
            const { dropped_spans, waiting_spans, ...destination } = found.value
            const local = spans.localCounts(org_id)
            return [
              {
                ...destination,
                last_error: yield* deliveries.lastError(
                  org_id,
                  destination.id,
                  destination.last_delivered_at
                ),
                pending_spans: waiting_spans + local.waiting,
                dropped_spans: dropped_spans + local.dropped
              }
            ]
          }).pipe(Effect.orDie, Effect.withSpan("Telemetry.list")),
          create: Effect.fn("Telemetry.create")(function* (input) {
            const principal = yield* Authorized("org_config.write")
            const { actor, org_id } = principal
            if (input.content === true) yield* requireContentScopes(principal, "#/content")
            const { address, headers, scores } = yield* checkInput(input)
            const destination_id = yield* TelemetryDestinationId.generate
            const sealed = (column: "url" | "headers", text: string) =>
              box.seal(destinationPlace(org_id, destination_id, column), Redacted.make(text))
            const row = {
              org_id,
              destination_id,
              url: yield* sealed("url", address),
              url_hint: urlHint(address),
              headers: yield* sealed("headers", yield* Effect.orDie(encodeHeaders(headers))),
              content: input.content ?? false,
              trace: input.trace ?? "own",
              scores,
              compression: input.compression ?? "auto",
              created_at: yield* clock.now,
              created_by_id: actor.id,
              created_by_name: actor.name
            }
            yield* atomically(
              Effect.gen(function* () {
                if (!(yield* insertDestination(sql, row))) {
                  return yield* new DestinationExists({
                    detail:
                      "This organization already has a telemetry destination. Remove it before creating another."
                  })
                }
                const previous = yield* Effect.orDie(findPreviousHint(sql, org_id))
                yield* audit.record(principal, "destination.created", destination_id, {
                  url_hint: row.url_hint,
                  content: row.content,
                  trace: row.trace,
                  scores: row.scores,
                  compression: row.compression
                })
                const notify = (type: AdminNoticeType, detail: Record<string, string>) =>
                  Effect.flatMap(audit.record(principal, type, destination_id, detail), (entry_id) =>
                    email.notifyAdmins(org_id, type, entry_id)
                  )
                if (row.content) yield* notify("destination.content_enabled", { url_hint: row.url_hint })
                if (previous !== undefined && new URL(previous).hostname !== new URL(row.url_hint).hostname) {
                  yield* notify("destination.host_changed", {
                    url_hint: row.url_hint,
                    previous_url_hint: previous
                  })
                }
                yield* sql.afterCommit(spans.invalidateDestination(org_id))
              })
            )
            return { id: destination_id, url_hint: row.url_hint }
          }),
          test: Effect.fn("Telemetry.test")(function* (id) {
            const principal = yield* Authorized("org_config.write")
            const { org_id } = principal
            if (!(yield* Effect.orDie(hasDestination(sql, org_id, id)))) return yield* destinationNotFound
            const outcome = yield* sendTest(principal, id)
            if (outcome._tag !== "Delivered") return yield* new ExportFailed({ detail: outcome.error })
          }),
          remove: Effect.fn("Telemetry.remove")(function* (id) {
            const principal = yield* Authorized("org_config.write")
            const { org_id } = principal
            const droppedSpans = yield* atomically(
              Effect.gen(function* () {
                // Queue rows are locked before the destination, in the same order as by the statement that records
                // results. The second call discards deliveries queued between the first call and the lock on the
                // destination.
                yield* delivery.discard(org_id, id)
                const waiting = yield* deleteDestination(sql, org_id, id)
                if (Option.isNone(waiting)) return yield* destinationNotFound
                yield* delivery.discard(org_id, id)
                yield* audit.record(principal, "destination.removed", id, { dropped_spans: waiting.value })
                yield* sql.afterCommit(spans.invalidateDestination(org_id))
                return waiting.value
              })
            )
            yield* Effect.logInfo("Telemetry destination removed; its pending spans were dropped", {
              org_id,
              destination_id: id,
              spans: droppedSpans
            })
          }),
          deliveries: Effect.fn("Telemetry.deliveries")(function* (id) {
            const { org_id } = yield* Authorized("org_config.read")
            return yield* deliveries.list(org_id, id)
          }),
          replay: Effect.fn("Telemetry.replay")(function* (id, delivery_id) {
            yield* deliveries.replay(yield* Authorized("org_config.write"), id, delivery_id)
          })
        })
      })
    )
}

/** The default path for traces (OTLP 1.x, "OTLP/HTTP Request"). */
const TRACES_PATH = "/v1/traces"

/**
 * Returns the URL that spans are sent to: the given URL, with the default path if its path is empty or `/`. Text that is not a URL is
 * returned unchanged for the URL check to refuse.
 */
export const tracesUrl = (text: string): string => {
  const [, origin, rest = ""] = /^([a-z][a-z0-9+.-]*:\/\/[^/?#\\]*)\/?([?#].*)?$/i.exec(text) ?? []
  return origin === undefined ? text : `${origin}${TRACES_PATH}${rest}`
}
