/** Mutants of notifications: the interpretation of a receiver's response. */
import type { ListedMutant } from "../list.ts"

export const notifications: ReadonlyArray<ListedMutant> = [
  {
    file: "server/notifications/Notifications/WebhookChannel.ts",
    from: "if (status === 410) return",
    to: "if (status === 410 || status === 404) return",
    tests: ["server/notifications/Notifications/WebhookChannel.test.ts", "server/delivery/Delivery.test.ts"]
  }
]
