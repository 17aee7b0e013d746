import { type Array as Arr, Duration, type LogLevel, Redacted, Result, Schema } from "effect"
import type { IpNetwork } from "effect/net"
import type { AllowedNetwork } from "../../domain/network/PublicAddress.ts"
import type { ClientCredential, SingleSignOnSettings } from "../../domain/identity/SingleSignOnSettings.ts"
import type { OrganizationLimitValues } from "../../domain/identity/OrganizationLimitValues.ts"
import type { ParsedApiKey } from "../../domain/identity/ApiKeyFormat.ts"
import type { EgressOptions } from "../egress/Egress.ts"
import type { OwnTelemetrySettings } from "../observability/OwnTelemetry.ts"
import { defaultDataDir } from "../store/EmbeddedPostgres.ts"
import {
  type Environment,
  type VariableFault,
  readVariables,
  textOfVariable,
  unknownVariables
} from "./Settings/readVariables.ts"
import { protectsCookies } from "./Settings/singleSignOn.ts"
import type { Values } from "./Settings/variables.ts"

export type { Environment, ServiceVariables } from "./Settings/readVariables.ts"

/** The database and the master keys of its secrets. */
export type StoreSettings = {
  /** Whether the service creates the database, or its tables, if there are none. */
  readonly create: boolean
} & (
  | {
      readonly kind: "external"
      readonly url: Redacted.Redacted
      /** The same database without the connection pooler of `url`; undefined: there is none. */
      readonly directUrl?: Redacted.Redacted | undefined
      readonly masterKeys: Arr.NonEmptyReadonlyArray<Redacted.Redacted>
    }
  | {
      readonly kind: "embedded"
      readonly dataDir: string
      /** The directory of an installed PostgreSQL's programs; undefined: the packaged ones. */
      readonly postgresBin: string | undefined
      /** The account to run the server as, if this process is root; undefined: one is chosen. */
      readonly user: string | undefined
      /** Newest first; undefined: the key file in the data directory, created if it is missing. */
      readonly masterKeys: Arr.NonEmptyReadonlyArray<Redacted.Redacted> | undefined
    }
)

/** The name of root's account. */
export const ROOT = "root"

