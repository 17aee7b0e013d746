import type { PgClient } from "@effect/sql-pg"
import { Effect, Latch } from "effect"
import { makePgNotify } from "../../store/Database/PgNotify.ts"

/** How long new rows are gathered into one notice. */
const GATHER_MILLIS = 30

/** What one process tells the others: there are new rows, or shards were set free. */
export type WakeUp = "rows" | "shards"

/** Wake-ups between processes. None is relied on: behind them the store is polled. */
export interface Wakeups {
  /** Tells the others, soon, that there are new rows. */
  readonly rows: () => void
  /** Tells the others at once that shards were set free. */
  readonly shards: Effect.Effect<void>
  /** Sends the notices that `rows` called for, one after the other, for ever. */
  readonly notifying: Effect.Effect<never>
  /** Hears the others, for ever, through losses of the connection. Own notices are heard too. */
  readonly listening: (on: (wakeUp: WakeUp) => void) => Effect.Effect<never>
}

/** Listens over a connection of the client at hand. */
export const makeWakeups: Effect.Effect<Wakeups, never, PgClient.PgClient> = Effect.gen(function* () {
  const notices = yield* makePgNotify("countersign_delivery")
  const due = Latch.makeUnsafe(false)
  return {
    rows: () => void due.openUnsafe(),
    shards: notices.notify(["shards"]),
    notifying: notices.notifyDebounced(due, GATHER_MILLIS, () => ["rows"]),
    listening: (on) =>
      notices.listen((payload) =>
        Effect.sync(() => {
          // What was said while nobody listened is made up for by looking for both.
          if (payload !== "rows") on("shards")
          if (payload !== "shards") on("rows")
        })
      )
  }
})
