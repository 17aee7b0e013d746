import { type Array as Arr, Duration, Redacted, Result } from "effect"
import { parseApiKey, type ParsedApiKey } from "../../../domain/identity/ApiKeyFormat.ts"
import * as KeyRing from "../../secrets/KeyRing.ts"
import type { Reader } from "./Variable.ts"

/** Longest part of an invalid value that an error message quotes. */
const QUOTED_CHARACTERS = 40

/** Quotes an invalid value on one line, whatever characters it has. */
const quote = (text: string): string =>
  JSON.stringify(text.length > QUOTED_CHARACTERS ? `${text.slice(0, QUOTED_CHARACTERS)}…` : text)

const expected = (what: string, text: string): Result.Result<never, string> =>
  Result.fail(`must be ${what}, not ${quote(text)}`)

/** A whole number from `minimum` to `maximum`, in decimal digits only: no sign, blank or exponent. */
export const wholeNumber =
  (minimum: number, maximum: number): Reader<number> =>
  (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    return value >= minimum && value <= maximum
      ? Result.succeed(value)
      : expected(`a whole number from ${minimum} to ${maximum}`, text)
  }

/** A decimal fraction from 0 to 1. */
export const ratio: Reader<number> = (text) => {
  const value = /^\d(\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN
  return value <= 1 ? Result.succeed(value) : expected("a number from 0 to 1, such as 0.25", text)
}

/** `true` or `false`. */
export const boolean: Reader<boolean> = (text) =>
  text === "true" || text === "false" ? Result.succeed(text === "true") : expected("true or false", text)

const duration =
  (of: (amount: number) => Duration.Duration) =>
  (minimum: number, maximum: number): Reader<Duration.Duration> => {
    const amount = wholeNumber(minimum, maximum)
    return (text) => Result.map(amount(text), of)
  }

/** Durations in whole seconds, minutes, hours or days, from a minimum to a maximum. */
export const seconds = duration(Duration.seconds)
export const minutes = duration(Duration.minutes)
export const hours = duration(Duration.hours)
export const days = duration(Duration.days)

/** The most attempts of one delivery; each is stored. */
const MAX_ATTEMPTS = 50
const LONGEST_DELAY_SECONDS = 30 * 24 * 3600

/** Comma-separated delays before each attempt: 1 to 50 of them, up to 30 days each. */
export const delays: Reader<ReadonlyArray<Duration.Duration>> = (text) => {
  const entries = text.split(",").map((entry) => entry.trim())
  const read = Result.all(entries.map(seconds(0, LONGEST_DELAY_SECONDS)))
  return Result.isSuccess(read) && entries.length <= MAX_ATTEMPTS
    ? read
    : expected(
        `1 to ${MAX_ATTEMPTS} whole numbers of seconds from 0 to ${LONGEST_DELAY_SECONDS}, separated by commas`,
        text
      )
}

/** A host name or an address to listen on, without brackets. */
export const host: Reader<string> = (text) =>
  /^[0-9A-Za-z._:%-]{1,253}$/.test(text)
    ? Result.succeed(text)
    : expected("a host name or an address, such as 127.0.0.1, 0.0.0.0 or ::", text)

/** The origin of the service's own links, without a trailing slash. */
export const publicUrl: Reader<string> = (text) => {
  const url = URL.parse(text)
  if (
    url === null ||
    (url.protocol !== "https:" && url.protocol !== "http:") ||
    url.username + url.password + url.search + url.hash !== ""
  ) {
    // The text may contain a password, so the message does not quote it.
    return Result.fail("must be an http or https URL without user, query and fragment")
  }
  // The console requests its assets under /console and the API under /v1 of the origin.
  return url.pathname === "/"
    ? Result.succeed(url.origin)
    : Result.fail("must be without a path: give the service a host name of its own")
}

/** A path of the file system. */
export const directory: Reader<string> = (text) =>
  text.includes("\0") ? expected("a directory", text) : Result.succeed(text)

/** The name of a system account. */
export const account: Reader<string> = (text) =>
  /^[A-Za-z_][\w.-]{0,31}$/.test(text) ? Result.succeed(text) : expected("the name of an account", text)

const redact = (text: string, label: string) => Redacted.make(text, { label })

const secretUrl =
  (label: string, protocols: ReadonlyArray<string>, what: string): Reader<Redacted.Redacted> =>
  (text) => {
    const protocol = URL.parse(text)?.protocol
    return protocol !== undefined && protocols.includes(protocol)
      ? Result.succeed(redact(text, label))
      : Result.fail(`must be ${what}`)
  }

/** Whether a connection URL names several servers, as libpq allows. The driver connects to one. */
const hasSeveralHosts = (text: string): boolean => {
  const authority = /^\w+:\/\/([^/?#]*)/.exec(text)?.[1] ?? ""
  const hosts = authority.slice(authority.lastIndexOf("@") + 1)
  const query = new URLSearchParams(/\?([^#]*)/.exec(text)?.[1])
  return [hosts, ...query.getAll("host"), ...query.getAll("port"), ...query.getAll("hostaddr")].some((part) =>
    part.includes(",")
  )
}

/** Values of `target_session_attrs` of a server that accepts writes, which the service requires at its start anyway. */
const WRITABLE = new Set(["any", "read-write", "primary"])

/** Whether the percent-encoding of a text is that of UTF-8. */
const isDecodable = (text: string): boolean => Result.isSuccess(Result.try(() => decodeURIComponent(text)))

/** The connection URL of one PostgreSQL server. */
const postgresUrl = (label: string): Reader<Redacted.Redacted> => {
  const read = secretUrl(
    label,
    ["postgres:", "postgresql:"],
    "a URL such as postgres://user:password@host:5432/database; percent-encode /, @, : and # in the password (p@ss is p%40ss)"
  )
  return (text) => {
    if (hasSeveralHosts(text)) {
      return Result.fail(
        "must name one host: use an address that leads to the current primary, such as a proxy, a virtual IP address, or the writer endpoint of a managed database"
      )
    }
    if (/%(?![0-9a-f]{2})/iu.test(text) || !isDecodable(text)) {
      return Result.fail(
        "must be percent-encoded: write %25 for a % in the user, the password or the database, such as p%25ss for p%ss"
      )
    }
    const target = URL.parse(text)?.searchParams.get("target_session_attrs") ?? "any"
    return WRITABLE.has(target)
      ? read(text)
      : Result.fail("must lead to a server that accepts writes: remove target_session_attrs")
  }
}

/** The connection URL of a PostgreSQL server, or of a pooler in front of it. */
export const databaseUrl = postgresUrl("DATABASE_URL")

/** The connection URL of the server behind the pooler. */
export const directDatabaseUrl = postgresUrl("COUNTERSIGN_DIRECT_DATABASE_URL")

/** The URL of a mail server. */
export const smtpUrl = secretUrl(
  "COUNTERSIGN_SMTP_URL",
  ["smtp:", "smtps:"],
  "a URL such as smtps://user:password@host:465"
)

const collector = (name: string, path: string): Reader<Redacted.Redacted> => {
  const read = secretUrl(
    name,
    ["http:", "https:"],
    `an http or https URL such as http://localhost:4318${path}`
  )
  return (text) => {
    const url = URL.parse(text)
    // fetch refuses such a URL, so nothing would be exported.
    return url !== null && url.username + url.password !== ""
      ? Result.fail(
          "must be without user and password: set OTEL_EXPORTER_OTLP_HEADERS to authorization=Basic%20 and the base64 of user:password"
        )
      : read(text)
  }
}

/** The base URL of a collector. */
export const collectorUrl = collector("OTEL_EXPORTER_OTLP_ENDPOINT", "")

/** The full URL of a collector for traces. */
export const tracesUrl = collector("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces")

/** The full URL of a collector for metrics. */
export const metricsUrl = collector("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "/v1/metrics")

/** Comma-separated `name=value` pairs (OpenTelemetry specification, OTLP exporter configuration). */
export const collectorHeaders: Reader<Redacted.Redacted> = (text) =>
  text.split(",").every((pair) => /^\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+=[\x21-\x7e]*\s*$/.test(pair))
    ? Result.succeed(redact(text, "OTEL_EXPORTER_OTLP_HEADERS"))
    : Result.fail("must be name=value pairs, separated by commas, values percent-encoded")

/** Comma-separated, percent-encoded `name=value` pairs (OpenTelemetry specification, resource SDK). */
export const resourceAttributes: Reader<Readonly<Record<string, string>>> = (text) =>
  Result.try({
    try: () =>
      Object.fromEntries(
        text.split(",").map((pair) => {
          const [, name, value] = /^\s*([^=\s]+)\s*=(.*)$/.exec(pair) ?? []
          if (name === undefined || value === undefined) throw new Error("no pair")
          return [decodeURIComponent(name), decodeURIComponent(value.trim())]
        })
      ),
    catch: () => "must be name=value pairs, separated by commas, percent-encoded"
  })

/** Text without control characters. */
export const line: Reader<string> = (text) =>
  // oxlint-disable-next-line no-control-regex -- the pattern finds control characters, to reject them
  /[\u0000-\u001f\u007f]/.test(text) ? expected("text on one line", text) : Result.succeed(text)

/** `line` of a secret. */
export const secretLine: Reader<Redacted.Redacted> = (text) =>
  // oxlint-disable-next-line no-control-regex -- the pattern finds control characters, to reject them
  /[\u0000-\u001f\u007f]/.test(text)
    ? Result.fail("must be text on one line")
    : Result.succeed(redact(text, "secret"))

/** An email sender: an address, or a name with an address in angle brackets. */
export const mailbox: Reader<string> = (text) =>
  /^([^<>@"\r\n]{1,200} <[^\s@<>"]+@[^\s@<>"]+>|[^\s@<>"]+@[^\s@<>"]+)$/.test(text)
    ? Result.succeed(text)
    : expected("an address such as countersign@example.com or Countersign <countersign@example.com>", text)

/** A bearer token (RFC 6750, 2.1), long enough not to be guessed. */
export const bearerToken: Reader<Redacted.Redacted> = (text) =>
  /^[0-9A-Za-z._~+/-]{16,512}=*$/.test(text)
    ? Result.succeed(redact(text, "bearer token"))
    : Result.fail("must be a bearer token: 16 to 512 characters of A-Z a-z 0-9 . _ ~ + / -")

/** An API key. */
export const apiKey: Reader<ParsedApiKey> = (text) =>
  Result.mapError(parseApiKey(text), (fault) =>
    fault === "checksum"
      ? "must be an API key, and this one has a typo: its checksum is wrong"
      : "must be an API key: csk_, 16 characters of 0-9A-Za-z, _, and 49 more of them"
  )

/** Comma-separated master keys, newest first. */
export const masterKeys: Reader<Arr.NonEmptyReadonlyArray<Redacted.Redacted>> = (text) => {
  const keys = KeyRing.split(redact(text, "COUNTERSIGN_MASTER_KEY"))
  return Result.mapBoth(KeyRing.fromTexts(keys), {
    onSuccess: () => keys,
    onFailure: (invalid) => `cannot be used: ${invalid.message}`
  })
}