/** The decoded configuration. `Settings/variables.ts` has the meaning and default of each variable. */
export interface Settings {
  readonly host: string
  readonly port: number
  /** Limits on client connections. */
  readonly connections: {
    readonly total: number
    readonly perAddress: number
    /** Reverse proxies whose `X-Forwarded-For` names the client. The limits per address do not apply to them. */
    readonly trustedProxies: ReadonlyArray<IpNetwork.IpNetwork>
  }
  /** Limits on the memory of responses that clients have not read, and on the time for reading them. */
  readonly unreadResponses: {
    readonly bytes: number
    /** Of one organization, or of one address for responses without a key. */
    readonly bytesPerOwner: number
    readonly stalledMillis: number
    readonly bytesPerSecond: number
  }
  /** Without a trailing slash. */
  readonly publicUrl: string
  readonly store: StoreSettings
  /**
   * The account that the command `serve` changes to if root started it; `ROOT`: it keeps root's; undefined:
   * `countersign` if there is one.
   */
  readonly user: string | undefined
  readonly adminKey: ParsedApiKey | undefined
  readonly mail: { readonly url: Redacted.Redacted; readonly from: string } | undefined
  /** Emails per organization, address and hour; 0 disables the limit. */
  readonly mailsPerHour: number
  readonly metricsToken: Redacted.Redacted | undefined
  readonly egress: EgressOptions
  /** Networks of the operator's model servers, which providers may reach although they are not public. */
  readonly providerAllow: ReadonlyArray<AllowedNetwork>
  readonly notifications: {
    /** Delay before each attempt; as many attempts as entries. */
    readonly delays: ReadonlyArray<Duration.Duration>
    readonly queueLimit: number
    readonly cooldownAfter: number
    readonly cooldown: Duration.Duration
    readonly maxCooldown: Duration.Duration
    /** Deliveries per second to one host; 0 disables a limit. */
    readonly hostRates: { readonly perOrganization: number; readonly total: number }
    /** Deliveries per second to one network of addresses; 0 disables a limit. */
    readonly networkRates: { readonly perOrganization: number; readonly total: number }
    readonly retention: Duration.Duration
  }
  readonly telemetry: {
    readonly queueLimit: number
    readonly sampleRatio: number
    readonly spansPerSecond: number
    readonly flush: Duration.Duration
    readonly payloadRetention: Duration.Duration
  }
  /** Which requests and statements are logged. */
  readonly log: {
    /** Whether requests have a line each; without it only slow ones have. */
    readonly requests: boolean
    /** Whether the operator has set `requests`, instead of its default. */
    readonly isRequestsSet: boolean
    /** The least severe level that is logged, if the flag `--log-level` sets no other. */
    readonly level: LogLevel.LogLevel
    /** The share of requests that have a line. */
    readonly sampleRatio: number
    /** From which duration a request is slow, in milliseconds; 0: never. */
    readonly slowRequestMillis: number
    /** From which duration a statement is slow, in milliseconds; 0: never. */
    readonly slowStatementMillis: number
  }
  /** Limits of the work that one organization has in progress on a replica. */
  readonly workLimits: { readonly reads: number; readonly largeBodyBytes: number }
  /** Requests per second, of each key and of each organization, and of an organization's end users; 0 disables a limit. */
  readonly rateLimits: {
    readonly perKey: number
    readonly perOrganization: number
    readonly endUserFeedback: number
  }
  /** Limits of one organization at a time; 0 disables a limit. */
  readonly organizationLimits: OrganizationLimitValues
  /** Resources that must be verified before they are sent anything but a challenge or a link. */
  readonly verification: { readonly endpoints: boolean; readonly emails: boolean }
  /** How long API keys are retained after they were revoked or have expired. */
  readonly keyRetention: Duration.Duration
  /** How long a console session lasts without input from its user; zero: until it expires. */
  readonly consoleIdle: Duration.Duration
  /** Undefined: people sign in with API keys only. */
  readonly singleSignOn: SingleSignOnSettings | undefined
  /** How long audit log entries are retained. */
  readonly auditRetention: Duration.Duration
  /** How long the service still serves after SIGTERM, before the graceful shutdown. */
  readonly stopDelay: Duration.Duration
  /** Longest graceful shutdown. */
  readonly stop: Duration.Duration
  /** The service's own telemetry; undefined: nothing is exported. */
  readonly ownTelemetry: OwnTelemetrySettings | undefined
}

/** A variable is invalid. The message is one line that names the variable and never contains a secret. */
export class SettingsInvalid extends Schema.TaggedError<SettingsInvalid>()("SettingsInvalid", {
  variable: Schema.String,
  message: Schema.String
}) {}

/** Properties of the process that defaults depend on. */
export interface ProcessFacts {
  readonly cwd: string
  readonly uid: number | undefined
}

/** Settings, with warnings for the operator, one line each. */
export interface DecodedSettings {
  readonly settings: Settings
  readonly warnings: ReadonlyArray<string>
}

/**
 * Decodes settings from environment variables. They are a parameter, so that tests and embedders of the service need
 * not change the process's environment. No variable is required: `{}` is a service with the embedded PostgreSQL.
 */
export const decode = (
  environment: Environment,
  machine: ProcessFacts
): Result.Result<DecodedSettings, SettingsInvalid> => {
  const read = readVariables(environment)
  if (Result.isFailure(read)) return Result.fail(settingsInvalid(read.failure))
  const values = read.success
  const production = textOfVariable(environment, "NODE_ENV") === "production"
  const contradictions = findContradictions(values, production)
  if (contradictions.length > 0) return Result.fail(settingsInvalid(contradictions))
  return Result.succeed({
    settings: assemble(values, machine, production),
    warnings: [...unknownVariables(environment), ...findWarnings(values, production)]
  })
}

