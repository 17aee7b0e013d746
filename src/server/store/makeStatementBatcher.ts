import type { Effect, Scope } from "effect"
import type { SqlError } from "effect/sql"
import { type BatcherOptions, makeBatcher } from "../concurrency/Batcher.ts"
import { isDatabaseUnavailable } from "./databaseErrors.ts"
import { isInTransaction } from "./transaction.ts"

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
