import { Effect, Redacted } from "effect"
import { NetAddress } from "effect/net"
import * as NodeDns from "node:dns"
import path from "node:path"
import { VERSION } from "../../domain/Version.ts"
import type { Environment, Settings, StoreSettings } from "../../server/config/Settings.ts"
import { textOfVariable, unknownVariables } from "../../server/config/Settings/readVariables.ts"
import { checkSmtp } from "../../server/notifications/Email/Smtp.ts"
import { headersOf, type OwnTelemetrySettings } from "../../server/observability/OwnTelemetry.ts"
import { makeBoundedFetch } from "../../server/console/SingleSignOn/boundedFetch.ts"
import { readMetadata } from "../../server/console/SingleSignOn/readMetadata.ts"
import { readDiskSpace, readNewestBackup } from "../../server/store/dataDirectory.ts"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { readMetrics } from "../readMetrics.ts"
import { failure, type Finding, ok, plural, skipped, warning } from "./Check.ts"

/** The versions that run. */
export const checkVersions: Effect.Effect<Finding> = Effect.sync(() =>
  ok(`countersign ${VERSION}, Node ${process.versions.node}, ${process.platform} ${process.arch}`)
)

/** The settings' warnings, which `serve` logs at its start. Their faults are reported by the caller, because nothing else can be checked then. */
export const checkSettings = (
  variables: Environment,
  warnings: ReadonlyArray<string>
): Effect.Effect<Finding> =>
  Effect.sync(() => {
    // Those about outgoing connections have a check of their own.
    const found = warnings.filter((line) => !line.startsWith("COUNTERSIGN_EGRESS_"))
    if (found.length === 0) return ok("every variable is valid")
    const unknown = unknownVariables(variables).length
    return warning(
      found.join("; "),
      unknown > 0
        ? "Correct or remove the variables named above; `countersign config` lists all of them."
        : "See docs/configuration.md for the variables named above."
    )
  })

/** Settings of outgoing connections that are for development, and that production refuses. */
export const checkEgress = (variables: Environment): Effect.Effect<Finding> =>
  Effect.sync(() => {
    const set = ["COUNTERSIGN_EGRESS_ALLOW", "COUNTERSIGN_EGRESS_HTTP"].filter((name) => {
      const text = textOfVariable(variables, name)
      return text !== undefined && text !== "false"
    })
    if (set.length === 0) return ok("requests go only to public addresses, over TLS")
    const names = set.join(" and ")
    return textOfVariable(variables, "NODE_ENV") === "production"
      ? failure(`NODE_ENV=production refuses ${names}`, `Unset ${names}.`)
      : warning(
          `${names} ${set.length === 1 ? "weakens" : "weaken"} the rules of outgoing requests`,
          `Unset ${names} before production.`
        )
  })

/** The URL of links and of the console, which production should serve over TLS. It is not shown: a support bundle has no host names. */
export const checkPublicUrl = (variables: Environment, { publicUrl }: Settings): Effect.Effect<Finding> =>
  Effect.sync(() => {
    if (publicUrl.startsWith("https:")) return ok("links lead to an https URL")
    const isProduction = textOfVariable(variables, "NODE_ENV") === "production"
    return isProduction
      ? warning(
          "links lead to a URL without TLS: API keys and cookies would travel in clear text",
          "Set COUNTERSIGN_PUBLIC_URL to the https URL of the reverse proxy, under which people open the console."
        )
      : skipped("links lead to a URL without TLS, which is for development")
  })

const MEBIBYTE = 2 ** 20
const GIBIBYTE = 2 ** 30

/** Free space below which the database soon cannot write, and below which it is time to act, in bytes. */
const FULL_BYTES = 256 * MEBIBYTE
const SCARCE_BYTES = 2 * GIBIBYTE
const SCARCE_RATIO = 0.1

/** Formats bytes with one decimal. */
export const formatBytes = (bytes: number): string =>
  bytes >= GIBIBYTE ? `${(bytes / GIBIBYTE).toFixed(1)} GiB` : `${(bytes / MEBIBYTE).toFixed(1)} MiB`

/** Judges the free space of a disk of a size, both in bytes. */
export const judgeSpace = (free: number, size: number): Finding => {
  const summary = `${formatBytes(free)} of ${formatBytes(size)} are free`
  const advice = "Free space on the disk of the data directory, or move the directory to a larger one."
  if (free < FULL_BYTES) return failure(summary, advice)
  return free < SCARCE_BYTES || free < size * SCARCE_RATIO ? warning(summary, advice) : ok(summary)
}

const CORRECT_DATA_DIR =
  "Run the command as root or as the account of the service, or correct COUNTERSIGN_DATA_DIR."

