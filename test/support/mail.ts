import { Effect, type Scope } from "effect"
import { SMTPServer, type SMTPServerOptions } from "smtp-server"
import type { Identity } from "./ca.ts"
import { listenOnFreePort } from "./listenOnFreePort.ts"

/** A mail that the server accepted. */
export interface ReceivedMail {
  readonly from: string
  readonly to: ReadonlyArray<string>
  /** Whether it was sent over TLS, and by which logged-in user. */
  readonly secure: boolean
  readonly user: string | undefined
  /** The unparsed message, as latin1 text. */
  readonly raw: string
  /** Unfolded and decoded, by lower-case name; the last of several. */
  readonly headers: ReadonlyMap<string, string>
  /** Header names in the order of the message. */
  readonly headerNames: ReadonlyArray<string>
  readonly text: string
  readonly html: string
}

/** Behaviour of the server. A number is the SMTP status with which it rejects. */
export interface MailServerOptions {
  readonly tls?: Identity
  /** TLS from the first byte instead of STARTTLS. */
  readonly implicitTls?: boolean
  readonly login?: {
    readonly user: string
    readonly password: string
    /** Logins that are rejected first, with a text that repeats user and password. */
    readonly refusals?: number
  }
  /** For each connection, counted from 1; "never" sends no greeting. */
  readonly connect?: (nth: number) => number | "never" | undefined
  readonly sender?: () => number | undefined
  /** For each RCPT TO, counted from 1. */
  readonly recipient?: (address: string, nth: number) => number | undefined
  /** For each message, counted from 1; "never" sends no reply. */
  readonly message?: (nth: number) => number | "never" | undefined
}

/** The text of every rejection. It must not appear in logs or outcomes. */
export const REFUSAL_TEXT = "go away, mallory@example.net"

const refusal = (status: number, text = REFUSAL_TEXT) =>
  Object.assign(new Error(text), { responseCode: status })

/** Starts an SMTP server on loopback. */
export const mailServer = (
  options: MailServerOptions = {}
): Effect.Effect<
  {
    readonly port: number
    readonly received: Array<ReceivedMail>
    /** Resolves when `count` mails have arrived. */
    readonly arrived: (count: number) => Promise<void>
    /** Addresses of every RCPT TO, including rejected ones. */
    readonly named: Array<string>
    readonly connections: () => number
    /** Resolves when the server withholds a reply ("never") for the first time. */
    readonly hanging: Promise<void>
  },
  never,
  Scope.Scope
> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { login, tls } = options
      const received: Array<ReceivedMail> = []
      const named: Array<string> = []
      const waiting: Array<{ readonly count: number; readonly done: () => void }> = []
      let hang = () => {}
      const hanging = new Promise<void>((done) => (hang = done))
      let connections = 0
      let messages = 0
      let logins = 0
      const answer = (status: number | "never" | undefined, done: (error?: Error) => void) => {
        if (status === "never") hang()
        else done(status === undefined ? undefined : refusal(status))
      }
      const settings: SMTPServerOptions = {
        disabledCommands: [
          ...(tls === undefined ? ["STARTTLS"] : []),
          ...(login === undefined ? ["AUTH"] : [])
        ],
        ...tls,
        secure: options.implicitTls === true,
        authOptional: login === undefined,
        allowInsecureAuth: true,
        disableReverseLookup: true,
        logger: false,
        closeTimeout: 100,
        onConnect: (_session, done) => {
          connections++
          answer(options.connect?.(connections), done)
        },
        onAuth: ({ password, username }, _session, done) => {
          if (++logins <= (login?.refusals ?? 0)) return done(refusal(535, `${username} ${password}`))
          return username === login?.user && password === login?.password
            ? done(null, { user: username })
            : done(refusal(535))
        },
        onMailFrom: (_address, _session, done) => answer(options.sender?.(), done),
        onRcptTo: ({ address }, _session, done) => {
          named.push(address)
          answer(options.recipient?.(address, named.length), done)
        },
        onData: (stream, session, done) => {
          const chunks: Array<Buffer> = []
          stream.on("data", (chunk: Buffer) => chunks.push(chunk))
          stream.on("end", () => {
            const status = options.message?.(++messages)
            if (status !== undefined) return answer(status, done)
            const { mailFrom, rcptTo } = session.envelope
            received.push({
              from: mailFrom === false ? "" : mailFrom.address,
              to: rcptTo.map(({ address }) => address),
              secure: session.secure,
              user: session.user,
              ...readMail(Buffer.concat(chunks).toString("latin1"))
            })
            done()
            for (const { count, done } of waiting) if (received.length >= count) done()
          })
        }
      }
      const server = new SMTPServer(settings)
      // Connection errors are caused by the test itself.
      server.on("error", () => {})
      const port = await listenOnFreePort(server.server)
      const arrived = (count: number) =>
        new Promise<void>((done) => (received.length >= count ? done() : waiting.push({ count, done })))
      return { server, port, received, arrived, named, hanging, connections: () => connections }
    }),
    ({ server }) => Effect.promise(() => new Promise<void>((done) => server.close(done)))
  )

const readMail = (raw: string) => {
  const { body, headerNames, headers } = readPart(raw)
  const boundary = /boundary="([^"]+)"/.exec(headers.get("content-type") ?? "")?.[1]
  const parts =
    boundary === undefined
      ? []
      : body
          .split(`--${boundary}`)
          .slice(1, -1)
          .map((part) => readPart(part.replace(/^\r\n/, "")))
  const of = (type: string) => {
    const part = parts.find(({ headers }) => headers.get("content-type")?.startsWith(type) === true)
    return part === undefined ? "" : decode(part.body, part.headers.get("content-transfer-encoding") ?? "")
  }
  return { raw, headers, headerNames, text: of("text/plain"), html: of("text/html") }
}

const readPart = (part: string) => {
  const end = part.indexOf("\r\n\r\n")
  const lines = part
    .slice(0, end)
    .replace(/\r\n[ \t]+/g, " ")
    .split("\r\n")
  const pairs = lines.map(
    (line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()] as const
  )
  return {
    headers: new Map(pairs.map(([name, value]) => [name.toLowerCase(), decodeWords(value)])),
    headerNames: pairs.map(([name]) => name.toLowerCase()),
    body: part.slice(end + 4)
  }
}

const quotedPrintable = (text: string): Buffer =>
  Buffer.from(
    text
      .replace(/=\r\n/g, "")
      .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1"
  )

const decode = (body: string, encoding: string): string =>
  (encoding === "base64"
    ? Buffer.from(body, "base64")
    : encoding === "quoted-printable"
      ? quotedPrintable(body)
      : Buffer.from(body, "latin1")
  )
    .toString()
    .replaceAll("\r\n", "\n")

/** RFC 2047. */
const decodeWords = (value: string): string =>
  value
    .replace(/\?= =\?/g, "?==?")
    .replace(/=\?utf-8\?([BQ])\?([^?]*)\?=/gi, (_, kind: string, text: string) =>
      (kind.toUpperCase() === "B"
        ? Buffer.from(text, "base64")
        : quotedPrintable(text.replaceAll("_", " "))
      ).toString()
    )
