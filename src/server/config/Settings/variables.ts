import { parseAllowedNetworks, parseNetworks } from "../../../domain/network/PublicAddress.ts"
import type { EgressOptions } from "../../egress/Egress.ts"
import { parseDnsServers } from "../../egress/Egress/Resolver.ts"
import * as read from "./readers.ts"
import { optional, type Reader, secret, type Variable, withDefault } from "./Variable.ts"

type Lists = Pick<EgressOptions, "dnsServers" | "allow" | "deny">

const networks: Reader<Lists["deny"]> = parseNetworks
const allowances: Reader<Lists["allow"]> = parseAllowedNetworks
const nameServers: Reader<Lists["dnsServers"]> = parseDnsServers

const count = read.wholeNumber(1, 1_000_000)

/** Every variable the service reads, in the order they are shown. Nothing else is configuration. */
export const variables = {
  PORT: withDefault("8080", {
    description: "port it listens on; 0: any free one",
    unit: "port",
    read: read.wholeNumber(0, 65_535)
  }),
  HOST: withDefault("127.0.0.1", {
    description: "address it listens at",
    unit: "address",
    read: read.host
  }),
  COUNTERSIGN_PUBLIC_URL: optional({
    description: "how the outside reaches it: links in mail, the console, the host that no endpoint may name",
    unit: "URL",
    defaultText: "http://HOST:PORT",
    read: read.publicUrl
  }),
  DATABASE_URL: secret({
    description: "PostgreSQL 15 or newer",
    unit: "URL",
    defaultText: "unset: the embedded PostgreSQL under the data directory",
    read: read.databaseUrl
  }),
  COUNTERSIGN_DATA_DIR: optional({
    description: "the embedded PostgreSQL, its socket, the made master key",
    unit: "directory",
    defaultText: ".countersign in the working directory; as root /var/lib/countersign",
    read: read.directory
  }),
  COUNTERSIGN_MASTER_KEY: secret({
    description: "keeps secrets at rest; of several the first seals",
    unit: "32 bytes in base64, separated by commas",
    defaultText: "made on the embedded store; required with DATABASE_URL",
    read: read.masterKeys
  }),
  COUNTERSIGN_ADMIN_KEY: secret({
    description: "the first admin key, as of `countersign keys generate`; ignored once the store has a key",
    unit: "API key",
    defaultText: "unset: the first start makes one and prints it",
    read: read.apiKey
  }),
  COUNTERSIGN_SMTP_URL: secret({
    description: "mail server for notices to reviewers",
    unit: "URL",
    defaultText: "unset: no mail",
    read: read.smtpUrl
  }),
  COUNTERSIGN_MAIL_FROM: optional({
    description: "sender of that mail; required with COUNTERSIGN_SMTP_URL",
    unit: "address",
    read: read.mailbox
  }),
  COUNTERSIGN_METRICS_TOKEN: secret({
    description: "bearer token that reads /metrics",
    unit: "token",
    defaultText: "unset: there is no /metrics",
    read: read.bearerToken
  }),
  COUNTERSIGN_DNS_SERVERS: optional({
    description: "name servers for receivers and collectors",
    unit: "address[:port], separated by commas",
    defaultText: "the machine's",
    read: nameServers
  }),
  COUNTERSIGN_EGRESS_ALLOW: optional({
    description: "for development and tests: receivers let through though they are not public",
    unit: "CIDR or address:port, separated by commas",
    read: allowances
  }),
  COUNTERSIGN_EGRESS_HTTP: withDefault("false", {
    description: "for development and tests: plain http to those",
    unit: "true or false",
    read: read.boolean
  }),
  COUNTERSIGN_EGRESS_DENY: optional({
    description: "networks that nothing is sent to, beside those that are not public",
    unit: "CIDR, separated by commas",
    read: networks
  }),
  COUNTERSIGN_PROVIDER_ALLOW: optional({
    description: "the operator's own model servers, plain http allowed there",
    unit: "CIDR, separated by commas",
    read: networks
  }),
  COUNTERSIGN_NOTIFY_RETRY_SECONDS: withDefault("0,5,30,120,600,1800,3600,7200,14400,28800", {
    description: "delay before each attempt of a notification; as many attempts as entries",
    unit: "seconds, separated by commas",
    read: read.delays
  }),
  COUNTERSIGN_NOTIFY_QUEUE_LIMIT: withDefault("10000", {
    description: "waiting deliveries per endpoint",
    unit: "deliveries",
    read: count
  }),
  COUNTERSIGN_NOTIFY_COOLDOWN_AFTER: withDefault("5", {
    description: "failures in a row before an endpoint cools down",
    unit: "failures",
    read: read.wholeNumber(1, 1_000)
  }),
  COUNTERSIGN_NOTIFY_COOLDOWN_SECONDS: withDefault("30", {
    description: "first cooldown; each further one is twice as long",
    unit: "seconds",
    read: read.seconds(1, 86_400)
  }),
  COUNTERSIGN_NOTIFY_COOLDOWN_MAX_SECONDS: withDefault("900", {
    description: "longest cooldown",
    unit: "seconds",
    read: read.seconds(1, 86_400)
  }),
  COUNTERSIGN_NOTIFY_RETENTION_DAYS: withDefault("30", {
    description: "how long deliveries and their events are kept",
    unit: "days",
    read: read.days(1, 3_650)
  }),
  COUNTERSIGN_TELEMETRY_QUEUE_LIMIT: withDefault("10000", {
    description: "waiting spans per organization",
    unit: "spans",
    read: count
  }),
  COUNTERSIGN_TELEMETRY_SAMPLE_RATIO: withDefault("1", {
    description: "share of the traces that is exported",
    unit: "0 to 1",
    read: read.ratio
  }),
  COUNTERSIGN_TELEMETRY_SPANS_PER_SECOND: withDefault("1000", {
    description: "most spans taken in for export per organization, in each process",
    unit: "spans per second",
    read: count
  }),
  COUNTERSIGN_TELEMETRY_FLUSH_SECONDS: withDefault("2", {
    description: "longest wait for a batch to fill",
    unit: "seconds",
    read: read.seconds(1, 300)
  }),
  COUNTERSIGN_TELEMETRY_PAYLOAD_HOURS: withDefault("72", {
    description: "how long failed batches are kept for replay",
    unit: "hours",
    read: read.hours(1, 720)
  }),
  COUNTERSIGN_RATE_LIMIT_PER_SECOND: withDefault("500", {
    description: "requests per key, with a burst of as many again; 0: no limit",
    unit: "requests per second",
    read: read.wholeNumber(0, 1_000_000)
  }),
  COUNTERSIGN_AUDIT_RETENTION_DAYS: withDefault("365", {
    description: "how long the audit log is kept",
    unit: "days",
    read: read.days(1, 36_500)
  }),
  COUNTERSIGN_STOP_SECONDS: withDefault("8", {
    description: "longest drain at SIGTERM",
    unit: "seconds",
    read: read.seconds(0, 600)
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: secret({
    description: "collector of the service's own telemetry",
    unit: "URL",
    defaultText: "unset: none is exported",
    read: read.collectorUrl
  }),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: secret({
    description: "where its traces go instead, as it is written",
    unit: "URL",
    read: read.tracesUrl
  }),
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: secret({
    description: "where its metrics go instead, as it is written",
    unit: "URL",
    read: read.metricsUrl
  }),
  OTEL_EXPORTER_OTLP_HEADERS: secret({
    description: "headers sent to these collectors",
    unit: "name=value, separated by commas",
    read: read.collectorHeaders
  }),
  OTEL_SERVICE_NAME: withDefault("countersign", {
    description: "what the service is called in its own telemetry",
    unit: "name",
    read: read.line
  }),
  OTEL_RESOURCE_ATTRIBUTES: optional({
    description: "what else its own telemetry tells of the service",
    unit: "name=value, separated by commas",
    read: read.resourceAttributes
  }),
  OTEL_SDK_DISABLED: withDefault("false", {
    description: "whether its own telemetry is off, collector or not",
    unit: "true or false",
    read: read.boolean
  })
} as const satisfies Record<string, Variable<unknown>>

/** The name of a variable. */
export type VariableName = keyof typeof variables

/** Every name, in the order of the table. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of a literal are those of its type
export const variableNames = Object.keys(variables) as ReadonlyArray<VariableName>

/** What the variables were read as. */
export type Values = { readonly [Name in VariableName]: (typeof variables)[Name]["fallback"] }
