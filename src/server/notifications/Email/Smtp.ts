import { Effect, identity, Redacted, Schema, type Scope } from "effect"
import { createTransport } from "nodemailer"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"

/** The operator's mail server and the sender of all email. */
export interface MailSettings {
  /** `smtp://` or `smtps://`, with user and password if the server requires them. */
  readonly url: Redacted.Redacted
  /** An address, or a name followed by an address in angle brackets. */
  readonly from: string
}

/** One email to one recipient. */
export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
  readonly html: string
  /** The same for every attempt, so that email clients show a duplicate once. */
  readonly messageId: string
  /** Message id that all emails about one approval reference, so that email clients show them as one thread. Null: no thread. */
  readonly thread: string | null
  readonly date: Date
}

/** Sends email. */
export interface Smtp {
  /** Interruption closes the connection that the email is sent on. */
  readonly send: (mail: Mail) => Effect.Effect<AttemptOutcome>
}

/** The most connections to the mail server, and so the most concurrent attempts of the mail channel. */
export const MAX_CONNECTIONS = 5

/** Time-out of the TCP connection and of the name look-up. */
const CONNECT_MILLIS = 5_000

/** Time-out of the server's greeting and of every response. The delivery engine limits the whole attempt. */
const RESPONSE_MILLIS = 8_000

/** Idle time after which a connection is closed, before the server drops it without a reply. */
const IDLE_MILLIS = 30_000

/** The longest response that is read. */
const MAX_RESPONSE_BYTES = 64 * 1024

/** Query parameters of the URL that make nodemailer write the whole SMTP conversation to the console. They are removed. */
const LOGGING_PARAMETERS = ["logger", "debug", "transactionLog"]

/**
 * Whether a login requires TLS: always, except to this machine or with `?requireTLS=false` in the URL. STARTTLS is used in any case if the
 * server offers it.
 */
const requiresTls = (url: URL): boolean =>
  url.username !== "" && !["localhost", "127.0.0.1", "[::1]"].includes(url.hostname)

/** Connections to the mail server. */
const transportTo = (url: URL) => {
  for (const name of LOGGING_PARAMETERS) url.searchParams.delete(name)
  return createTransport({
    pool: true,
    maxConnections: MAX_CONNECTIONS,
    // Retries once on a connection that the server closed while it was idle. The engine makes all other retries.
    maxRequeues: 1,
    idleTimeout: IDLE_MILLIS,
    connectionTimeout: CONNECT_MILLIS,
    dnsTimeout: CONNECT_MILLIS,
    greetingTimeout: RESPONSE_MILLIS,
    socketTimeout: RESPONSE_MILLIS,
    socketCloseTimeout: 1_000,
    maxResponseSize: MAX_RESPONSE_BYTES,
    requireTLS: requiresTls(url),
    url: url.href
  })
}

/** Connects to the mail server and logs in, without sending anything. Returns why that fails; undefined if it succeeds. */
export const checkSmtp = (settings: MailSettings): Effect.Effect<string | undefined> =>
  Effect.acquireUseRelease(
    Effect.sync(() => transportTo(new URL(Redacted.value(settings.url)))),
    (transport) =>
      Effect.match(Effect.tryPromise({ try: () => transport.verify(), catch: outcomeOf }), {
        onSuccess: () => undefined,
        onFailure: (outcome) => ("error" in outcome ? outcome.error : "the login failed")
      }),
    (transport) => Effect.sync(() => transport.close())
  )

/** A pool of connections to the mail server. The operator chooses the server, so it is not restricted to public addresses. */
export const makeSmtp = (settings: MailSettings): Effect.Effect<Smtp, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => transportTo(new URL(Redacted.value(settings.url)))),
      (transport) => Effect.sync(() => transport.close())
    ),
    (transport) => ({
      send: ({ date, html, messageId, subject, text, thread, to }) =>
        Effect.match(
          Effect.tryPromise({
            try: (signal) =>
              transport.sendMail({
                from: settings.from,
                // As an object, so that nodemailer does not parse the address.
                to: { name: "", address: to },
                subject,
                text,
                html,
                messageId,
                ...(thread === null ? {} : { references: [thread], inReplyTo: thread }),
                date,
                // RFC 3834: suppresses automatic replies.
                headers: { "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All" },
                disableFileAccess: true,
                disableUrlAccess: true,
                signal
              }),
            catch: outcomeOf
          }),
          { onSuccess: (): AttemptOutcome => ({ _tag: "Delivered", status: 250 }), onFailure: identity }
        )
    })
  )

/** The members of nodemailer's errors that are read. The server's text is not: it can quote addresses or the login. */
const SmtpFailure = Schema.Struct({
  code: Schema.optional(Schema.String),
  originalCode: Schema.optional(Schema.String),
  command: Schema.optional(Schema.String),
  responseCode: Schema.optional(Schema.Int)
})
const decodeFailure = Schema.decodeUnknownOption(SmtpFailure)

/**
 * The outcome of a failed attempt. A reply about this email or its recipient is a fault of the delivery alone: 4xx is retried (as
 * greylisting needs), 5xx is final (RFC 5321, section 4.2.1). Every other failure is a fault of the server or its configuration, and is
 * retried.
 */
const outcomeOf = (error: unknown): AttemptOutcome => {
  const decoded = decodeFailure(error)
  const { code, command, originalCode, responseCode } = decoded._tag === "Some" ? decoded.value : {}
  const status = responseCode ?? null
  const withStatus = (phrase: string): string => (status === null ? phrase : `SMTP ${status}: ${phrase}`)
  const retry = (phrase: string): Extract<AttemptOutcome, { readonly _tag: "Retry" }> => ({
    _tag: "Retry",
    error: withStatus(phrase),
    status,
    retryAfter: null
  })
  if (code === "EENVELOPE" || code === "EMESSAGE") {
    if (status === 421) return retry("the mail server is shutting down")
    if (command === "MAIL FROM" && status !== null) return retry("the mail server rejected the sender")
    return status !== null && status < 500
      ? { ...retry("the mail server deferred the message"), fault: "delivery" }
      : {
          _tag: "Failed",
          error: withStatus("the mail server rejected the message"),
          status,
          fault: "delivery"
        }
  }
  switch (code) {
    case "EAUTH":
      return retry("the mail server rejected the login")
    case "ETLS":
      return retry("the TLS handshake with the mail server failed")
    case "EDNS":
      return retry("the mail server's name could not be resolved")
    case "ETIMEDOUT":
      return retry("the mail server did not respond in time")
    case "EPROTOCOL":
      return retry(
        status === null ? "the mail server does not speak SMTP" : "the mail server does not accept mail"
      )
    case "ECONNECTION":
      return retry("the mail server closed the connection")
    case "ESOCKET":
      return retry(socketPhrase(originalCode))
    default:
      return retry("the mail could not be sent")
  }
}

const socketPhrase = (code: string | undefined): string => {
  switch (code) {
    case "ECONNREFUSED":
      return "the mail server refused the connection"
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return "the mail server is unreachable"
    case "ECONNRESET":
    case "EPIPE":
      return "the mail server closed the connection"
    default:
      if (code !== undefined && /CERT|SIGN|ALTNAME/.test(code))
        return "the mail server's TLS certificate is not trusted"
      return code !== undefined && /EPROTO|SSL|TLS/.test(code)
        ? "the TLS handshake with the mail server failed"
        : "the connection to the mail server failed"
  }
}
