import { Context, Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Authorized } from "../../../api/Authorization.ts"
import { ConsoleApi } from "../../../api/Console.ts"
import type { DeliveryFilter } from "../../../api/console/Deliveries.ts"
import type { ExportFormat } from "../../../api/console/Exports.ts"
import type { RunRowFilter } from "../../../api/console/RunRows.ts"
import type { PageRequest } from "../../../api/Pagination.ts"
import type { DeliveryId, RunId } from "../../../domain/Ids.ts"
import type { Scope } from "../../../domain/identity/Scope.ts"
import { Sessions } from "../../approvals/Sessions.ts"
import { ApiKeys } from "../../identity/ApiKeys.ts"
import { Audit } from "../../identity/Audit.ts"
import { Notifications } from "../../notifications/Notifications.ts"
import { Feedback } from "../../tasks/Feedback.ts"
import { RunLog } from "../../tasks/RunLog.ts"
import type { Page } from "../../store/Pagination.ts"
import { Tasks } from "../../tasks/Tasks.ts"
import { ClosedApprovals } from "../ClosedApprovals.ts"
import { ConsoleDeliveries } from "../ConsoleDeliveries.ts"
import { Exports } from "../Exports.ts"
import {
  auditLogExport,
  closedApprovalsExport,
  deliveriesExport,
  endpointsExport,
  type ExportedList,
  feedbackExport,
  keysExport,
  runsExport,
  sessionsExport,
  tasksExport
} from "../Exports/exportedLists.ts"

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
    const listRuns = ({ task_id, ...request }: PageRequest<RunId> & RunRowFilter) =>
      runs.list(task_id, request)

    /** Responds with a list as a file. Its pages are read with the principal of the request. */
    const respond = <S extends Scope, Item, Encoded, Filter, Id extends string, E>(
      scope: S,
      list: ExportedList<Item, Encoded, Filter>,
      format: ExportFormat,
      filter: Filter,
      read: (request: PageRequest<Id> & Filter) => Effect.Effect<Page<Item, Id>, E, Authorized<S>>
    ) =>
      Effect.flatMap(Authorized(scope), (principal) =>
        exports.respond(principal, list, {
          format,
          filter,
          read: (page: PageRequest<Id>) =>
            Effect.updateContext(read({ ...page, ...filter }), (context: Context.Context<never>) =>
              Context.add(context, Authorized(scope), principal)
            )
        })
      )

    return handlers.handleAll({
      sessions: ({ query: { format, ...filter } }) =>
        respond("sessions.read", sessionsExport, format, filter, sessions.list),
      closed_approvals: ({ query: { format, ...filter } }) =>
        respond("approvals.read", closedApprovalsExport, format, filter, ({ cursor }: PageRequest<string>) =>
          closed.export(filter, cursor)
        ),
      audit_log: ({ query: { format, ...filter } }) =>
        respond("approvals.admin", auditLogExport, format, filter, audit.list),
      feedback: ({ query: { format, ...filter } }) =>
        respond("feedback.read", feedbackExport, format, filter, feedback.list),
      runs: ({ params: { id: task_id }, query: { format, ...filter } }) =>
        respond("runs.read", runsExport, format, { task_id, ...filter }, listRuns),
      all_runs: ({ query: { format, ...filter } }) =>
        respond("runs.read", runsExport, format, filter, listRuns),
      keys: ({ query: { format, ...filter } }) =>
        respond("keys.write", keysExport, format, filter, keys.list),
      deliveries: ({ query: { format, ...filter } }) =>
        respond(
          "org_config.read",
          deliveriesExport,
          format,
          filter,
          (request: PageRequest<DeliveryId> & DeliveryFilter) =>
            Effect.map(deliveries.list(request), (page) => ({
              items: page.deliveries,
              next_cursor: page.next_cursor
            }))
        ),
      // At most 50 of an organization.
      endpoints: ({ query: { format } }) =>
        respond("org_config.read", endpointsExport, format, {}, () =>
          Effect.map(notifications.list, ({ endpoints }) => ({ items: endpoints, next_cursor: null }))
        ),
      tasks: ({ query: { format } }) => respond("tasks.read", tasksExport, format, {}, tasks.list)
    })
  })
)
