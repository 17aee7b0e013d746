import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { auditFilter } from "../../../api/AuditLog.ts"
import { Authorized } from "../../../api/Authorization.ts"
import { ConsoleApi } from "../../../api/Console.ts"
import { closedFilter } from "../../../api/console/ClosedApprovals.ts"
import { deliveryFilter } from "../../../api/console/Deliveries.ts"
import { feedbackFilter } from "../../../api/Feedback.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import { runFilter } from "../../../api/Runs.ts"
import type {
  AuditEntryId,
  DeliveryId,
  FeedbackId,
  KeyId,
  RunId,
  SessionId,
  TaskId
} from "../../../domain/Ids.ts"
import { Sessions } from "../../approvals/Sessions.ts"
import { ApiKeys } from "../../identity/ApiKeys.ts"
import { Audit } from "../../identity/Audit.ts"
import { Notifications } from "../../notifications/Notifications.ts"
import { Feedback } from "../../tasks/Feedback.ts"
import { RunLog } from "../../tasks/RunLog.ts"
import { Tasks } from "../../tasks/Tasks.ts"
import { ClosedApprovals } from "../ClosedApprovals.ts"
import { ConsoleDeliveries } from "../ConsoleDeliveries.ts"
import { Exports } from "../Exports.ts"
import {
  auditLogExport,
  closedApprovalsExport,
  deliveriesExport,
  endpointsExport,
  feedbackExport,
  keysExport,
  runsExport,
  sessionsExport,
  tasksExport
} from "../Exports/exportedLists.ts"

const encodeClosedFilter = Schema.encodeSync(Schema.Struct(closedFilter))
const encodeAuditFilter = Schema.encodeSync(Schema.Struct(auditFilter))
const encodeDeliveryFilter = Schema.encodeSync(Schema.Struct(deliveryFilter))
const encodeFeedbackFilter = Schema.encodeSync(Schema.Struct(feedbackFilter))
const encodeRunFilter = Schema.encodeSync(Schema.Struct(runFilter))

/** The handlers of `/console/exports`. */
export const ConsoleExportsHttp = HttpApiBuilder.group(
  ConsoleApi,
  "exports",
  Effect.fnUntraced(function* (handlers) {
    const closed = yield* ClosedApprovals
    const exports = yield* Exports
    const sessions = yield* Sessions
    const audit = yield* Audit
    const feedback = yield* Feedback
    const runs = yield* RunLog
    const keys = yield* ApiKeys
    const deliveries = yield* ConsoleDeliveries
    const notifications = yield* Notifications
    const tasks = yield* Tasks
    return handlers.handleAll({
      sessions: Effect.fnUntraced(function* ({ query: { format, ...filter } }) {
        const scope = Authorized("sessions.read")
        const principal = yield* scope
        return yield* exports.respond(principal, sessionsExport, {
          format,
          filter,
          read: (page: PageRequest<SessionId>) =>
            Effect.provideService(sessions.list({ ...page, ...filter }), scope, principal)
        })
      }),
      closed_approvals: Effect.fnUntraced(function* ({ query: { format, ...filter } }) {
        const scope = Authorized("approvals.read")
        const principal = yield* scope
        return yield* exports.respond(principal, closedApprovalsExport, {
          format,
          filter: encodeClosedFilter(filter),
          read: ({ cursor }: PageRequest<string>) =>
            Effect.provideService(closed.export(filter, cursor), scope, principal)
        })
      }),
      audit_log: Effect.fnUntraced(function* ({ query: { format, ...filter } }) {
        const scope = Authorized("approvals.admin")
        const principal = yield* scope
        return yield* exports.respond(principal, auditLogExport, {
          format,
          filter: encodeAuditFilter(filter),
          read: (page: PageRequest<AuditEntryId>) =>
            Effect.provideService(audit.list({ ...page, ...filter }), scope, principal)
        })
      }),
      feedback: Effect.fnUntraced(function* ({ query: { format, ...filter } }) {
        const scope = Authorized("feedback.read")
        const principal = yield* scope
        return yield* exports.respond(principal, feedbackExport, {
          format,
          filter: encodeFeedbackFilter(filter),
          read: (page: PageRequest<FeedbackId>) =>
            Effect.provideService(feedback.list({ ...page, ...filter }), scope, principal)
        })
      }),
      runs: Effect.fnUntraced(function* ({ params: { id: task_id }, query: { format, ...filter } }) {
        const scope = Authorized("runs.read")
        const principal = yield* scope
        return yield* exports.respond(principal, runsExport, {
          format,
          filter: { task_id, ...encodeRunFilter(filter) },
          read: (page: PageRequest<RunId>) =>
            Effect.provideService(runs.list(task_id, { ...page, ...filter }), scope, principal)
        })
      }),
      all_runs: Effect.fnUntraced(function* ({ query: { format, task_id, ...filter } }) {
        const scope = Authorized("runs.read")
        const principal = yield* scope
        return yield* exports.respond(principal, runsExport, {
          format,
          filter: { task_id, ...encodeRunFilter(filter) },
          read: (page: PageRequest<RunId>) =>
            Effect.provideService(runs.list(task_id, { ...page, ...filter }), scope, principal)
        })
      }),
      keys: Effect.fnUntraced(function* ({ query: { format, ...filter } }) {
        const scope = Authorized("keys.write")
        const principal = yield* scope
        return yield* exports.respond(principal, keysExport, {
          format,
          filter,
          read: (page: PageRequest<KeyId>) =>
            Effect.provideService(keys.list({ ...page, ...filter }), scope, principal)
        })
      }),
      deliveries: Effect.fnUntraced(function* ({ query: { format, ...filter } }) {
        const scope = Authorized("org_config.read")
        const principal = yield* scope
        return yield* exports.respond(principal, deliveriesExport, {
          format,
          filter: encodeDeliveryFilter(filter),
          read: ({ cursor }: PageRequest<DeliveryId>) =>
            Effect.map(
              Effect.provideService(
                deliveries.list(cursor === undefined ? filter : { ...filter, cursor }),
                scope,
                principal
              ),
              (page) => ({ items: page.deliveries, next_cursor: page.next_cursor })
            )
        })
      }),
      endpoints: Effect.fnUntraced(function* ({ query: { format } }) {
        const scope = Authorized("org_config.read")
        const principal = yield* scope
        return yield* exports.respond(principal, endpointsExport, {
          format,
          filter: {},
          // At most 50 of an organization.
          read: () =>
            Effect.map(Effect.provideService(notifications.list, scope, principal), ({ endpoints }) => ({
              items: endpoints,
              next_cursor: null
            }))
        })
      }),
      tasks: Effect.fnUntraced(function* ({ query: { format } }) {
        const scope = Authorized("tasks.read")
        const principal = yield* scope
        return yield* exports.respond(principal, tasksExport, {
          format,
          filter: {},
          read: (page: PageRequest<TaskId>) => Effect.provideService(tasks.list(page), scope, principal)
        })
      })
    })
  })
)
