import { Effect, identity, Redacted, Schema, type Scope } from "effect"
import { createTransport } from "nodemailer"
import type { AttemptOutcome } from "../../../domain/delivery/DeliveryState.ts"

/** The operator's mail server, and who mail comes from. */
export interface MailSettings {
  /** `smtp://` or `smtps://`, with user and password where the server asks for them. */
  readonly url: Redacted.Redacted
  /** An address, or a name and an address in angle brackets. */
  readonly from: string
}

/** One mail to one person. */
export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
  readonly html: string
  /** The same on every attempt: a mail program that gets it twice shows it once. */
  readonly messageId: string
  /** What mails about the same thing have in common: they are shown as one thread. */
  readonly thread: string
  readonly date: Date
}

/** Sends mail. */
export interface Smtp {
  /** Interrupted, it closes the connection that the mail was on. */
  readonly send: (mail: Mail) => Effect.Effect<AttemptOutcome>
}

/** Connections to the server at most: what the mail channel has under way. */
export const MAX_CONNECTIONS = 5

/** The longest wait for a connection and for the server's greeting, and the longest silence after. The engine cuts the whole off. */
const CONNECT_MILLIS = 5_000
const SILENCE_MILLIS = 8_000

/** A connection that nothing was sent on for so long is closed: servers do so, too, and less politely. */
const IDLE_MILLIS = 30_000

/** The longest answer of a server that is taken in. */
const ANSWER_BYTES = 64 * 1024

/** What nodemailer can be told in a URL's query, and must not be: it would write the conversation to the console. */
const SPEAKING = ["logger", "debug", "transactionLog"]

/**
 * Whether a login goes over TLS or not at all: everywhere but to this machine, unless the URL says `?requireTLS=false`. A server that
 * offers STARTTLS is taken at its word in any case.
 */
const mustEncrypt = (url: URL): boolean =>
  url.username !== "" && !["localhost", "127.0.0.1", "[::1]"].includes(url.hostname)

/** A pool of connections to the operator's mail server. It is not a tenant's choice, so it may be anywhere. */
export const makeSmtp = (settings: MailSettings): Effect.Effect<Smtp, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const url = new URL(Redacted.value(settings.url))
        for (const name of SPEAKING) url.searchParams.delete(name)
        return createTransport({
          pool: true,
          maxConnections: MAX_CONNECTIONS,
          // Of a connection that the server closed while it was idle; every other second try is the engine's.
          maxRequeues: 1,
          idleTimeout: IDLE_MILLIS,
          connectionTimeout: CONNECT_MILLIS,
          dnsTimeout: CONNECT_MILLIS,
          greetingTimeout: SILENCE_MILLIS,
          socketTimeout: SILENCE_MILLIS,
          socketCloseTimeout: 1_000,
          maxResponseSize: ANSWER_BYTES,
          requireTLS: mustEncrypt(url),
          url: url.href
        })
      }),
      (transport) => Effect.sync(() => transport.close())
    ),
    (transport) => ({
      send: ({ date, html, messageId, subject, text, thread, to }) =>
        Effect.match(
          Effect.tryPromise({
            try: (signal) =>
              transport.sendMail({
                from: settings.from,
                // Apart from a name the address is not parsed again.
                to: { name: "", address: to },
                subject,
                text,
                html,
                messageId,
                references: [thread],
                inReplyTo: thread,
                date,
                // RFC 3834: no machine answers this.
                headers: { "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All" },
                disableFileAccess: true,
                disableUrlAccess: true,
                signal
              }),
            catch: judge
          }),
          { onSuccess: (): AttemptOutcome => ({ _tag: "Delivered", status: 250 }), onFailure: identity }
        )
    })
  )

/** What of nodemailer's errors is looked at. What the server said is not: it may quote addresses, or the login. */
const Failure = Schema.Struct({
  code: Schema.optional(Schema.String),
  originalCode: Schema.optional(Schema.String),
  command: Schema.optional(Schema.String),
  responseCode: Schema.optional(Schema.Int)
})
const decodeFailure = Schema.decodeUnknownOption(Failure)

/**
 * What a failure makes of a mail. What the server says of this one mail, or its recipient, is this mail's alone: 4xx is tried again
 * (greylisting is answered so), 5xx is final (RFC 5321, 4.2.1). Everything else is the server's or the operator's, and may be mended.
 */
const judge = (error: unknown): AttemptOutcome => {
  const decoded = decodeFailure(error)
  const { code, command, originalCode, responseCode } = decoded._tag === "Some" ? decoded.value : {}
  const status = responseCode ?? null
  const named = (phrase: string): string => (status === null ? phrase : `SMTP ${status}: ${phrase}`)
  const again = (phrase: string): Extract<AttemptOutcome, { readonly _tag: "Retry" }> => ({
    _tag: "Retry",
    error: named(phrase),
    status,
    retryAfter: null
  })
  if (code === "EENVELOPE" || code === "EMESSAGE") {
    if (status === 421) return again("the mail server is closing")
    if (command === "MAIL FROM" && status !== null) return again("the mail server refused the sender")
    return status !== null && status < 500
      ? { ...again("the mail server put the mail off"), fault: "delivery" }
      : { _tag: "Failed", error: named("the mail server refused the mail"), status, fault: "delivery" }
  }
  switch (code) {
    case "EAUTH":
      return again("the mail server refused the login")
    case "ETLS":
      return again("TLS with the mail server could not be set up")
    case "EDNS":
      return again("the mail server's name could not be looked up")
    case "ETIMEDOUT":
      return again("the mail server did not answer in time")
    case "EPROTOCOL":
      return again(status === null ? "the mail server does not speak SMTP" : "the mail server takes no mail")
    case "ECONNECTION":
      return again("the mail server closed the connection")
    case "ESOCKET":
      return again(socketPhrase(originalCode))
    default:
      return again("the mail could not be sent")
  }
}

const socketPhrase = (code: string | undefined): string => {
  switch (code) {
    case "ECONNREFUSED":
      return "the mail server refused the connection"
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return "the mail server cannot be reached"
    case "ECONNRESET":
    case "EPIPE":
      return "the mail server closed the connection"
    default:
      if (code !== undefined && /CERT|SIGN|ALTNAME/.test(code))
        return "the mail server's TLS certificate is not trusted"
      return code !== undefined && /EPROTO|SSL|TLS/.test(code)
        ? "TLS with the mail server could not be set up"
        : "the connection to the mail server failed"
  }
}
