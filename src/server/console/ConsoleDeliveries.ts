import { Array as Arr, Context, DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import {
  type BatchLogPage,
  DELIVERIES_PAGE,
  type DeliveryFilter,
  type DeliveryLogPage,
  type DeliveryOfEndpoint,
  ENDPOINT_LINE_HOURS,
  type EndpointHealth,
  type FailedCount,
  type LoggedDelivery,
  type LoggedDeliveryDetail,
  type ReplayResult
} from "../../api/console/Deliveries.ts"
import { notFound } from "../../api/notFound.ts"
import type { NotFound, RateLimited } from "../../api/Problems.ts"
import type { DeliveryAttempt } from "../../domain/delivery/DeliveryState.ts"
import {
  ApprovalId,
  type DeliveryId,
  type EndpointId,
  type EventId,
  type TelemetryDeliveryId
} from "../../domain/Ids.ts"
import type { TelemetryDeliveryStatus } from "../../domain/telemetry/TelemetryDestination.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { VERSION } from "../../domain/Version.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { Notifications } from "../notifications/Notifications.ts"
import { StoreClock } from "../store/StoreClock.ts"
import {
  countFailed,
  type FailedPeriod,
  findBatches,
  findDeliveries,
  findEventJson,
  listBatches,
  listEndpointIds,
  listHours,
  listRecords,
  listStates,
  listTelemetryDestinations,
  listTools,
  type LogRow
} from "./ConsoleDeliveries/rows.ts"

/** The console's log of deliveries over all webhook endpoints, and the health of the endpoints. */
export class ConsoleDeliveries extends Context.Service<
  ConsoleDeliveries,
  {
    /** One page of the log, newest first. */
    readonly list: (
      filter: DeliveryFilter & { readonly cursor?: DeliveryId }
    ) => Effect.Effect<DeliveryLogPage, never, Authorized<"org_config.read">>
    /** One delivery with its attempts, its event and the headers that it is sent with. */
    readonly get: (
      key: DeliveryOfEndpoint
    ) => Effect.Effect<LoggedDeliveryDetail, NotFound, Authorized<"org_config.read">>
    /** One page of the batches that the telemetry collector gets, newest first. */
    readonly batches: (filter: {
      readonly status?: TelemetryDeliveryStatus
      readonly cursor?: TelemetryDeliveryId
    }) => Effect.Effect<BatchLogPage, never, Authorized<"org_config.read">>
    /** The health of every endpoint. */
    readonly health: Effect.Effect<ReadonlyArray<EndpointHealth>, never, Authorized<"org_config.read">>
    /** Counts the deliveries that a replay of the period would queue. */
    readonly countFailed: (
      period: FailedPeriod
    ) => Effect.Effect<FailedCount, never, Authorized<"org_config.read">>
    /** Makes the waiting deliveries of an endpoint due now. */
    readonly retryNow: (
      endpoint_id: EndpointId
    ) => Effect.Effect<void, NotFound | RateLimited, Authorized<"org_config.write">>
    /** Replays failed deliveries, independently of each other: a result for each, in the order of the list. */
    readonly replay: (
      deliveries: ReadonlyArray<DeliveryOfEndpoint>
    ) => Effect.Effect<ReadonlyArray<ReplayResult>, never, Authorized<"org_config.write">>
  }
>()("countersign/server/console/ConsoleDeliveries") {
  static readonly layer = Layer.effect(
    ConsoleDeliveries,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      const delivery = yield* Delivery
      const notifications = yield* Notifications

      /** Adds the facts of other tables: the tool of the approval and when the next attempt is due. */
      const describe = Effect.fnUntraced(function* (
        { org_id, scopes }: Principal,
        rows: ReadonlyArray<LogRow>
      ) {
        const pending = rows
          .filter(({ status }) => status === "pending")
          .map(({ endpoint_id, id }) => ({ destination_id: endpoint_id, delivery_id: id }))
        const approvals = scopes.has("approvals.read")
          ? Arr.dedupe(rows.flatMap(({ label }) => label.split(" ").slice(1)))
          : []
        const dueById = yield* delivery.nextAttempts(org_id, pending)
        const tools = approvals.length === 0 ? [] : yield* listTools(sql, org_id, approvals)
        const toolById = new Map(tools.map((row): [string, string] => [row.approval_id, row.tool]))
        return rows.map(({ label, status, ...row }): LoggedDelivery => {
          const [type = "", approval] = label.split(" ")
          return {
            ...row,
            // Webhooks are never delivered in part.
            status: status === "partial" ? "delivered" : status,
            type,
            approval_id: approval === undefined ? null : ApprovalId.make(approval, { disableChecks: true }),
            tool: (approval === undefined ? undefined : toolById.get(approval)) ?? null,
            next_attempt_at: dueById.get(row.id) ?? null
          }
        })
      })

      return ConsoleDeliveries.of({
        list: Effect.fn("ConsoleDeliveries.list")(function* (filter) {
          const principal = yield* Authorized("org_config.read")
          const { org_id } = principal
          const endpoints = yield* listEndpointIds(sql, org_id, filter.endpoint_id)
          const { horizon, keys } = yield* findDeliveries(
            sql,
            org_id,
            endpoints.map(({ endpoint_id }) => endpoint_id),
            filter
          )
          const shown = keys.slice(0, DELIVERIES_PAGE)
          const records = shown.length === 0 ? [] : yield* listRecords(sql, org_id, shown)
          const deliveries = yield* describe(principal, records)
          const last = keys.length > DELIVERIES_PAGE ? shown.at(-1) : undefined
          return {
            deliveries,
            next_cursor: last?.delivery_id ?? horizon,
            searched_to: horizon === null ? null : creationTime(horizon)
          }
        }, Effect.orDie),
        get: Effect.fn("ConsoleDeliveries.get")(function* ({ delivery_id, endpoint_id }) {
          const principal = yield* Authorized("org_config.read")
          const { org_id, scopes } = principal
          const { attempt_log } = yield* delivery.get(org_id, endpoint_id, delivery_id)
          const records = yield* Effect.orDie(listRecords(sql, org_id, [{ endpoint_id, delivery_id }]))
          const [found] = yield* Effect.orDie(describe(principal, records))
          // Retention has removed it since.
          if (found === undefined) return yield* notFound("delivery")
          const event = scopes.has("approvals.read")
            ? yield* Effect.orDie(findEventJson(sql, org_id, found.event_id))
            : undefined
          return {
            ...found,
            attempt_log,
            event_json: event?.json ?? null,
            headers: headersOf(found.event_id, found.type, attempt_log.at(-1))
          }
        }),
        batches: Effect.fn("ConsoleDeliveries.batches")(function* (filter) {
          const { org_id } = yield* Authorized("org_config.read")
          const [destination] = yield* listTelemetryDestinations(sql, org_id)
          if (destination === undefined) return { batches: [], next_cursor: null }
          const { destination_id } = destination
          const { horizon, ids } = yield* findBatches(sql, org_id, [destination_id], filter)
          const shown = ids.slice(0, DELIVERIES_PAGE)
          const last = ids.length > DELIVERIES_PAGE ? shown.at(-1) : undefined
          return {
            batches: shown.length === 0 ? [] : yield* listBatches(sql, org_id, destination_id, shown),
            next_cursor: last ?? horizon
          }
        }, Effect.orDie),
        health: Effect.gen(function* () {
          const { org_id } = yield* Authorized("org_config.read")
          const rows = yield* listEndpointIds(sql, org_id, undefined)
          const endpoints = rows.map(({ endpoint_id }) => endpoint_id)
          if (endpoints.length === 0) return []
          const from = DateTime.subtract(DateTime.startOf(yield* clock.now, "hour"), {
            hours: ENDPOINT_LINE_HOURS - 1
          })
          const hours = yield* listHours(sql, org_id, endpoints, from)
          const states = yield* listStates(sql, org_id, endpoints)
          const hoursById = Map.groupBy(hours, ({ endpoint_id }) => endpoint_id)
          return states.map((state): EndpointHealth => ({
            ...state,
            hours: (hoursById.get(state.endpoint_id) ?? []).map(({ delivered, failed }) => ({
              delivered,
              failed
            }))
          }))
        }).pipe(Effect.orDie, Effect.withSpan("ConsoleDeliveries.health")),
        countFailed: Effect.fn("ConsoleDeliveries.countFailed")(function* (period) {
          const { org_id } = yield* Authorized("org_config.read")
          return yield* countFailed(sql, org_id, period)
        }, Effect.orDie),
        retryNow: (endpoint_id) => notifications.retryNow(endpoint_id),
        replay: (deliveries) => notifications.replayMany(deliveries)
      })
    })
  )
}

/** The time at which a delivery's id was generated: the first 12 hex digits of a UUIDv7. */
const creationTime = (id: DeliveryId) => DateTime.makeUnsafe(Number.parseInt(id.slice(4, 16), 16))

/** The headers of an attempt. Its signatures are left out, because only the receiver needs them. */
const headersOf = (
  event_id: EventId,
  type: string,
  attempt: DeliveryAttempt | undefined
): LoggedDeliveryDetail["headers"] => {
  const seconds =
    attempt === undefined ? "…" : String(Math.floor(DateTime.toEpochMillis(attempt.started_at) / 1000))
  return [
    { name: "content-type", value: "application/json" },
    { name: "user-agent", value: `Countersign/${VERSION}` },
    { name: "x-svc-event-id", value: event_id },
    { name: "x-svc-event-type", value: type },
    { name: "x-svc-signature", value: `t=${seconds},v1=…` },
    { name: "webhook-id", value: event_id },
    { name: "webhook-timestamp", value: seconds },
    { name: "webhook-signature", value: "v1,…" }
  ]
}
