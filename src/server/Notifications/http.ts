import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../api/Api.ts"
import { Notifications } from "../Notifications.ts"

/** The handlers of `/v1/notification-endpoints`. */
export const NotificationsHttp = HttpApiBuilder.group(
  Api,
  "notification_endpoints",
  Effect.fnUntraced(function* (handlers) {
    const notifications = yield* Notifications
    return handlers.handleAll({
      list: () => Effect.map(notifications.list, (endpoints) => ({ endpoints, email_notifier: false })),
      create: ({ payload }) =>
        Effect.map(notifications.create(payload), ({ endpoint, secret }) => ({
          endpoint,
          secret: Redacted.value(secret)
        })),
      remove: ({ params }) => notifications.remove(params.id)
    })
  })
)
