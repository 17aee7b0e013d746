import { Effect, Exit, Layer, Option, Redacted, Result } from "effect"
import { SqlError } from "effect/sql"
import { VERSION } from "../../domain/Version.ts"
import {
  decode,
  type DecodedSettings,
  type Environment,
  type ProcessFacts
} from "../../server/config/Settings.ts"
import { hiddenRequestLog } from "../../server/config/Settings/describeRequestLog.ts"
import { textOfVariable } from "../../server/config/Settings/readVariables.ts"
import * as Database from "../../server/store/Database.ts"
import { sqlState } from "../../server/store/databaseErrors.ts"
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
const settingsChecks = ["public_url", "disk", "backup", "dns", "smtp", "issuer", "telemetry"] as const

/** The variables that the checks of the database and of its disk depend on. */
const STORE_VARIABLES = [
  "DATABASE_URL",
  "COUNTERSIGN_DIRECT_DATABASE_URL",
  "COUNTERSIGN_MASTER_KEY",
  "COUNTERSIGN_DATA_DIR"
]

/** The variables that the other checks depend on. */
const variablesOf: Readonly<Record<(typeof settingsChecks)[number], ReadonlyArray<string>>> = {
  public_url: ["COUNTERSIGN_PUBLIC_URL", "HOST", "PORT"],
  disk: STORE_VARIABLES,
  backup: STORE_VARIABLES,
  dns: ["COUNTERSIGN_DNS_SERVERS"],
  smtp: ["COUNTERSIGN_SMTP_URL", "COUNTERSIGN_MAIL_FROM"],
  issuer: ["COUNTERSIGN_OIDC_ISSUER"],
  telemetry: [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_SDK_DISABLED"
  ]
}

/** Variables that require another one, which may be missing. */
const requiredBy: Readonly<Record<string, string>> = {
  COUNTERSIGN_MASTER_KEY: "DATABASE_URL",
  COUNTERSIGN_MAIL_FROM: "COUNTERSIGN_SMTP_URL",
  COUNTERSIGN_OIDC_CLIENT_ID: "COUNTERSIGN_OIDC_ISSUER",
  COUNTERSIGN_OIDC_CLIENT_SECRET: "COUNTERSIGN_OIDC_ISSUER",
  COUNTERSIGN_OIDC_ACCESS: "COUNTERSIGN_OIDC_ISSUER"
}

/** The most variables that are left out. */
const MAX_INVALID = 50

/** The settings without invalid variables, and the names of these; undefined if there are none that are valid together. */
const validSettings = (environment: Environment, machine: ProcessFacts) => {
  const variables: Record<string, string | undefined> = { ...environment }
  const invalid = new Set<string>()
  while (invalid.size < MAX_INVALID) {
    const decoded = decode(variables, machine)
    if (Result.isSuccess(decoded)) return { settings: decoded.success.settings, invalid }
    const { variable } = decoded.failure
    const name = textOfVariable(variables, variable) === undefined ? requiredBy[variable] : variable
    if (name === undefined || textOfVariable(variables, name) === undefined) return undefined
    invalid.add(variable).add(name)
    delete variables[name]
  }
  return undefined
}

/** The checks that need the database, after `database` itself. */
const databaseChecks = {
  sessions: database.checkSessions,
  migrations: () => database.checkMigrations,
  keys: database.checkKeys,
  clock: () => database.checkClock,
  connections: () => database.checkConnections,
  size: () => database.checkSize,
  replicas: () => database.checkReplicas,
  approvals: () => database.checkApprovals,
  deliveries: () => database.checkDeliveries,
  endpoints: () => database.checkEndpoints,
  collectors: () => database.checkCollectors
} as const

/** The checks that need the tables of the service. `keys` reports a missing table by itself. */
const tableChecks: ReadonlySet<string> = new Set([
  "replicas",
  "approvals",
  "deliveries",
  "endpoints",
  "collectors"
])