/** The first fault in full, followed by the names of the other invalid variables. */
const settingsInvalid = (faults: ReadonlyArray<VariableFault>): SettingsInvalid => {
  const [first, ...others] = faults
  const alsoInvalid =
    others.length === 0 ? "" : ` (also invalid: ${others.map((one) => one.variable).join(", ")})`
  return new SettingsInvalid({
    variable: first?.variable ?? "",
    message: `${first?.variable} ${first?.fault}${alsoInvalid}`
  })
}

/** Values that are valid alone but not together. */
const findContradictions = (values: Values, production: boolean): ReadonlyArray<VariableFault> => {
  const faults: Array<VariableFault> = []
  if (values.DATABASE_URL !== undefined && values.COUNTERSIGN_MASTER_KEY === undefined) {
    faults.push({
      variable: "COUNTERSIGN_MASTER_KEY",
      fault:
        "must be set with DATABASE_URL: 32 random bytes in base64, as from: openssl rand -base64 32. Keep it: secrets that it encrypted cannot be decrypted without it"
    })
  }
  if (production && values.COUNTERSIGN_EGRESS_ALLOW !== undefined) {
    faults.push({ variable: "COUNTERSIGN_EGRESS_ALLOW", fault: notInProduction })
  }
  if (production && values.COUNTERSIGN_EGRESS_HTTP) {
    faults.push({ variable: "COUNTERSIGN_EGRESS_HTTP", fault: notInProduction })
  }
  if (values.COUNTERSIGN_SMTP_URL !== undefined && values.COUNTERSIGN_MAIL_FROM === undefined) {
    faults.push({
      variable: "COUNTERSIGN_MAIL_FROM",
      fault: "must be set with COUNTERSIGN_SMTP_URL: the sender of email"
    })
  }
  const {
    COUNTERSIGN_NOTIFY_COOLDOWN_MAX_SECONDS: longest,
    COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS: first,
    COUNTERSIGN_NOTIFY_RETENTION_DAYS: retention,
    COUNTERSIGN_NOTIFY_RETRY_SECONDS: delays,
    COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES: total,
    COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES_PER_ORGANIZATION: perOrganization
  } = values
  if (perOrganization !== undefined && perOrganization > total) {
    faults.push({
      variable: "COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES_PER_ORGANIZATION",
      fault: `must be at most COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES, which is ${total}`
    })
  }
  if (longest !== undefined && Duration.isLessThan(longest, first)) {
    faults.push({
      variable: "COUNTERSIGN_NOTIFY_COOLDOWN_MAX_SECONDS",
      fault: `must be at least COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS, which is ${Duration.toSeconds(first)}`
    })
  }
  if (Duration.isGreaterThan(delays.reduce(Duration.sum, Duration.zero), retention)) {
    faults.push({
      variable: "COUNTERSIGN_NOTIFY_RETRY_SECONDS",
      fault: `must add up to at most ${Duration.toSeconds(retention)}, COUNTERSIGN_NOTIFY_RETENTION_DAYS in seconds: deliveries are deleted then`
    })
  }
  return [...faults, ...findSignOnFaults(values)]
}

const isGoogle = (issuer: string): boolean => URL.parse(issuer)?.hostname === "accounts.google.com"