/** Runs a check that reads the data directory. */
const readingDataDir = (dataDir: string, check: () => Promise<Finding>): Effect.Effect<Finding> =>
  Effect.tryPromise(check).pipe(
    Effect.catch(({ cause }) =>
      Effect.succeed(
        failure(`${dataDir} cannot be read (${errnoCode(cause) ?? "unknown error"})`, CORRECT_DATA_DIR)
      )
    )
  )

/** The disk of the embedded database. */
export const checkDisk = (store: StoreSettings): Effect.Effect<Finding> =>
  store.kind === "external"
    ? Effect.succeed(skipped("the database is external; watch the disk of its server"))
    : readingDataDir(store.dataDir, async () => {
        const { free, size } = await readDiskSpace(path.resolve(store.dataDir))
        return judgeSpace(free, size)
      })

/** Age of the newest backup at which a daily one was missed, in milliseconds. */
const OLD_BACKUP_MILLIS = 36 * 3_600_000

const HOUR_MILLIS = 3_600_000

/** The newest backup of the embedded database, as `countersign backup` recorded it. */
export const checkBackup = (variables: Environment, store: StoreSettings): Effect.Effect<Finding> =>
  store.kind === "external"
    ? Effect.succeed(skipped("the database is external; watch its backups"))
    : readingDataDir(store.dataDir, async () => {
        const at = await readNewestBackup(store.dataDir)
        const advice = "Run `countersign backup` daily, to another disk; docs/backups.md has timers."
        if (at === null) {
          const summary = "no backup of this database was made"
          return textOfVariable(variables, "NODE_ENV") === "production"
            ? warning(summary, advice)
            : skipped(`${summary}, which production needs`)
        }
        const age = Date.now() - at
        const summary = `the newest backup is ${plural(Math.max(0, Math.floor(age / HOUR_MILLIS)), "hour", "hours")} old`
        return age > OLD_BACKUP_MILLIS ? warning(summary, advice) : ok(summary)
      })

/** Longest wait for a name server, in milliseconds. */
const DNS_MILLIS = 2_000

/** A name that never exists (RFC 6761): any answer, also that there is none, shows that the server answers. */
const UNUSED_NAME = "countersign.invalid"

/** Asks a name server. Returns undefined if it answers, else the error's code. */
const askNameServer = (address: string) =>
  Effect.callback<string | undefined>((resume) => {
    const resolver = new NodeDns.Resolver({ timeout: DNS_MILLIS, tries: 1 })
    resolver.setServers([address])
    resolver.resolve4(UNUSED_NAME, (error) => {
      const isAnswered = error === null || error.code === NodeDns.NOTFOUND || error.code === NodeDns.NODATA
      resume(Effect.succeed(isAnswered ? undefined : (error.code ?? "unknown error")))
    })
    return Effect.sync(() => resolver.cancel())
  })

/** The most name servers that are asked. */
const MAX_NAME_SERVERS = 8

/** The name servers of outgoing requests: those configured, else the machine's. */
export const checkDns = ({ egress }: Settings): Effect.Effect<Finding> =>
  Effect.gen(function* () {
    const isConfigured = egress.dnsServers.length > 0
    const servers = (
      isConfigured ? egress.dnsServers.map(NetAddress.formatInet) : NodeDns.getServers()
    ).slice(0, MAX_NAME_SERVERS)
    const advice = isConfigured
      ? "Correct COUNTERSIGN_DNS_SERVERS, or open UDP and TCP port 53 to the servers."
      : "Correct the machine's name servers, such as /etc/resolv.conf, or set COUNTERSIGN_DNS_SERVERS."
    if (servers.length === 0) return failure("the machine has no name server", advice)
    const results = yield* Effect.forEach(
      servers,
      (server) => Effect.map(askNameServer(server), (code) => ({ server, code })),
      { concurrency: MAX_NAME_SERVERS }
    )
    const silent = results.filter(({ code }) => code !== undefined)
    if (silent.length === 0) return ok(`answered by ${servers.join(", ")}`)
    const summary = silent.map(({ code, server }) => `${server} does not answer (${code})`).join(", ")
    return silent.length === servers.length ? failure(summary, advice) : warning(summary, advice)
  })

/** The login at the mail server. Nothing is sent. */
export const checkMail = ({ mail }: Settings): Effect.Effect<Finding> =>
  mail === undefined
    ? Effect.succeed(skipped("COUNTERSIGN_SMTP_URL is unset: no email is sent"))
    : Effect.map(checkSmtp(mail), (fault) =>
        fault === undefined
          ? ok("the mail server accepts the connection and the login")
          : failure(
              fault,
              "Correct host, port, user and percent-encoded password in COUNTERSIGN_SMTP_URL, and the firewall."
            )
      )

