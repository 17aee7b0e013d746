import {
  type AllowedNetwork,
  parseAllowedNetworks,
  parseNetworks,
  parseProviderNetworks
} from "../../../domain/network/PublicAddress.ts"
import type { EgressOptions } from "../../egress/Egress.ts"
import { parseDnsServers } from "../../egress/parseDnsServers.ts"
import { logFormat } from "./logFormat.ts"
import { logLevel } from "./logLevel.ts"
import * as read from "./readers.ts"
import * as singleSignOn from "./singleSignOn.ts"
import { optional, type Reader, secret, type Variable, withDefault } from "./Variable.ts"

type Lists = Pick<EgressOptions, "dnsServers" | "allow" | "deny">

const networks: Reader<Lists["deny"]> = parseNetworks
const providerNetworks: Reader<ReadonlyArray<AllowedNetwork>> = parseProviderNetworks
const allowances: Reader<Lists["allow"]> = parseAllowedNetworks
const nameServers: Reader<Lists["dnsServers"]> = parseDnsServers

const count = read.wholeNumber(1, 1_000_000)

/**
 * Every environment variable of the service, in the order of the documentation. There is no other configuration.
 *
 * A table of our own instead of Effect's `Config`: it also generates `docs/configuration.md` and `countersign config`, reports all invalid
 * variables in one run, and suggests names for misspelt ones.
 */
