import type { PgClient } from "@effect/sql-pg"
import { Effect, Latch } from "effect"
import { makePgNotify } from "../../store/PgNotify.ts"

/**
 * Interval between two notifications of new rows, in milliseconds; the first after a pause is sent at once. Only sent if
 * there are other replicas, whose deliveries wait for it.
 */
const ROWS_INTERVAL_MILLIS = 20

/** A notification between replicas: new queue rows, released shards, the end of a destination's cooldown, or that its retries are due now. */
export type WakeUp =
  | { readonly _tag: "Rows" }
  | { readonly _tag: "Shards" }
  | { readonly _tag: "CooldownEnded"; readonly org_id: string; readonly destination_id: string }
  | { readonly _tag: "MadeDue"; readonly org_id: string; readonly destination_id: string }

const OF_DESTINATION = /^(cooldown|due) (\S+) (\S+)$/

/** Notifications between replicas, by LISTEN and NOTIFY. Best effort: the database is polled as well. */
export interface Wakeups {
  /** Requests a notification of new rows, which `runNotifier` sends shortly after. */
  readonly signalNewRows: () => void
  /** Notifies the other replicas of released shards immediately. */
  readonly notifyFreeShards: Effect.Effect<void>
  /** Notifies all replicas, this one included, that the cooldown of a destination was ended. */
  readonly notifyCooldownEnded: (org_id: string, destination_id: string) => Effect.Effect<void>
  /** Notifies all replicas, this one included, that the cooldown of a destination was ended and all of its queue is due. */
  readonly notifyMadeDue: (org_id: string, destination_id: string) => Effect.Effect<void>
  /** Worker that sends the notifications requested by `signalNewRows`. */
  readonly runNotifier: Effect.Effect<never>
  /** Worker that listens to all replicas, including this one, and reconnects when the connection is lost. */
  readonly runListener: (on: (wakeUp: WakeUp) => void) => Effect.Effect<never>
}

/** Listens on a connection of the current `PgClient`. */
export const makeWakeups: Effect.Effect<Wakeups, never, PgClient.PgClient> = Effect.gen(function* () {
  const pgNotify = yield* makePgNotify("countersign_delivery")
  const due = Latch.makeUnsafe(false)
  return {
    signalNewRows: () => void due.openUnsafe(),
    notifyFreeShards: pgNotify.notify(["shards"]),
    notifyCooldownEnded: (org_id, destination_id) =>
      pgNotify.notify([`cooldown ${org_id} ${destination_id}`]),
    notifyMadeDue: (org_id, destination_id) => pgNotify.notify([`due ${org_id} ${destination_id}`]),
    runNotifier: pgNotify.notifyThrottled(due, ROWS_INTERVAL_MILLIS, () => ["rows"]),
    runListener: (on) =>
      pgNotify.listen((payload) =>
        Effect.sync(() => {
          const [, kind, org_id, destination_id] = OF_DESTINATION.exec(payload ?? "") ?? []
          if (org_id !== undefined && destination_id !== undefined) {
            return on({ _tag: kind === "due" ? "MadeDue" : "CooldownEnded", org_id, destination_id })
          }
          // After a reconnect the payload is undefined: both are signalled to make up for missed notifications.
          if (payload !== "rows") on({ _tag: "Shards" })
          if (payload !== "shards") on({ _tag: "Rows" })
        })
      )
  }
})
