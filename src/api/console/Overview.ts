/** The figures of the console's start page: how approvals, answers and deliveries went in the last days. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { KeyId, EndpointId, ReleaseId, TaskId } from "../../domain/Ids.ts"
import { ReviewerStopReason } from "../../domain/approvals/Reviewer.ts"
import { Timestamp } from "../../domain/Time.ts"
import { Authentication, requires } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { CONSOLE_PATH } from "./consolePath.ts"

/** The days that the overview can cover, up to and including today, in UTC. */
export const overviewPeriods = { "7d": 7, "30d": 30 } as const
export type OverviewPeriod = keyof typeof overviewPeriods

/** Most pending approvals that the overview counts. */
export const MAX_COUNTED_PENDING = 10_000

/** Rows of each of the overview's tables. */
export const OVERVIEW_ROWS = 10

/** Most releases whose day the overview marks. */
export const OVERVIEW_RELEASES = 20

const query = { period: Schema.Literals(["7d", "30d"]) }

/** A day in UTC, such as `2026-11-21`. */
const Day = Schema.String

/** Closed approvals by what closed them. */
const closedCounts = {
  approved: Schema.Int,
  rejected: Schema.Int,
  /** The review window ended without a decision. */
  timed_out: Schema.Int,
  /** Their session was closed before. */
  session_closed: Schema.Int
}

/** Times from the request to the decision of a person, at most 5 % off. Null if no person decided. */
const decisionTimes = { p50_seconds: Schema.NullOr(Schema.Finite), p95_seconds: Schema.NullOr(Schema.Finite) }

/** How approvals were decided. */
export const ApprovalOverview = Schema.Struct({
  pending: Schema.Struct({
    count: Schema.Int,
    /** Whether there are more than `MAX_COUNTED_PENDING`, which `count` then is. */
    more: Schema.Boolean,
    oldest_requested_at: Schema.NullOr(Timestamp)
  }),
  /** Of all days. */
  total: Schema.Struct({ ...closedCounts, escalated: Schema.Int, ...decisionTimes }),
  /** Every day of the period, oldest first, by the day of the close. */
  days: Schema.Array(Schema.Struct({ day: Day, ...closedCounts, escalated: Schema.Int, ...decisionTimes })),
  /** The tools with the most closed approvals. */
  tools: Schema.Array(Schema.Struct({ tool: Schema.String, ...closedCounts })),
  /** The API keys with the most decisions. */
  people: Schema.Array(
    Schema.Struct({
      key_id: KeyId,
      /** Null: the key is no longer stored. */
      name: Schema.NullOr(Schema.String),
      approved: Schema.Int,
      rejected: Schema.Int
    })
  )
}).annotate({ identifier: "ApprovalOverview" })
export type ApprovalOverview = typeof ApprovalOverview.Type

/** Runs and the feedback on them. */
const feedbackCounts = {
  runs: Schema.Int,
  positive: Schema.Int,
  neutral: Schema.Int,
  negative: Schema.Int
}

/** How people judged answers. */
export const FeedbackOverview = Schema.Struct({
  total: Schema.Struct(feedbackCounts),
  /** Every day of the period, oldest first: runs by their day, feedback by its own. */
  days: Schema.Array(Schema.Struct({ day: Day, ...feedbackCounts })),
  /** The releases with the most feedback. */
  releases: Schema.Array(
    Schema.Struct({
      task_id: TaskId,
      task_name: Schema.String,
      release_id: ReleaseId,
      number: Schema.Int,
      created_at: Timestamp,
      /** Whether it is the live release of its task. */
      live: Schema.Boolean,
      ...feedbackCounts
    })
  ),
  /** The newest releases of the period, oldest first. */
  released: Schema.Array(
    Schema.Struct({ day: Day, task_id: TaskId, task_name: Schema.String, release_id: ReleaseId })
  )
}).annotate({ identifier: "FeedbackOverview" })
export type FeedbackOverview = typeof FeedbackOverview.Type

/** Completed deliveries. */
const deliveryCounts = { delivered: Schema.Int, failed: Schema.Int }

/** Deliveries that are queued or retried. */
const waitingCounts = {
  waiting: Schema.Int,
  /** When the oldest of them was created. Null: there are none. */
  oldest_waiting_at: Schema.NullOr(Timestamp)
}

