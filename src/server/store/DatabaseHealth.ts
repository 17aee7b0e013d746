/**
 * Logs an outage of the database when it begins, with the server's message, and when it ends. Readiness fails
 * meanwhile.
 *
 * ```
 *   failed statement ──> report ──> outage begins: one error ────> check on a connection of its own, every second
 *                                                                       │ succeeds, and nothing failed for 3 s
 *                                                                       v
 *                                                                  outage ends: one line
 * ```
 */
import { PgClient, PgConnection } from "@effect/sql-pg"
import { Clock, type Duration, Effect, Layer, Scope } from "effect"
import { SqlError } from "effect/sql"
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

/** An outage has ended once a check succeeds and no statement has failed for this long. */
const QUIET_MILLIS = 3_000

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
   * Whether the server responds with a refusal, or the last check failed. A lost connection alone does not make this
   * replica unready.
   */
  isDown: boolean
}

/** Reports to the log, and keeps the state of an outage in memory. */
export const layer: Layer.Layer<never, never, PgClient.PgClient> = Layer.effect(
  DatabaseOutage,
  Effect.gen(function* () {
    const { closeAll, direct, shared, usesPooler } = groupOf(yield* PgClient.PgClient)
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
        if (outage === undefined) {
          outage = { since: now(), lastFailure: now(), failures: 1, isDown, reasons: new Set([key]) }
          return Effect.andThen(line, Effect.forkIn(watch, scope))
        }
        outage.failures++
        outage.lastFailure = now()
        outage.isDown ||= isDown
        if (outage.reasons.has(key) || outage.reasons.size >= MAX_REASONS) return Effect.void
        outage.reasons.add(key)
        return line
      })

    const watch: Effect.Effect<void> = Effect.gen(function* () {
      while (outage !== undefined) {
        const failed = yield* Effect.match(check, { onFailure: (error) => error, onSuccess: () => undefined })
        if (failed !== undefined) yield* note(failed, true)
        else if (now() - outage.lastFailure >= QUIET_MILLIS) {
          const { failures, since } = outage
          outage = undefined
          return yield* Effect.annotateLogs(Effect.logInfo("The database is available again"), {
            seconds: Math.round((now() - since) / 1_000),
            failures
          })
        }
        yield* Effect.sleep(CHECK_EVERY)
      }
    })

    return {
      report: (error) =>
        SqlError.isSqlError(error) && isDatabaseOutage(error)
          ? Effect.as(note(error, isRefusal(error)), true)
          : Effect.succeed(false),
      isDown: () => outage?.isDown === true
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
