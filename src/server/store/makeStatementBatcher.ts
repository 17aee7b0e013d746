import type { Effect, Scope } from "effect"
import type { SqlError } from "effect/sql"
import { type BatcherOptions, makeBatcher } from "../concurrency/Batcher.ts"
import { isDatabaseUnavailable } from "./databaseErrors.ts"
import { isInTransaction } from "./transaction.ts"

/**
 * `abandonedMillis` of statements that write and do something after their commit, such as to record spans. As long as PostgreSQL lets a
 * statement run (`Database.layer`): one that takes longer has not committed.
 */
export const ABANDONED_WRITE_MILLIS = 15_000

/**
 * A batcher whose batches are SQL statements. A call in an open transaction runs alone, as part of that transaction. The inputs of a
 * statement that PostgreSQL rejects run again one by one, but not if the database is unavailable.
 */
export const makeStatementBatcher = <Input, Output>(
  options: Omit<BatcherOptions<Input, Output, SqlError.SqlError>, "runsAlone" | "isolates">
): Effect.Effect<(input: Input) => Effect.Effect<Output, SqlError.SqlError>, never, Scope.Scope> =>
  makeBatcher({
    ...options,
    runsAlone: isInTransaction,
    isolates: (error) => !isDatabaseUnavailable(error)
  })