/** Single sign-on needs all of its variables, and cookies that no other machine on the network can read. */
const findSignOnFaults = (values: Values): ReadonlyArray<VariableFault> => {
  if (values.COUNTERSIGN_OIDC_ISSUER === undefined) return []
  const faults: Array<VariableFault> = (["COUNTERSIGN_OIDC_CLIENT_ID", "COUNTERSIGN_OIDC_ACCESS"] as const)
    .filter((variable) => values[variable] === undefined)
    .map((variable) => ({ variable, fault: "must be set with COUNTERSIGN_OIDC_ISSUER" }))
  const hasSecret = values.COUNTERSIGN_OIDC_CLIENT_SECRET !== undefined
  const hasKey = values.COUNTERSIGN_OIDC_CLIENT_KEY !== undefined
  if (!hasSecret && !hasKey) {
    faults.push({
      variable: "COUNTERSIGN_OIDC_CLIENT_SECRET",
      fault: "must be set with COUNTERSIGN_OIDC_ISSUER, or else COUNTERSIGN_OIDC_CLIENT_KEY"
    })
  }
  if (hasSecret && hasKey) {
    faults.push({
      variable: "COUNTERSIGN_OIDC_CLIENT_KEY",
      fault: "must not be set with COUNTERSIGN_OIDC_CLIENT_SECRET"
    })
  }
  if (isGoogle(values.COUNTERSIGN_OIDC_ISSUER) && values.COUNTERSIGN_OIDC_EMAIL_DOMAINS === undefined) {
    faults.push({
      variable: "COUNTERSIGN_OIDC_EMAIL_DOMAINS",
      fault: "must be set with Google as the issuer, with which anyone can have an account"
    })
  }
  return protectsCookies(values.COUNTERSIGN_PUBLIC_URL ?? addressUrl(values.HOST, values.PORT))
    ? faults
    : [
        ...faults,
        {
          variable: "COUNTERSIGN_PUBLIC_URL",
          fault:
            "must be an https URL with COUNTERSIGN_OIDC_ISSUER, to which the provider sends browsers back"
        }
      ]
}

const singleSignOnOf = (values: Values): SingleSignOnSettings | undefined => {
  const {
    COUNTERSIGN_OIDC_ACCESS: access,
    COUNTERSIGN_OIDC_CLIENT_ID: clientId,
    COUNTERSIGN_OIDC_CLIENT_KEY: key,
    COUNTERSIGN_OIDC_CLIENT_SECRET: secret,
    COUNTERSIGN_OIDC_ISSUER: issuer
  } = values
  const client: ClientCredential | undefined =
    key !== undefined
      ? { _tag: "PrivateKey", ...key, keyId: values.COUNTERSIGN_OIDC_CLIENT_KEY_ID }
      : secret !== undefined
        ? { _tag: "Secret", secret }
        : undefined
  if (issuer === undefined || clientId === undefined || client === undefined || access === undefined) {
    return undefined
  }
  return {
    issuer,
    clientId,
    client,
    access,
    scopes: values.COUNTERSIGN_OIDC_SCOPES,
    groupsClaim: values.COUNTERSIGN_OIDC_GROUPS_CLAIM,
    emailDomains: values.COUNTERSIGN_OIDC_EMAIL_DOMAINS,
    name: values.COUNTERSIGN_OIDC_NAME
  }
}

/** Variables that have no effect with or without another one. */
const ineffective = [
  ["COUNTERSIGN_MAIL_FROM", "without", "COUNTERSIGN_SMTP_URL"],
  ["COUNTERSIGN_MAIL_VERIFIED_ONLY", "without", "COUNTERSIGN_SMTP_URL"],
  ["COUNTERSIGN_OIDC_ACCESS", "without", "COUNTERSIGN_OIDC_ISSUER"],
  ["COUNTERSIGN_OIDC_CLIENT_ID", "without", "COUNTERSIGN_OIDC_ISSUER"],
  ["COUNTERSIGN_OIDC_CLIENT_KEY", "without", "COUNTERSIGN_OIDC_ISSUER"],
  ["COUNTERSIGN_OIDC_CLIENT_KEY_ID", "without", "COUNTERSIGN_OIDC_ISSUER"],
  ["COUNTERSIGN_OIDC_CLIENT_SECRET", "without", "COUNTERSIGN_OIDC_ISSUER"],
  ["COUNTERSIGN_OIDC_EMAIL_DOMAINS", "without", "COUNTERSIGN_OIDC_ISSUER"],
  ["COUNTERSIGN_DIRECT_DATABASE_URL", "without", "DATABASE_URL"],
  ["COUNTERSIGN_DATA_DIR", "with", "DATABASE_URL"],
  ["COUNTERSIGN_POSTGRES_BIN", "with", "DATABASE_URL"]
] as const

