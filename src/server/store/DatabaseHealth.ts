/**
 * Logs an outage of the database when it begins, with the server's message, and when it ends. Readiness fails while
 * the server refuses connections or writes.
 *
 * ```
 *   failed statement ──> report ──> outage begins: one error ────> check on a connection of its own, every second
 *                                                                       │ succeeds, and no refusal for 3 s: ready
 *                                                                       │ no failure for a response deadline
 *                                                                       v
 *                                                                  outage ends: one line
 * ```
 */
import { PgClient, PgConnection } from "@effect/sql-pg"
import { Clock, type Duration, Effect, Layer, Scope } from "effect"
import { SqlError } from "effect/sql"
import { responseDeadlineMillis } from "./Database.ts"
import { groupOf } from "./Database/ConnectionGroup.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { DatabaseOutage } from "../observability/DatabaseOutage.ts"
import {
  describeDatabaseError,
  isDatabaseOutage,
  isReadOnlyError,
  readOnlyError,
  sqlState
} from "./databaseErrors.ts"

/** Pause between two checks during an outage. */
const CHECK_EVERY: Duration.Input = "1 second"

/** Timeout of a check. */
const CHECK_TIMEOUT: Duration.Input = "5 seconds"

/**
 * Timeout of the check's commit. A server that waits for a synchronous standby answers queries and completes no commit,
 * until the standby is back.
 */
const COMMIT_TIMEOUT: Duration.Input = "2 seconds"

/** This replica is ready again once a check succeeds and nothing has been refused for this long. */
const READY_AFTER_MILLIS = 3_000

/**
 * An outage has ended once a check succeeds and no statement has failed for this much longer than a connection may be
 * silent: statements on connections that were lost in the same outage fail at that deadline. A pooler holds such
 * connections for later statements.
 */
const QUIET_MARGIN_MILLIS = 1_000

/** Maximum number of different reasons that are logged for one outage, such as "shutting down", then "starting up". */
const MAX_REASONS = 5

/**
 * Writes about 3 MB into a temporary file. A full disk rejects it as it rejects the growth of a table, and unlike a row
 * it leaves nothing behind.
 */
const WRITES_TEMPORARY_FILE = "SELECT count(*)::int AS rows FROM generate_series(1, 100000)"

/** Writes a record of a few bytes to the write-ahead log, so that the commit waits as that of a row does, without changing a table. */
const WRITES_LOG = "SELECT pg_logical_emit_message(true, 'countersign', 'check')::text"

interface Outage {
  readonly since: number
  /** The SQLSTATEs that were logged, or the messages of errors without one. */
  readonly reasons: Set<string>
  lastFailure: number
  failures: number
  /**
   * When the server last refused something or a check failed; undefined once this replica is ready again. A lost
   * connection alone does not make it unready.
   */
  downAt: number | undefined
}

/** Reports to the log, and keeps the state of an outage in memory. */
export const layer: Layer.Layer<never, never, PgClient.PgClient> = Layer.effect(
  DatabaseOutage,
  Effect.gen(function* () {
    const group = groupOf(yield* PgClient.PgClient)
    const { closeAll, direct, shared, usesPooler } = group
    const quietMillis = responseDeadlineMillis(group) + QUIET_MARGIN_MILLIS
    const clock = yield* Clock.Clock
    const scope = yield* Scope.Scope
    const now = () => monotonicMillis(clock)
    let outage: Outage | undefined

    /** On a new connection: the pool's connections stay usable when the server accepts no further ones. */
    const checkOn = (config: PgClient.PgPoolConfig) =>
      Effect.scoped(
        Effect.gen(function* () {
          // Without pipelining, so that a statement that times out is also cancelled in the server. The connections of
          // checks would otherwise accumulate there while commits wait for a standby.
          const connection = yield* PgConnection.make({ ...config, multiplex: false })
          const { rows } = yield* connection.query(
            "SELECT current_setting('transaction_read_only') AS read_only"
          )
          if (rows[0]?.["read_only"] === "on") return yield* Effect.fail(readOnlyError)
          // A setting of the session would reach other clients of a pooler.
          yield* connection.query("BEGIN")
          yield* connection.query("SET LOCAL work_mem = '64kB'")
          yield* connection.query(WRITES_TEMPORARY_FILE)
          yield* connection.query(WRITES_LOG)
          yield* Effect.timeoutOrElse(connection.query("COMMIT"), {
            duration: COMMIT_TIMEOUT,
            orElse: () => Effect.fail(commitTimedOut)
          })
        })
      )

    const check = (usesPooler ? Effect.andThen(checkOn(shared), checkOn(direct)) : checkOn(shared)).pipe(
      Effect.timeoutOrElse({ duration: CHECK_TIMEOUT, orElse: () => Effect.fail(checkTimedOut) })
    )

    const note = (error: SqlError.SqlError, isDown: boolean): Effect.Effect<void> =>
      Effect.suspend(() => {
        const reason = describeDatabaseError(error)
        const state = sqlState(error)
        if (isReadOnlyError(error)) closeAll()
        // A full disk names another file in each message: one reason has one SQLSTATE.
        const key = state === "" ? reason : state
        const line = Effect.annotateLogs(
          Effect.logError(
            outage === undefined
              ? `The database is unavailable: ${reason}`
              : `The database is still unavailable: ${reason}`
          ),
          state === "" ? {} : { sqlstate: state }
        )
        const at = now()
        if (outage === undefined) {
          outage = {
            since: at,
            lastFailure: at,
            failures: 1,
            downAt: isDown ? at : undefined,
            reasons: new Set([key])
          }
          return Effect.andThen(line, Effect.forkIn(watch, scope))
        }
        outage.failures++
        outage.lastFailure = at
        if (isDown) outage.downAt = at
        if (outage.reasons.has(key) || outage.reasons.size >= MAX_REASONS) return Effect.void
        outage.reasons.add(key)
        return line
      })

    const watch: Effect.Effect<void> = Effect.gen(function* () {
      while (outage !== undefined) {
        const failed = yield* Effect.match(check, { onFailure: (error) => error, onSuccess: () => undefined })
        if (failed !== undefined) yield* note(failed, true)
        else {
          const { downAt, failures, lastFailure, since } = outage
          if (downAt !== undefined && now() - downAt >= READY_AFTER_MILLIS) outage.downAt = undefined
          if (outage.downAt === undefined && now() - lastFailure >= quietMillis) {
            outage = undefined
            return yield* Effect.annotateLogs(Effect.logInfo("The database is available again"), {
              seconds: Math.round((lastFailure - since) / 1_000),
              failures
            })
          }
        }
        yield* Effect.sleep(CHECK_EVERY)
      }
    })

    return {
      report: (error) =>
        SqlError.isSqlError(error) && isDatabaseOutage(error)
          ? Effect.as(note(error, isRefusal(error)), true)
          : Effect.succeed(false),
      isDown: () => outage?.downAt !== undefined
    }
  })
)

/** Whether the server reported that it accepts no connections or no writes. */
const isRefusal = (error: SqlError.SqlError): boolean => /^(53|25006|28|58)/.test(sqlState(error))

const timedOut = (message: string) =>
  new SqlError.SqlError({
    reason: new SqlError.ConnectionError({ cause: new Error(message), operation: "check" })
  })

const checkTimedOut = timedOut("the server does not respond")

const commitTimedOut = timedOut("the server completes no commits; it may wait for a synchronous standby")