export const variables = {
  PORT: withDefault("8080", {
    description: "Port to listen on; 0 picks a free one",
    unit: "port",
    read: read.wholeNumber(0, 65_535)
  }),
  HOST: withDefault("127.0.0.1", {
    description: "Address to listen on",
    unit: "address",
    read: read.host
  }),
  COUNTERSIGN_CONNECTION_LIMIT: withDefault("10000", {
    description:
      "Open client connections. At the limit, a connection from another address replaces one of the address with the most; if no address has more, it gets 503",
    unit: "connections",
    read: count
  }),
  COUNTERSIGN_CONNECTION_LIMIT_PER_ADDRESS: withDefault("1000", {
    description:
      "Open client connections of one address, or of one IPv6 network of 64 bits; further ones get 503",
    unit: "connections",
    read: count
  }),
  COUNTERSIGN_TRUSTED_PROXIES: optional({
    description:
      "Addresses of reverse proxies, including loopback if your proxy uses it. Their requests are attributed to the last address in X-Forwarded-For that is not a proxy's. Limits per address do not apply to these proxies and to loopback",
    unit: "CIDR, separated by commas",
    read: networks
  }),
  COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES: withDefault("128", {
    description:
      "Total memory for responses that clients have not read. Above it, connections of the organization with the most are closed",
    unit: "MiB",
    read: read.wholeNumber(16, 1_000_000)
  }),
  COUNTERSIGN_UNREAD_RESPONSE_MEBIBYTES_PER_ORGANIZATION: optional({
    description:
      "The same per organization, or per address for responses without a key. From half of it, further reads of the organization wait",
    unit: "MiB",
    defaultText: "32, or the total above if that is less",
    read: read.wholeNumber(8, 1_000_000)
  }),
  COUNTERSIGN_UNREAD_RESPONSE_SECONDS: withDefault("30", {
    description: "How long a client may read nothing of a response before its connection is closed",
    unit: "seconds",
    read: read.seconds(1, 600)
  }),
  COUNTERSIGN_UNREAD_RESPONSE_KIBIBYTES_PER_SECOND: withDefault("16", {
    description:
      "Minimum rate at which a client must read a response, or a part of an export, of more than 16 KiB, after the time above",
    unit: "KiB per second",
    read: count
  }),
  COUNTERSIGN_PUBLIC_URL: optional({
    description:
      "Public URL of the service, for links in email and the console. Webhook endpoints may not use its host",
    unit: "URL",
    defaultText: "http://HOST:PORT",
    read: read.publicUrl
  }),
  DATABASE_URL: secret({
    description: "Connection URL of PostgreSQL 15 or newer",
    unit: "URL",
    defaultText: "unset: embedded PostgreSQL in the data directory",
    read: read.databaseUrl
  }),
  COUNTERSIGN_DIRECT_DATABASE_URL: secret({
    description:
      "Connection URL of the same database without the connection pooler of DATABASE_URL, such as PgBouncer in transaction mode. LISTEN, leases, deliveries and migrations use it",
    unit: "URL",
    defaultText: "unset: DATABASE_URL leads to the server itself",
    read: read.directDatabaseUrl
  }),
  COUNTERSIGN_DATA_DIR: optional({
    description: "Directory of the embedded PostgreSQL, its socket and the generated master key",
    unit: "directory",
    defaultText: ".countersign in the working directory; /var/lib/countersign as root",
    read: read.directory
  }),
  COUNTERSIGN_CREATE_DATABASE: withDefault("true", {
    description:
      "Whether the service creates a missing database in the data directory, or the tables in an empty database of DATABASE_URL. With false, a volume that is not mounted or a wrong URL stops the start, which would otherwise begin with an empty database",
    unit: "true or false",
    read: read.boolean
  }),
  COUNTERSIGN_POSTGRES_BIN: optional({
    description:
      "Directory of the programs of an installed PostgreSQL, 15 or newer, that the embedded PostgreSQL runs, such as /usr/lib/postgresql/18/bin",
    unit: "directory",
    defaultText: "the packaged PostgreSQL 18",
    read: read.directory
  }),
  COUNTERSIGN_USER: optional({
    description:
      "Account that the service, with its embedded PostgreSQL, changes to once it listens, if root starts it; root: stays root",
    unit: "account",
    defaultText: "countersign if the machine has it; else root, which NODE_ENV=production refuses",
    read: read.account
  }),
  COUNTERSIGN_MASTER_KEY: secret({
    description: "Encrypts secrets at rest; comma-separated, the first encrypts and all decrypt",
    unit: "32 bytes in base64, separated by commas",
    defaultText: "generated with the embedded PostgreSQL; required with DATABASE_URL",
    read: read.masterKeys
  }),
  COUNTERSIGN_ADMIN_KEY: secret({
    description:
      "First admin key, as printed by `countersign keys generate`. Ignored once the database has a key",
    unit: "API key",
    defaultText: "unset: the first start creates one and prints it, except with NODE_ENV=production",
    read: read.apiKey
  }),
  COUNTERSIGN_SMTP_URL: secret({
    description: "Mail server for approval emails, invitations and confirmation links",
    unit: "URL",
    defaultText: "unset: no email is sent",
    read: read.smtpUrl
  }),
  COUNTERSIGN_MAIL_FROM: optional({
    description: "Sender of all emails; required with COUNTERSIGN_SMTP_URL",
    unit: "address",
    read: read.mailbox
  }),
  COUNTERSIGN_MAIL_PER_ADDRESS_AND_HOUR: withDefault("60", {
    description:
      "Maximum number of emails of one organization to one address within an hour; 0: no limit. Emails beyond it fail",
    unit: "emails",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_MAIL_VERIFIED_ONLY: withDefault("false", {
    description:
      "Sends nothing but a confirmation link to an email address, new or existing, until its owner has confirmed it. Approval emails until then are not sent",
    unit: "true or false",
    read: read.boolean
  }),
  COUNTERSIGN_MAIL_LINKS_PER_HOUR: withDefault("100", {
    description:
      "Maximum number of an organization's addresses that are sent a link within an hour; 0: no limit. One address is sent three at most",
    unit: "addresses",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_OIDC_ISSUER: optional({
    description:
      "Issuer URL of the OpenID Connect provider with which people sign in to the console, exactly as the provider states it; see docs/single-sign-on.md",
    unit: "URL",
    defaultText: "unset: people sign in with API keys",
    read: singleSignOn.issuer
  }),
  COUNTERSIGN_OIDC_CLIENT_ID: optional({
    description: "The service's client id at the provider; required with COUNTERSIGN_OIDC_ISSUER",
    unit: "text",
    read: read.line
  }),
  COUNTERSIGN_OIDC_CLIENT_SECRET: secret({
    description:
      "The client's secret; this or COUNTERSIGN_OIDC_CLIENT_KEY is required with COUNTERSIGN_OIDC_ISSUER",
    unit: "text",
    read: read.secretLine
  }),
  COUNTERSIGN_OIDC_CLIENT_KEY: secret({
    description:
      "Private key with which the service signs in to the provider (private_key_jwt), instead of a secret: RSA of at least 2048 bits, P-256 or Ed25519. Line breaks may be written as \\n",
    unit: "PKCS #8 in PEM",
    read: singleSignOn.clientKey
  }),
  COUNTERSIGN_OIDC_CLIENT_KEY_ID: optional({
    description: "ID (kid) of COUNTERSIGN_OIDC_CLIENT_KEY at the provider",
    unit: "text",
    read: read.line
  }),
  COUNTERSIGN_OIDC_ACCESS: optional({
    description:
      "Who gets access: an array of rules with organization, preset, and optionally group (of the provider; absent: everyone who signs in) and groups (of the service). Required with COUNTERSIGN_OIDC_ISSUER",
    unit: "JSON",
    read: singleSignOn.accessRules
  }),
  COUNTERSIGN_OIDC_GROUPS_CLAIM: withDefault("groups", {
    description:
      "Claim with a person's groups, of the ID token or else of the userinfo endpoint; a nested one by its path",
    unit: "name",
    read: read.line
  }),
  COUNTERSIGN_OIDC_SCOPES: withDefault("openid email profile", {
    description: "Scopes to request from the provider",
    unit: "scopes, separated by blanks",
    read: singleSignOn.oauthScopes
  }),
  COUNTERSIGN_OIDC_EMAIL_DOMAINS: optional({
    description: "Only people with a verified email address of one of these domains may sign in",
    unit: "domains, separated by commas",
    defaultText: "unset: anyone to whom the rules give access",
    read: singleSignOn.emailDomains
  }),
  COUNTERSIGN_OIDC_NAME: withDefault("single sign-on", {
    description: "The provider's name on the sign-in page",
    unit: "text",
    read: read.line
  }),
  COUNTERSIGN_METRICS_TOKEN: secret({
    description: "Bearer token for /metrics",
    unit: "token",
    defaultText: "unset: /metrics is disabled",
    read: read.bearerToken
  }),
  COUNTERSIGN_DNS_SERVERS: optional({
    description: "DNS servers that resolve webhook endpoints, collectors and providers",
    unit: "address[:port], separated by commas",
    defaultText: "the system's",
    read: nameServers
  }),
  COUNTERSIGN_EGRESS_ALLOW: optional({
    description: "Non-public addresses that webhooks and exports may reach. For development and tests only",
    unit: "CIDR, CIDR:port or address:port, separated by commas",
    read: allowances
  }),
  COUNTERSIGN_EGRESS_HTTP: withDefault("false", {
    description: "Allows plain http for webhooks and exports. For development and tests only",
    unit: "true or false",
    read: read.boolean
  }),
  COUNTERSIGN_EGRESS_DENY: optional({
    description: "Public networks that must not be reached; non-public ones never are",
    unit: "CIDR, separated by commas",
    read: networks
  }),
  COUNTERSIGN_PROVIDER_ALLOW: optional({
    description:
      "Non-public networks of your own model servers, open to every organization's tasks; plain http is allowed there. Without a port: 80, 443, and ports from 1024 on that no database, cache or broker commonly uses",
    unit: "CIDR:port, address:port or CIDR, separated by commas",
    read: providerNetworks
  }),
  COUNTERSIGN_NOTIFY_RETRY_SECONDS: withDefault("0,5,30,120,600,1800,3600,7200,14400,28800", {
    description:
      "Delay before each attempt of a webhook delivery. The number of entries is the number of attempts",
    unit: "seconds, separated by commas",
    read: read.delays
  }),
  COUNTERSIGN_NOTIFY_QUEUE_LIMIT: withDefault("10000", {
    description: "Maximum number of queued deliveries per webhook endpoint",
    unit: "deliveries",
    read: count
  }),
  COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: withDefault("5", {
    description: "Consecutive failures before an endpoint enters cooldown",
    unit: "failures",
    read: read.wholeNumber(1, 1_000)
  }),
  COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS: withDefault("30", {
    description: "First cooldown; each further one is twice as long",
    unit: "seconds",
    read: read.seconds(1, 86_400)
  }),
  COUNTERSIGN_NOTIFY_COOLDOWN_MAX_SECONDS: optional({
    description: "Longest cooldown",
    unit: "seconds",
    defaultText: "900, or the first cooldown if that is longer",
    read: read.seconds(1, 86_400)
  }),
  COUNTERSIGN_NOTIFY_HOST_RATE_PER_SECOND: withDefault("100", {
    description:
      "Maximum rate of webhook deliveries from all endpoints of one organization to one host, per replica, plus a burst of the same size; 0: no limit. Deliveries beyond it wait",
    unit: "deliveries per second",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_NOTIFY_HOST_TOTAL_RATE_PER_SECOND: withDefault("1000", {
    description: "The same from all organizations to one host",
    unit: "deliveries per second",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_NOTIFY_NETWORK_RATE_PER_SECOND: withDefault("200", {
    description:
      "Maximum rate of webhook deliveries from all endpoints of one organization to one network (/24 of IPv4, /48 of IPv6), whatever the names of its hosts, per replica, plus a burst of the same size; 0: no limit. Deliveries beyond it wait",
    unit: "deliveries per second",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_NOTIFY_NETWORK_TOTAL_RATE_PER_SECOND: withDefault("2000", {
    description: "The same from all organizations to one network",
    unit: "deliveries per second",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_NOTIFY_TESTS_PER_MINUTE: withDefault("10", {
    description: "Maximum number of test events to one endpoint, per minute and replica; 0: no limit",
    unit: "events",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_NOTIFY_CHALLENGES_PER_MINUTE: withDefault("30", {
    description:
      "Maximum number of challenges that verify an organization's endpoints, per minute and replica; 0: no limit",
    unit: "challenges",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_NOTIFY_VERIFIED_ONLY: withDefault("false", {
    description:
      "Sends nothing but challenges to an endpoint, new or existing, until it has answered one. Events until then are not delivered to it",
    unit: "true or false",
    read: read.boolean
  }),
  COUNTERSIGN_NOTIFY_RETENTION_DAYS: withDefault("30", {
    description: "How long deliveries and their events are retained",
    unit: "days",
    read: read.days(1, 3_650)
  }),
  COUNTERSIGN_TELEMETRY_QUEUE_LIMIT: withDefault("10000", {
    description: "Maximum number of queued spans per organization",
    unit: "spans",
    read: count
  }),
  COUNTERSIGN_TELEMETRY_SAMPLE_RATIO: withDefault("1", {
    description: "Fraction of traces that is exported",
    unit: "0 to 1",
    read: read.ratio
  }),
  COUNTERSIGN_TELEMETRY_SPANS_PER_SECOND: withDefault("1000", {
    description: "Maximum rate of spans accepted for export, per organization and replica",
    unit: "spans per second",
    read: count
  }),
  COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: withDefault("2", {
    description: "Longest time that spans wait for a batch to fill",
    unit: "seconds",
    read: read.seconds(1, 300)
  }),
  COUNTERSIGN_TELEMETRY_PAYLOAD_HOURS: withDefault("72", {
    description: "How long failed batches are retained for replay",
    unit: "hours",
    read: read.hours(1, 720)
  }),
  COUNTERSIGN_RATE_LIMIT_PER_SECOND: withDefault("500", {
    description:
      "Rate limit per API key and replica, plus a burst of the same size; 0 disables it. Lookups of unknown keys have the same limit per client address, or 500 with 0",
    unit: "requests per second",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_ORGANIZATION_RATE_LIMIT_PER_SECOND: withDefault("1000", {
    description:
      "Rate limit over all API keys of an organization, per replica, plus a burst of the same size; 0 disables it",
    unit: "requests per second",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_END_USER_FEEDBACK_PER_SECOND: withDefault("50", {
    description:
      "Rate limit of the feedback that browsers send with feedback tokens, per organization and replica, with a burst of as much again; 0 disables it, and the limit of 20 per client address",
    unit: "requests per second",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_KEY_LIMIT: withDefault("1000", {
    description:
      "Maximum number of usable API keys per organization, exact over all replicas; 0: no limit. Ten times as many can be stored, revoked and expired ones included",
    unit: "keys",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_KEY_RETENTION_DAYS: withDefault("90", {
    description:
      "How long API keys are retained after they were revoked or have expired. A key that created others is retained as long as they are",
    unit: "days",
    read: read.days(1, 36_500)
  }),
  COUNTERSIGN_OPEN_SESSION_LIMIT: withDefault("100000", {
    description:
      "Maximum number of open agent sessions per organization; 0: no limit. Replicas count every 30 seconds, so several may exceed it a little",
    unit: "sessions",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_RUN_CONCURRENCY: withDefault("100", {
    description:
      "Maximum number of runs per organization and replica that wait for a model provider; 0: no limit",
    unit: "runs",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_RUN_CONCURRENCY_MEBIBYTES: withDefault("32", {
    description: "Maximum size of the inputs of these runs in all, per organization and replica; 0: no limit",
    unit: "MiB",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_READ_CONCURRENCY: withDefault("4", {
    description:
      "Number of reads (GET) of an organization that run at a time on each replica, or half as many while other organizations send requests. Others wait up to five seconds",
    unit: "requests",
    read: read.wholeNumber(1, 1_000)
  }),
  COUNTERSIGN_LARGE_BODY_MEBIBYTES: withDefault("32", {
    description:
      "Total size of an organization's bodies of more than 64 KiB that are in progress on each replica. Others wait up to five seconds",
    unit: "MiB",
    read: read.wholeNumber(4, 100_000)
  }),
  COUNTERSIGN_STORED_RUN_LIMIT: withDefault("10000000", {
    description: "Approximate maximum number of logged runs per organization; 0: no limit",
    unit: "runs",
    read: read.wholeNumber(0, 1_000_000_000_000)
  }),
  COUNTERSIGN_STORED_FEEDBACK_LIMIT: withDefault("10000000", {
    description: "Approximate maximum number of feedback records per organization; 0: no limit",
    unit: "records",
    read: read.wholeNumber(0, 1_000_000_000_000)
  }),
  COUNTERSIGN_STORED_MEBIBYTES_LIMIT: withDefault("51200", {
    description:
      "Approximate maximum size of an organization's runs, feedback, datasets, comparison results, sessions, steps and approvals; 0: no limit",
    unit: "MiB",
    read: read.wholeNumber(0, 1_000_000_000)
  }),
  COUNTERSIGN_CONSOLE_IDLE_MINUTES: withDefault("60", {
    description:
      "How long a console session lasts without input from its user; 0: until it expires, eight hours after signing in",
    unit: "minutes",
    read: read.minutes(0, 480)
  }),
  COUNTERSIGN_AUDIT_RETENTION_DAYS: withDefault("365", {
    description: "How long audit log entries are retained",
    unit: "days",
    read: read.days(1, 36_500)
  }),
  COUNTERSIGN_STOP_DELAY_SECONDS: withDefault("0", {
    description:
      "How long the service still serves requests after SIGTERM while /readyz fails, so that load balancers first stop sending requests to it",
    unit: "seconds",
    read: read.seconds(0, 600)
  }),
  COUNTERSIGN_STOP_SECONDS: withDefault("8", {
    description: "Maximum duration of the graceful shutdown, which follows the delay above",
    unit: "seconds",
    read: read.seconds(0, 600)
  }),
  COUNTERSIGN_LOG_LEVEL: withDefault("info", {
    description: "Lowest level of log lines that are written: trace, debug, info, warn, error, fatal or none",
    unit: "level",
    read: logLevel
  }),
  COUNTERSIGN_LOG_FORMAT: optional({
    description: "Format of log lines: json, or pretty for people to read",
    unit: "json or pretty",
    defaultText: "unset: pretty on a terminal, else json",
    read: logFormat
  }),
  COUNTERSIGN_LOG_REQUESTS: optional({
    description:
      "Logs a line per request, of level info: method, route, status, duration, bytes of the answer, and the ids of request, trace, organization and key",
    unit: "true or false",
    defaultText: "true with NODE_ENV=production, else false",
    read: read.boolean
  }),
  COUNTERSIGN_LOG_REQUESTS_SAMPLE_RATIO: withDefault("1", {
    description:
      "Share of requests that have a line; it is the line's sample_ratio, by which counts are divided. Requests answered with 5xx and slow requests always have a line, with sample_ratio 1",
    unit: "0 to 1",
    read: read.ratio
  }),
  COUNTERSIGN_SLOW_REQUEST_MILLIS: withDefault("5000", {
    description:
      "Duration from which a request is logged as slow, even if requests are not logged. Runs of models and hooks, which wait by design, never are. 0: never",
    unit: "milliseconds",
    read: read.wholeNumber(0, 600_000)
  }),
  COUNTERSIGN_SLOW_STATEMENT_MILLIS: withDefault("1000", {
    description:
      "Duration from which a database statement is logged as slow, with its verb, table and operation, without its values. 0: never",
    unit: "milliseconds",
    read: read.wholeNumber(0, 600_000)
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: secret({
    description: "Collector for the service's own traces and metrics",
    unit: "URL",
    defaultText: "unset: nothing is exported",
    read: read.collectorUrl
  }),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: secret({
    description: "Full URL for traces, instead of the endpoint above",
    unit: "URL",
    read: read.tracesUrl
  }),
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: secret({
    description: "Full URL for metrics, instead of the endpoint above",
    unit: "URL",
    read: read.metricsUrl
  }),
  OTEL_EXPORTER_OTLP_HEADERS: secret({
    description: "Headers sent to these collectors",
    unit: "name=value, separated by commas",
    read: read.collectorHeaders
  }),
  OTEL_SERVICE_NAME: withDefault("countersign", {
    description: "Service name in the service's own telemetry",
    unit: "name",
    read: read.line
  }),
  OTEL_RESOURCE_ATTRIBUTES: optional({
    description: "Additional resource attributes of the service's own telemetry",
    unit: "name=value, separated by commas",
    read: read.resourceAttributes
  }),
  OTEL_SDK_DISABLED: withDefault("false", {
    description: "Disables the service's own telemetry",
    unit: "true or false",
    read: read.boolean
  })
} as const satisfies Record<string, Variable<unknown>>

/** The name of a variable. */
export type VariableName = keyof typeof variables

/** Every variable name, in the order of the table. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a literal has exactly the keys of its type
export const variableNames = Object.keys(variables) as ReadonlyArray<VariableName>

/** The decoded values of all variables. */
export type Values = { readonly [Name in VariableName]: (typeof variables)[Name]["fallback"] }