/** Whether a variable is set; of one that is true or false, whether it is true. */
const isSet = (value: Values[keyof Values]): boolean => value !== undefined && value !== false

const notInProduction = "must not be set with NODE_ENV=production: it is for development and tests only"

const findWarnings = (values: Values, production: boolean): ReadonlyArray<string> => {
  const warnings: Array<string> = []
  if (values.COUNTERSIGN_EGRESS_ALLOW !== undefined) {
    warnings.push(
      "COUNTERSIGN_EGRESS_ALLOW allows requests to non-public addresses: for development and tests only"
    )
  }
  if (values.COUNTERSIGN_EGRESS_HTTP) {
    warnings.push("COUNTERSIGN_EGRESS_HTTP allows requests without TLS: for development and tests only")
  }
  if (
    values.COUNTERSIGN_PUBLIC_URL === undefined &&
    (values.COUNTERSIGN_SMTP_URL !== undefined || !isLoopback(values.HOST))
  ) {
    warnings.push(
      `COUNTERSIGN_PUBLIC_URL is unset: links use ${addressUrl(values.HOST, values.PORT)}; set it to the URL under which people open the console`
    )
  }
  if (
    !isLoopback(values.HOST) &&
    values.COUNTERSIGN_TRUSTED_PROXIES === undefined &&
    !(values.COUNTERSIGN_PUBLIC_URL ?? "").startsWith("https:")
  ) {
    warnings.push(
      `HOST ${values.HOST} can be reached from other machines, and the service has no TLS: API keys travel in clear text. Put a reverse proxy with TLS in front, and set COUNTERSIGN_PUBLIC_URL to its https URL or COUNTERSIGN_TRUSTED_PROXIES to its address; or set HOST to 127.0.0.1`
    )
  }
  for (const [variable, preposition, other] of ineffective) {
    if (isSet(values[variable]) && isSet(values[other]) === (preposition === "with"))
      warnings.push(`${variable} has no effect ${preposition} ${other}`)
  }
  if (production && values.DATABASE_URL === undefined && values.COUNTERSIGN_POSTGRES_BIN === undefined) {
    warnings.push(
      "The packaged PostgreSQL is for development: its libraries get no security fixes; set DATABASE_URL, or COUNTERSIGN_POSTGRES_BIN to an installed PostgreSQL"
    )
  }
  return warnings
}

/** Whether a listening address can be reached from this machine only. */
const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || host.startsWith("127.")

