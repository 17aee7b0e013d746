import { Effect, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { NotificationEndpoints, NotificationDeliveries } from "../../../api/NotificationEndpoints.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { Notifications } from "../Notifications.ts"

const respondNotificationEndpoints = jsonResponse(NotificationEndpoints)
const respondNotificationDeliveries = jsonResponse(NotificationDeliveries)

/** The handlers of `/v1/notification-endpoints`. */
export const NotificationsHttp = HttpApiBuilder.group(
  Api,
  "notificationEndpoints",
  Effect.fnUntraced(function* (handlers) {
    const notifications = yield* Notifications
    return handlers.handleAll({
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
  })
)
