import { type Array as Arr, Effect, type Scope } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { OrgId } from "../../domain/Ids.ts"
import { type BatcherOptions, makeBatcher } from "../concurrency/Batcher.ts"
import { isCluster } from "./Cluster.ts"
import { isDatabaseUnavailable } from "./databaseErrors.ts"
import { isInTransaction } from "./transaction.ts"

/**
 * `abandonedMillis` of statements that write and do something after their commit, such as to record spans. As long as PostgreSQL lets a
 * statement run (`Database.layer`): one that takes longer has not committed.
 */
export const ABANDONED_WRITE_MILLIS = 15_000

/** Batches in flight on a cluster, each of one organization. */
const CLUSTER_IN_FLIGHT = 8

interface StatementBatcherOptions<Input, Output> extends Omit<
  BatcherOptions<Input, Output, SqlError.SqlError>,
  "runsAlone" | "isolates" | "groupOf" | "run"
> {
  readonly sql: SqlClient.SqlClient
  readonly organizationOf: (input: Input) => OrgId
  /** Runs a batch. `org_id` is the organization of all inputs, on a cluster: the statement must name it. */
  readonly run: (
    inputs: Arr.NonEmptyReadonlyArray<Input>,
    org_id: OrgId | undefined
  ) => Effect.Effect<ReadonlyArray<Output>, SqlError.SqlError>
}

/**
 * A batcher whose batches are SQL statements. A call in an open transaction runs alone, as part of that transaction. The inputs of a
 * statement that PostgreSQL rejects run again one by one, but not if the database is unavailable. On a cluster, whose nodes run statements
 * of one organization, a batch holds the calls of one.
 */
export const makeStatementBatcher = <Input, Output>({
  organizationOf,
  run,
  sql,
  ...options
}: StatementBatcherOptions<Input, Output>): Effect.Effect<
  (input: Input) => Effect.Effect<Output, SqlError.SqlError>,
  never,
  Scope.Scope
> =>
  Effect.flatMap(isCluster(sql), (clustered) =>
    makeBatcher({
      ...options,
      ...(clustered ? { groupOf: organizationOf, maxInFlight: CLUSTER_IN_FLIGHT } : {}),
      run: (inputs) => run(inputs, clustered ? organizationOf(inputs[0]) : undefined),
      runsAlone: isInTransaction,
      isolates: (error) => !isDatabaseUnavailable(error)
    })
  )