const assemble = (values: Values, machine: ProcessFacts, production: boolean): Settings => {
  const publicUrl = values.COUNTERSIGN_PUBLIC_URL ?? addressUrl(values.HOST, values.PORT)
  const { COUNTERSIGN_SMTP_URL: smtp, COUNTERSIGN_MAIL_FROM: sender } = values
  return {
    host: values.HOST,
    port: values.PORT,
    connections: {
      total: values.COUNTERSIGN_CONNECTION_LIMIT,
      perAddress: values.COUNTERSIGN_CONNECTION_LIMIT_PER_ADDRESS,
      trustedProxies: values.COUNTERSIGN_TRUSTED_PROXIES ?? []
    },
    unreadResponses: {
      bytes: values.COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES * 1024 ** 2,
      bytesPerOwner:
        (values.COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES_PER_ORGANIZATION ??
          Math.min(32, values.COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES)) *
        1024 ** 2,
      stalledMillis: Duration.toMillis(values.COUNTERSIGN_UNREAD_RESPONSE_SECONDS),
      bytesPerSecond: values.COUNTERSIGN_UNREAD_RESPONSE_KIBIBYTES_PER_SECOND * 1024
    },
    publicUrl,
    store: storeOf(values, machine),
    user: values.COUNTERSIGN_USER,
    adminKey: values.COUNTERSIGN_ADMIN_KEY,
    mail: smtp === undefined || sender === undefined ? undefined : { url: smtp, from: sender },
    mailsPerHour: values.COUNTERSIGN_MAIL_PER_ADDRESS_AND_HOUR,
    metricsToken: values.COUNTERSIGN_METRICS_TOKEN,
    egress: {
      dnsServers: values.COUNTERSIGN_DNS_SERVERS ?? [],
      allow: values.COUNTERSIGN_EGRESS_ALLOW ?? [],
      allowHttp: values.COUNTERSIGN_EGRESS_HTTP,
      deny: values.COUNTERSIGN_EGRESS_DENY ?? [],
      ownHost: URL.parse(publicUrl)?.host
    },
    providerAllow: values.COUNTERSIGN_PROVIDER_ALLOW ?? [],
    notifications: {
      delays: values.COUNTERSIGN_NOTIFY_RETRY_SECONDS,
      queueLimit: values.COUNTERSIGN_NOTIFY_QUEUE_LIMIT,
      cooldownAfter: values.COUNTERSIGN_NOTIFY_COOLDOWN_AFTER,
      cooldown: values.COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS,
      maxCooldown:
        values.COUNTERSIGN_NOTIFY_COOLDOWN_MAX_SECONDS ??
        Duration.max(Duration.minutes(15), values.COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS),
      hostRates: {
        perOrganization: values.COUNTERSIGN_NOTIFY_HOST_RATE_PER_SECOND,
        total: values.COUNTERSIGN_NOTIFY_HOST_TOTAL_RATE_PER_SECOND
      },
      networkRates: {
        perOrganization: values.COUNTERSIGN_NOTIFY_NETWORK_RATE_PER_SECOND,
        total: values.COUNTERSIGN_NOTIFY_NETWORK_TOTAL_RATE_PER_SECOND
      },
      retention: values.COUNTERSIGN_NOTIFY_RETENTION_DAYS
    },
    telemetry: {
      queueLimit: values.COUNTERSIGN_TELEMETRY_QUEUE_LIMIT,
      sampleRatio: values.COUNTERSIGN_TELEMETRY_SAMPLE_RATIO,
      spansPerSecond: values.COUNTERSIGN_TELEMETRY_SPANS_PER_SECOND,
      flush: values.COUNTERSIGN_TELEMETRY_FLUSH_SECONDS,
      payloadRetention: values.COUNTERSIGN_TELEMETRY_PAYLOAD_HOURS
    },
    log: {
      requests: values.COUNTERSIGN_LOG_REQUESTS ?? production,
      isRequestsSet: values.COUNTERSIGN_LOG_REQUESTS !== undefined,
      level: values.COUNTERSIGN_LOG_LEVEL,
      sampleRatio: values.COUNTERSIGN_LOG_REQUESTS_SAMPLE_RATIO,
      slowRequestMillis: values.COUNTERSIGN_SLOW_REQUEST_MILLIS,
      slowStatementMillis: values.COUNTERSIGN_SLOW_STATEMENT_MILLIS
    },
    workLimits: {
      reads: values.COUNTERSIGN_READ_CONCURRENCY,
      largeBodyBytes: values.COUNTERSIGN_LARGE_BODY_MEBIBYTES * 1024 ** 2
    },
    rateLimits: {
      perKey: values.COUNTERSIGN_RATE_LIMIT_PER_SECOND,
      perOrganization: values.COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND,
      endUserFeedback: values.COUNTERSIGN_END_USER_FEEDBACK_PER_SECOND
    },
    organizationLimits: {
      keys: values.COUNTERSIGN_KEY_LIMIT,
      openSessions: values.COUNTERSIGN_OPEN_SESSION_LIMIT,
      concurrentRuns: values.COUNTERSIGN_RUN_CONCURRENCY,
      runBytes: values.COUNTERSIGN_RUN_CONCURRENCY_MEBIBYTES * 1024 * 1024,
      storedRuns: values.COUNTERSIGN_STORED_RUN_LIMIT,
      storedFeedback: values.COUNTERSIGN_STORED_FEEDBACK_LIMIT,
      storedBytes: values.COUNTERSIGN_STORED_MEBIBYTES_LIMIT * 1024 ** 2,
      testsPerMinute: values.COUNTERSIGN_NOTIFY_TESTS_PER_MINUTE,
      challengesPerMinute: values.COUNTERSIGN_NOTIFY_CHALLENGES_PER_MINUTE,
      verificationLinksPerHour: values.COUNTERSIGN_MAIL_LINKS_PER_HOUR
    },
    verification: {
      endpoints: values.COUNTERSIGN_NOTIFY_VERIFIED_ONLY,
      emails: values.COUNTERSIGN_MAIL_VERIFIED_ONLY
    },
    keyRetention: values.COUNTERSIGN_KEY_RETENTION_DAYS,
    singleSignOn: singleSignOnOf(values),
    consoleIdle: values.COUNTERSIGN_CONSOLE_IDLE_MINUTES,
    auditRetention: values.COUNTERSIGN_AUDIT_RETENTION_DAYS,
    stopDelay: values.COUNTERSIGN_STOP_DELAY_SECONDS,
    stop: values.COUNTERSIGN_STOP_SECONDS,
    ownTelemetry: ownTelemetryOf(values)
  }
}

