import { Effect, Exit, Layer, Redacted, Result } from "effect"
import { SqlError } from "effect/sql"
import { VERSION } from "../../domain/Version.ts"
import * as Database from "../../server/store/Database.ts"
import { ProcessEnvironment, readSettings } from "../environment.ts"
import { type CheckResult, type CheckStatus, failure, type Finding, runCheck, skipped } from "./Check.ts"
import * as database from "./databaseChecks.ts"
import * as machine from "./machineChecks.ts"

/** The result of all checks. */
export interface Diagnosis {
  readonly version: string
  readonly checked_at: string
  /** The worst status of a check. */
  readonly status: Exclude<CheckStatus, "skipped">
  readonly checks: ReadonlyArray<CheckResult>
}

/** Statement timeout of the checks, in milliseconds. */
const STATEMENT_MILLIS = 4_000

/** The checks that need nothing but the settings. */
const settingsChecks = ["disk", "dns", "smtp", "telemetry"] as const

/** The checks that need the database, after `database` itself. */
const databaseChecks = {
  sessions: database.checkSessions,
  migrations: () => database.checkMigrations,
  keys: database.checkKeys,
  clock: () => database.checkClock,
  connections: () => database.checkConnections,
  size: () => database.checkSize,
  replicas: () => database.checkReplicas,
  moves: () => database.checkMoves,
  collectors: () => database.checkCollectors
} as const

const skipAll = (names: ReadonlyArray<string>, why: string): ReadonlyArray<CheckResult> =>
  names.map((name) => ({ name, ...skipped(why), ms: 0 }))

/** Turns failures of the database into findings. */
const withDatabaseFindings = <E, R>(
  store: Parameters<typeof database.databaseFinding>[0],
  check: Effect.Effect<Finding, E, R>
): Effect.Effect<Finding, E, R> =>
  check.pipe(
    Effect.catch((error) =>
      SqlError.isSqlError(error) ? Effect.succeed(database.databaseFinding(store, error)) : Effect.fail(error)
    )
  )

/** Runs every check. Changes nothing, and neither starts nor keeps running an embedded database. */
export const diagnose = Effect.gen(function* () {
  const { variables } = yield* ProcessEnvironment
  const decoded = yield* Effect.result(readSettings)
  const common = [
    yield* runCheck("versions", machine.checkVersions),
    yield* runCheck(
      "settings",
      Result.isSuccess(decoded)
        ? machine.checkSettings(variables, decoded.success.warnings)
        : Effect.succeed(
            failure(
              decoded.failure.message.replaceAll("\n", "; "),
              "Correct the variables named above; `countersign config` lists all of them."
            )
          )
    ),
    yield* runCheck("egress", machine.checkEgress(variables))
  ]
  if (Result.isFailure(decoded)) {
    return summarize([
      ...common,
      ...skipAll([...settingsChecks, "database", ...Object.keys(databaseChecks)], "the settings are invalid")
    ])
  }
  const { settings } = decoded.success
  const { store } = settings
  const ofMachine = yield* Effect.all(
    [
      runCheck("disk", machine.checkDisk(store)),
      runCheck("dns", machine.checkDns(settings)),
      runCheck("smtp", machine.checkMail(settings)),
      runCheck("telemetry", machine.checkOwnTelemetry(settings.ownTelemetry))
    ],
    { concurrency: "unbounded" }
  )
  return summarize([...common, ...ofMachine, ...(yield* checkDatabase(store))])
})

const checkDatabase = Effect.fnUntraced(function* (store: Parameters<typeof database.checkKeys>[0]) {
  const url = yield* database.findDatabase(store)
  const names = Object.keys(databaseChecks)
  if (!Redacted.isRedacted(url)) {
    const first: CheckResult = { name: "database", ...url, ms: 0 }
    return [first, ...skipAll(names, "the database cannot be used")]
  }
  const directUrl = store.kind === "external" ? store.directUrl : undefined
  const hasPooler = directUrl !== undefined
  return yield* Effect.scoped(
    Effect.gen(function* () {
      const built = yield* Effect.exit(
        Layer.build(
          Database.layer({
            url,
            directUrl,
            maxConnections: 1,
            // Sessions of a pooler have the statement timeout of the service.
            ...(hasPooler ? {} : { statementTimeoutMillis: STATEMENT_MILLIS })
          })
        )
      )
      const first = yield* runCheck(
        "database",
        withDatabaseFindings(
          store,
          Exit.isSuccess(built)
            ? Effect.provide(database.checkServer, built.value)
            : Effect.failCause(built.cause)
        )
      )
      if (Exit.isFailure(built) || first.status !== "ok") {
        return [first, ...skipAll(names, "the database cannot be used")]
      }
      const results = [first]
      for (const [name, check] of Object.entries(databaseChecks)) {
        results.push(
          yield* runCheck(name, withDatabaseFindings(store, Effect.provide(check(store), built.value)))
        )
      }
      return results
    })
  )
})

const severities = ["ok", "warning", "failure"] as const

const summarize = (checks: ReadonlyArray<CheckResult>): Diagnosis => ({
  version: VERSION,
  checked_at: new Date().toISOString(),
  status: severities.findLast((status) => checks.some((check) => check.status === status)) ?? "ok",
  checks
})