/** How webhooks were delivered. */
export const DeliveryOverview = Schema.Struct({
  total: Schema.Struct({ ...deliveryCounts, ...waitingCounts }),
  /** Every day of the period, oldest first, by the day of the event. */
  days: Schema.Array(Schema.Struct({ day: Day, ...deliveryCounts })),
  /** Active endpoints whose last attempts failed, those with the most waiting deliveries first, then those with the most failed ones. */
  failing: Schema.Array(
    Schema.Struct({
      id: EndpointId,
      url_hint: Schema.String,
      description: Schema.NullOr(Schema.String),
      active: Schema.Boolean,
      ...deliveryCounts,
      ...waitingCounts,
      consecutive_failures: Schema.Int,
      cooldown_until: Schema.NullOr(Timestamp)
    })
  )
}).annotate({ identifier: "DeliveryOverview" })
export type DeliveryOverview = typeof DeliveryOverview.Type

/** How close a deadline is that an alert names, in minutes. */
export const DUE_SOON_MINUTES = 15

/** The most approvals that an alert counts. One more tells that there are more. */
export const MAX_ALERT_COUNT = 99

/** Consecutive failures from which an endpoint or a collector counts as failing: one failed attempt is no alert. */
export const FAILING_ATTEMPTS = 5

/** Share of a limit from which its use is an alert. */
export const NEAR_LIMIT = 0.8

/** A webhook endpoint or a collector that fails, or whose queue is nearly full. */
const FailingDestination = {
  /** When its attempts began to fail. Null: they succeed, but its queue is nearly full. */
  failing_since: Schema.NullOr(Timestamp),
  /** The share of its queue that is used, from 0 to 1. */
  queue_use: Schema.Finite
}

/** Days for which the strip shows that a reviewer model lost the right to decide. */
export const STOPPED_DAYS = 7

/**
 * Conditions that need a person now, for the strip on top of every page. A part is null if the key lacks its scope. Read often, so each
 * statement has a limit.
 */
export const Alerts = Schema.Struct({
  /** Counts up to `MAX_ALERT_COUNT` + 1. */
  approvals: Schema.NullOr(
    Schema.Struct({
      escalated: Schema.Int,
      /** Due within `DUE_SOON_MINUTES`. */
      due_soon: Schema.Int,
      /** The nearest deadline of the pending approvals. */
      next_due_at: Schema.NullOr(Timestamp),
      /** Executions whose outcome is unknown and that the key may resolve. */
      unknown_executions: Schema.Int
    })
  ),
  endpoints: Schema.NullOr(
    Schema.Array(
      Schema.Struct({ id: EndpointId, name: Schema.String, waiting: Schema.Int, ...FailingDestination })
    )
  ),
  collector: Schema.NullOr(Schema.Struct({ name: Schema.String, ...FailingDestination })),
  /** Reviewer models that lost the right to decide within `STOPPED_DAYS`, and have not been restored. */
  reviewers: Schema.NullOr(
    Schema.Array(
      Schema.Struct({
        id: TaskId,
        name: Schema.String,
        stopped_at: Timestamp,
        stopped_reason: ReviewerStopReason
      })
    )
  ),
  /** Limits of stored amounts that are used up to `NEAR_LIMIT`. */
  limits: Schema.Array(
    Schema.Struct({
      of: Schema.Literals(["runs", "feedback", "bytes"]),
      /** The share of the limit that is used; 1 and above: requests are refused. */
      use: Schema.Finite
    })
  )
}).annotate({ identifier: "Alerts" })
export type Alerts = typeof Alerts.Type

/** The parts of the start page, one operation per scope, and the alerts of every page. */
export class ConsoleOverviewApi extends HttpApiGroup.make("overview")
  .add(
    HttpApiEndpoint.get("approvals", "/approvals", { query, success: ApprovalOverview }).middleware(
      requires("approvals.read")
    ),
    HttpApiEndpoint.get("feedback", "/feedback", { query, success: FeedbackOverview }).middleware(
      requires("feedback.read")
    ),
    HttpApiEndpoint.get("deliveries", "/deliveries", { query, success: DeliveryOverview }).middleware(
      requires("org_config.read")
    ),
    HttpApiEndpoint.get("alerts", "/alerts", { success: Alerts })
  )
  .prefix(`${CONSOLE_PATH}/overview`)
  .middleware(RequestBody)
  .middleware(Authentication) {}
