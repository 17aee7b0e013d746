import { Console, Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { Command } from "effect/cli"
import { HttpServer } from "effect/http"
import { NetAddress } from "effect/net"
import { VERSION } from "../domain/Version.ts"
import { ApiKeys, type CreatedKey } from "../server/identity/ApiKeys.ts"
import * as Server from "../server/Server.ts"
import { addressUrl, type Settings } from "../server/config/Settings.ts"
import { readSettings } from "./environment.ts"
import { DEFAULT_ORGANIZATION } from "./organization.ts"
import { endsBySignal } from "./run.ts"
import { describeDatabase } from "./describeDatabase.ts"

/** Runs the service until it is interrupted. */
export const serve = Effect.gen(function* () {
  const { settings, warnings } = yield* readSettings
  yield* Effect.forEach(warnings, (line) => Effect.logWarning(line), { discard: true })
  const running = yield* Layer.build(Server.layer(settings))
  const keys = Context.get(running, ApiKeys)
  const first = yield* keys.bootstrap({
    org_name: DEFAULT_ORGANIZATION,
    key: Option.map(Option.fromUndefinedOr(settings.adminKey), ({ key }) => key)
  })
  yield* Console.log(
    announcement(settings, urlOf(settings, Context.get(running, HttpServer.HttpServer)), first)
  )
  // Added last, so it runs first: what a store that does not answer holds up must not hold up the stop for ever.
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => endAfter(Duration.toMillis(settings.stop) + GRACE_MILLIS))
  )
  return yield* Effect.never
}).pipe(Effect.scoped)

/** What an orderly stop may take beyond the drain: closing connections, stopping the embedded store. */
const GRACE_MILLIS = 4_000

/** Ends the process after a while, if it has not ended by itself. A plain timer, since what it guards is the runtime's own end. */
const endAfter = (millis: number): void => {
  setTimeout(() => {
    process.stderr.write("countersign: the stop took too long; ending without it\n")
    process.exit(1)
  }, millis).unref()
}

/** Where it can be opened on this machine: at the port it got, which the settings may have left open. */
const urlOf = (settings: Settings, { address }: HttpServer.HttpServer["Service"]): string =>
  addressUrl(reachable(settings.host), NetAddress.isInetAddress(address) ? address.port : settings.port)

/** An address that one can open: "every address" is none. */
const reachable = (host: string): string => (host === "0.0.0.0" || host === "::" ? "localhost" : host)

/** What the operator sees when the service is ready. */
const announcement = (settings: Settings, url: string, first: Option.Option<CreatedKey>): string =>
  [
    `Countersign ${VERSION} is ready`,
    "",
    `  address    ${url}`,
    `  console    ${url}/console`,
    `  docs       ${url}/docs`,
    `  store      ${describeDatabase(settings.store)}`,
    ...firstKeyLines(settings, first),
    ""
  ].join("\n")

const firstKeyLines = (settings: Settings, first: Option.Option<CreatedKey>): ReadonlyArray<string> => {
  if (Option.isNone(first)) return []
  // A key that was given is known to whoever gave it, and has no place in a log.
  if (settings.adminKey !== undefined) {
    return ["", "  The key of COUNTERSIGN_ADMIN_KEY is this store's first admin key."]
  }
  return [
    "",
    "  First admin key. It is shown this once; keep it:",
    "",
    `    ${Redacted.value(first.value.secret)}`
  ]
}

export const serveCommand = Command.make("serve", {}, () => endsBySignal(serve)).pipe(
  Command.withDescription(
    "Run the service until SIGTERM or Ctrl-C. The first start on an empty store prints an admin key, once."
  ),
  Command.withExamples([
    { command: "countersign serve", description: "On the embedded store, at http://127.0.0.1:8080" },
    {
      command: "DATABASE_URL=postgres://… COUNTERSIGN_MASTER_KEY=… HOST=0.0.0.0 countersign serve",
      description: "On a PostgreSQL of your own, reachable from outside"
    }
  ])
)
