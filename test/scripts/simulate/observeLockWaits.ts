import { PgConnection } from "@effect/sql-pg"
import { Effect, type Scope } from "effect"
import { TestDatabase } from "../../support/postgres.ts"

/**
 * Whether a statement waits for a lock. Asked over a connection of its own: the client may send the question over that of the statement,
 * where it would wait until the statement has ended.
 */
export const observeLockWaits: Effect.Effect<
  Effect.Effect<boolean>,
  never,
  TestDatabase | Scope.Scope
> = Effect.gen(function* () {
  const { url } = yield* TestDatabase
  const connection = yield* Effect.orDie(PgConnection.make({ url }))
  return connection
    .query(
      `SELECT FROM pg_stat_activity
        WHERE datname = current_database()
          AND wait_event_type = 'Lock'`
    )
    .pipe(
      Effect.map(({ rows }) => rows.length > 0),
      Effect.orDie
    )
})
