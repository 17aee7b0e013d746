import { Console, Context, Duration, Effect, Layer, Option, Redacted, References } from "effect"
import { HttpServer } from "effect/http"
import { NetAddress } from "effect/net"
import { VERSION } from "../../domain/Version.ts"
import { ApiKeys, type CreatedKey } from "../../server/identity/ApiKeys.ts"
import { AccountAfterListening } from "../../server/http/changeAccount.ts"
import { Organizations } from "../../server/identity/Organizations.ts"
import * as Server from "../../server/Server.ts"
import { addressUrl, type Settings } from "../../server/config/Settings.ts"
import { describeRequestLog, hiddenRequestLog } from "../../server/config/Settings/describeRequestLog.ts"
import { textOfVariable } from "../../server/config/Settings/readVariables.ts"
import { ProcessEnvironment, readSettings } from "../environment.ts"
import { DEFAULT_ORGANIZATION } from "../organization.ts"
import { describeDatabase } from "../describeDatabase.ts"
import { layerIdleHeapTrim } from "./layerIdleHeapTrim.ts"
import { warnOfOtherDataDir } from "./otherDataDir.ts"
import { prepareOwnAccount } from "./ownAccount.ts"

/** Runs the service until it is interrupted. */
export const serve = Effect.fnUntraced(function* () {
  const { settings: decoded, warnings } = yield* readSettings
  yield* Effect.forEach(warnings, (line) => Effect.logWarning(line), { discard: true })
  // That of the flag `--log-level`, or else of the variable.
  const logLevel = yield* References.MinimumLogLevel
  const hidden = hiddenRequestLog(decoded.log, logLevel)
  if (hidden !== undefined) {
    // Also at a level that hides warnings: it is about that level.
    yield* Effect.provideService(Effect.logWarning(hidden), References.MinimumLogLevel, "Warn")
  }
  const { machine, variables } = yield* ProcessEnvironment
  const otherDataDir = yield* warnOfOtherDataDir(decoded.store, machine)
  if (otherDataDir !== undefined) yield* Effect.logWarning(otherDataDir)
  const { account, settings, warning } = yield* prepareOwnAccount(decoded)
  let isReady = false
  // The first finalizer to be added runs last.
  yield* Effect.addFinalizer(() => (isReady ? logLifecycle("stopped", {}) : Effect.void))
  const running = yield* Layer.build(
    layerIdleHeapTrim().pipe(
      Layer.provideMerge(Server.layer(settings)),
      Layer.provide(Layer.succeed(AccountAfterListening, account))
    )
  )
  const keys = Context.get(running, ApiKeys)
  const isProduction = textOfVariable(variables, "NODE_ENV") === "production"
  // In production the output goes to a log, which must not contain a key.
  const first =
    isProduction && settings.adminKey === undefined
      ? Option.none()
      : yield* keys.bootstrap({
          org_name: DEFAULT_ORGANIZATION,
          key: Option.map(Option.fromUndefinedOr(settings.adminKey), ({ key }) => key)
        })
  if (isProduction && !(yield* Context.get(running, Organizations).hasAnyKey)) {
    yield* Effect.logWarning(
      "This database has no API key, and with NODE_ENV=production none is created, because its text would be in the log. Create one with " +
        "`countersign keys create --preset admin`, or set COUNTERSIGN_ADMIN_KEY and restart."
    )
  }
  if (Option.isNone(first) && settings.adminKey !== undefined) {
    yield* Effect.catchTag(keys.verify(settings.adminKey.key), "INVALID_API_KEY", () =>
      Effect.logWarning(
        "COUNTERSIGN_ADMIN_KEY has no effect: this database has keys already, and this one is not among those that can be used, so " +
          "requests with it get 401. Unset it, or create a key with `countersign keys create --preset admin`."
      )
    )
  }
  const url = localUrl(settings, Context.get(running, HttpServer.HttpServer))
  const requests = describeRequestLog(settings.log, logLevel)
  yield* Console.log(announcement(settings, { url, requests, first }))
  isReady = true
  yield* logLifecycle("ready", { url, version: VERSION, pid: process.pid, requests })
  yield* Effect.addFinalizer(() => logLifecycle("stopping", {}))
  if (warning !== undefined) yield* Effect.logWarning(warning)
  // Added last, so it runs first: a database that does not respond must not delay the shutdown indefinitely.
  yield* Effect.addFinalizer(() =>
    Effect.sync(() =>
      exitAfter(Duration.toMillis(Duration.sum(settings.stopDelay, settings.stop)) + GRACE_MILLIS)
    )
  )
  return yield* Effect.never
}, Effect.scoped)

/** For supervisors and log indexes; a terminal shows the announcement instead. */
const logLifecycle = (state: "ready" | "stopping" | "stopped", facts: Record<string, unknown>) =>
  process.stderr.isTTY
    ? Effect.void
    : Effect.annotateLogs(Effect.logInfo(`Countersign is ${state}`), { state, ...facts })

/** Time for a graceful shutdown beyond the drain: closing connections, stopping the embedded database. */
const GRACE_MILLIS = 4_000

/** Ends the process after a delay if it is still running. A plain timer, because it guards the shutdown of the runtime itself. */
const exitAfter = (millis: number): void => {
  setTimeout(() => {
    process.stderr.write("countersign: graceful shutdown timed out; exiting\n")
    process.exit(1)
  }, millis).unref()
}

/** Returns the URL for this machine, with the actual port, which the settings may have left open. */
const localUrl = (settings: Settings, { address }: HttpServer.HttpServer["Service"]): string =>
  addressUrl(openableHost(settings.host), NetAddress.isInetAddress(address) ? address.port : settings.port)

/** Replaces an unspecified address, which cannot be opened. */
const openableHost = (host: string): string => (host === "0.0.0.0" || host === "::" ? "localhost" : host)

/** The message when the service is ready. */
const announcement = (
  settings: Settings,
  {
    first,
    requests,
    url
  }: {
    readonly url: string
    readonly requests: string
    readonly first: Option.Option<CreatedKey>
  }
): string =>
  [
    `Countersign ${VERSION} is ready`,
    "",
    `  address    ${url}`,
    `  console    ${url}/console`,
    `  docs       ${url}/docs`,
    `  database   ${describeDatabase(settings.store)}`,
    `  requests   ${requests}`,
    ...firstKeyLines(settings, first),
    ""
  ].join("\n")

const firstKeyLines = (settings: Settings, first: Option.Option<CreatedKey>): ReadonlyArray<string> => {
  if (Option.isNone(first)) return []
  // A configured key is known already and does not belong in a log.
  if (settings.adminKey !== undefined) {
    return ["", "  COUNTERSIGN_ADMIN_KEY is the first admin key of this database."]
  }
  return [
    "",
    "  First admin key (shown only once, store it safely):",
    "",
    `    ${Redacted.value(first.value.secret)}`
  ]
}