/** Failed sign-ins by reason, in the text of the metrics. */
const signInFailures = /^countersign_single_sign_on_failures_total\{reason="(provider|person)"\} (\d+)$/gm

/** Failed sign-ins with the identity provider since the replica on this machine started, if its metrics can be read. */
const checkSignIns = (settings: Settings): Effect.Effect<Finding> => {
  const answers = "the identity provider has the metadata of the issuer"
  if (settings.metricsToken === undefined) return Effect.succeed(ok(answers))
  return Effect.match(readMetrics(settings, settings.metricsToken), {
    onFailure: () => ok(answers),
    onSuccess: (metrics) => {
      const counts = Object.fromEntries(
        [...metrics.matchAll(signInFailures)].map(([, reason = "", count]) => [reason, Number(count)])
      )
      const { person, provider } = counts
      if (person === undefined || provider === undefined) return ok(answers)
      const summary = `${answers}; since the service started, ${plural(provider, "sign-in", "sign-ins")} failed with it, and ${person} had no access`
      return provider > 0
        ? warning(
            summary,
            "The log has the reason of each (`Single sign-on`), such as a wrong client secret."
          )
        : ok(summary)
    }
  })
}

/** The metadata of the identity provider, which every sign-in needs, and failed sign-ins: only these show a wrong client secret. */
export const checkSingleSignOn = (settings: Settings): Effect.Effect<Finding> => {
  const { singleSignOn } = settings
  if (singleSignOn === undefined) {
    return Effect.succeed(skipped("COUNTERSIGN_OIDC_ISSUER is unset: people sign in with API keys"))
  }
  const issuer = new URL(singleSignOn.issuer)
  const fetchBounded = makeBoundedFetch((url) => url.origin === issuer.origin)
  const metadata = Effect.promise(async () => {
    try {
      const { authorization_endpoint, jwks_uri, token_endpoint } = await readMetadata(issuer, fetchBounded)
      return authorization_endpoint === undefined || token_endpoint === undefined || jwks_uri === undefined
        ? failure("the identity provider's metadata lacks an endpoint", CORRECT_ISSUER)
        : undefined
    } catch (error) {
      const cause = error instanceof Error ? error.cause : undefined
      const code = errnoCode(cause) ?? errnoCode(error) ?? "no answer in 5 s"
      return failure(`the identity provider's metadata cannot be read (${code})`, CORRECT_ISSUER)
    }
  })
  return Effect.flatMap(metadata, (fault) =>
    fault === undefined ? checkSignIns(settings) : Effect.succeed(fault)
  )
}

const CORRECT_ISSUER =
  "Correct COUNTERSIGN_OIDC_ISSUER, under which /.well-known/openid-configuration must name the same issuer, and open the way to it."

/** Longest wait for the collector, in milliseconds. */
const COLLECTOR_MILLIS = 5_000

/** Sends an empty export, which a collector accepts and ignores. Returns the status, or the code of the error. */
const sendEmpty = (url: Redacted.Redacted, headers: Readonly<Record<string, string>>, body: unknown) =>
  Effect.promise(async (): Promise<number | string> => {
    try {
      const response = await fetch(Redacted.value(url), {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(body),
        redirect: "manual",
        signal: AbortSignal.timeout(COLLECTOR_MILLIS)
      })
      await response.body?.cancel()
      return response.status
    } catch (error) {
      // The message of a failed fetch can hold the URL; the code of its cause cannot.
      const cause = error instanceof Error ? error.cause : undefined
      return errnoCode(cause) ?? "no answer"
    }
  })

/** The collector of the service's own telemetry. */
export const checkOwnTelemetry = (settings: OwnTelemetrySettings | undefined): Effect.Effect<Finding> =>
  Effect.gen(function* () {
    if (settings === undefined) return skipped("OTEL_EXPORTER_OTLP_ENDPOINT is unset: nothing is exported")
    const headers = headersOf(settings.headers)
    const faults: Array<string> = []
    for (const [signal, url, body] of [
      ["traces", settings.traces, { resourceSpans: [] }],
      ["metrics", settings.metrics, { resourceMetrics: [] }]
    ] as const) {
      if (url === undefined) continue
      const answer = yield* sendEmpty(url, headers, body)
      if (typeof answer === "string") faults.push(`the collector of ${signal} cannot be reached (${answer})`)
      else if (answer < 200 || answer >= 300) faults.push(`the collector of ${signal} answers ${answer}`)
    }
    return faults.length === 0
      ? ok("the collector accepts exports")
      : warning(
          faults.join("; "),
          "Correct OTEL_EXPORTER_OTLP_ENDPOINT (OTLP over HTTP with JSON, often port 4318) and OTEL_EXPORTER_OTLP_HEADERS."
        )
  })