/** Why a check of tables cannot run in a database without tables. */
const NO_TABLES = "the database has no tables yet; the first start, or `countersign migrate`, creates them"

/** Skips a check that fails because it reads tables or columns of pending migrations. */
const skipUnmigrated = <E, R>(check: Effect.Effect<Finding, E, R>): Effect.Effect<Finding, E, R> =>
  check.pipe(
    Effect.catch((error) =>
      SqlError.isSqlError(error) && UNDEFINED.has(sqlState(error))
        ? Effect.succeed(skipped("it needs migrations that are pending"))
        : Effect.fail(error)
    )
  )

/** An undefined table or column. */
const UNDEFINED: ReadonlySet<string> = new Set(["42P01", "42703"])

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

/** The warnings that `serve` logs at its start. */
const startWarnings = ({ settings, warnings }: DecodedSettings): ReadonlyArray<string> => {
  const hidden = hiddenRequestLog(settings.log, settings.log.level)
  return hidden === undefined ? warnings : [...warnings, hidden]
}

/** Runs every check. Changes nothing, and neither starts nor keeps running an embedded database. */
export const diagnose = Effect.gen(function* () {
  const { machine: machineFacts, variables } = yield* ProcessEnvironment
  const decoded = yield* Effect.result(readSettings)
  const common = [
    yield* runCheck("versions", machine.checkVersions),
    yield* runCheck(
      "settings",
      Result.isSuccess(decoded)
        ? machine.checkSettings(variables, startWarnings(decoded.success))
        : Effect.succeed(
            failure(
              decoded.failure.message.replaceAll("\n", "; "),
              "Correct the variables named above; `countersign config` lists all of them."
            )
          )
    ),
    yield* runCheck("egress", machine.checkEgress(variables))
  ]
  const databaseNames = ["database", ...Object.keys(databaseChecks)]
  const valid = validSettings(variables, machineFacts)
  if (valid === undefined) {
    return summarize([...common, ...skipAll([...settingsChecks, ...databaseNames], INVALID)])
  }
  const { invalid, settings } = valid
  const { store } = settings
  const checks: Readonly<Record<(typeof settingsChecks)[number], Effect.Effect<Finding>>> = {
    public_url: machine.checkPublicUrl(variables, settings),
    disk: machine.checkDisk(store),
    backup: machine.checkBackup(variables, store),
    dns: machine.checkDns(settings),
    smtp: machine.checkMail(settings),
    issuer: machine.checkSingleSignOn(settings),
    telemetry: machine.checkOwnTelemetry(settings.ownTelemetry)
  }
  const ofMachine = yield* Effect.forEach(
    settingsChecks,
    (name) =>
      variablesOf[name].some((variable) => invalid.has(variable))
        ? Effect.succeed({ name, ...skipped(INVALID), ms: 0 })
        : runCheck(name, checks[name]),
    { concurrency: "unbounded" }
  )
  const ofDatabase = STORE_VARIABLES.some((variable) => invalid.has(variable))
    ? skipAll(databaseNames, INVALID)
    : yield* checkDatabase(store)
  return summarize([...common, ...ofMachine, ...ofDatabase])
})

/** Why a check is skipped whose settings are invalid. */
const INVALID = "settings that it needs are invalid"

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
      const migrations = yield* Effect.option(Effect.provide(database.readMigrations, built.value))
      const hasNoTables = Option.isSome(migrations) && migrations.value === undefined
      const isPending = Option.isSome(migrations) && (migrations.value?.pending.length ?? 0) > 0
      for (const [name, check] of Object.entries(databaseChecks)) {
        if (hasNoTables && tableChecks.has(name)) {
          results.push({ name, ...skipped(NO_TABLES), ms: 0 })
          continue
        }
        const provided = Effect.provide(check(store), built.value)
        results.push(
          yield* runCheck(name, withDatabaseFindings(store, isPending ? skipUnmigrated(provided) : provided))
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