/**
 * Each signal has a URL of its own, or the path of the signal under the common endpoint (OpenTelemetry specification, OTLP exporter
 * configuration).
 */
const ownTelemetryOf = (values: Values): OwnTelemetrySettings | undefined => {
  const under = (path: string) =>
    values.OTEL_EXPORTER_OTLP_ENDPOINT === undefined
      ? undefined
      : Redacted.make(`${Redacted.value(values.OTEL_EXPORTER_OTLP_ENDPOINT).replace(/\/+$/, "")}${path}`, {
          label: "OTEL_EXPORTER_OTLP_ENDPOINT"
        })
  const traces = values.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? under("/v1/traces")
  const metrics = values.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT ?? under("/v1/metrics")
  if ((traces === undefined && metrics === undefined) || values.OTEL_SDK_DISABLED) return undefined
  return {
    traces,
    metrics,
    headers: values.OTEL_EXPORTER_OTLP_HEADERS,
    serviceName: values.OTEL_SERVICE_NAME,
    attributes: values.OTEL_RESOURCE_ATTRIBUTES ?? {}
  }
}

const storeOf = (values: Values, machine: ProcessFacts): StoreSettings => {
  const masterKeys = values.COUNTERSIGN_MASTER_KEY
  return values.DATABASE_URL !== undefined && masterKeys !== undefined
    ? {
        kind: "external",
        url: values.DATABASE_URL,
        directUrl: values.COUNTERSIGN_DIRECT_DATABASE_URL,
        masterKeys,
        create: values.COUNTERSIGN_CREATE_DATABASE
      }
    : {
        kind: "embedded",
        create: values.COUNTERSIGN_CREATE_DATABASE,
        dataDir: values.COUNTERSIGN_DATA_DIR ?? defaultDataDir(machine),
        postgresBin: values.COUNTERSIGN_POSTGRES_BIN,
        user: values.COUNTERSIGN_USER === ROOT ? undefined : values.COUNTERSIGN_USER,
        masterKeys
      }
}

/** The http URL of a host and a port. An IPv6 address is put in brackets (RFC 3986, 3.2.2). */
export const addressUrl = (host: string, port: number): string =>
  `http://${host.includes(":") ? `[${host}]` : host}:${port}`
