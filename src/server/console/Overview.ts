import { Context, DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import {
  type Alerts,
  type ApprovalOverview,
  type DeliveryOverview,
  type FeedbackOverview,
  type OverviewPeriod,
  overviewPeriods
} from "../../api/console/Overview.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { Delivery } from "../delivery/Delivery.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { readAlerts } from "./Overview/readAlerts.ts"
import { readApprovals } from "./Overview/readApprovals.ts"
import { readDeliveries } from "./Overview/readDeliveries.ts"
import { readFeedback } from "./Overview/readFeedback.ts"

/** The figures of the console's start page, read from counts per day, and the alerts of every page. Days are in UTC and end with today. */
export class Overview extends Context.Service<
  Overview,
  {
    readonly approvals: (
      period: OverviewPeriod
    ) => Effect.Effect<ApprovalOverview, never, Authorized<"approvals.read">>
    readonly feedback: (
      period: OverviewPeriod
    ) => Effect.Effect<FeedbackOverview, never, Authorized<"feedback.read">>
    readonly deliveries: (
      period: OverviewPeriod
    ) => Effect.Effect<DeliveryOverview, never, Authorized<"org_config.read">>
    /** The conditions that need a person now and that the principal may read. */
    readonly alerts: (principal: Principal) => Effect.Effect<Alerts>
  }
>()("countersign/server/console/Overview") {
  static readonly layer = Layer.effect(
    Overview,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      const delivery = yield* Delivery
      const usage = yield* StoredUsage
      const daysOf = (period: OverviewPeriod) =>
        Effect.map(clock.now, (now) => lastDays(now, overviewPeriods[period]))
      return Overview.of({
        approvals: Effect.fn("Overview.approvals")(function* (period) {
          const { org_id } = yield* Authorized("approvals.read")
          return yield* readApprovals(sql, org_id, yield* daysOf(period))
        }, Effect.orDie),
        feedback: Effect.fn("Overview.feedback")(function* (period) {
          const { org_id } = yield* Authorized("feedback.read")
          return yield* readFeedback(sql, org_id, yield* daysOf(period))
        }, Effect.orDie),
        deliveries: Effect.fn("Overview.deliveries")(function* (period) {
          const { org_id } = yield* Authorized("org_config.read")
          return yield* readDeliveries(sql, delivery, org_id, yield* daysOf(period))
        }, Effect.orDie),
        alerts: Effect.fn("Overview.alerts")(
          (principal) => readAlerts({ sql, clock, delivery, usage }, principal),
          Effect.orDie
        )
      })
    })
  )
}

/** The last days up to today in UTC, oldest first, such as `2026-11-21`. */
const lastDays = (now: Timestamp, count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) =>
    DateTime.formatIsoDateUtc(DateTime.subtract(now, { days: count - 1 - index }))
  )
