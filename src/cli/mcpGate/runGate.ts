import { Effect, Option, Redacted, Schema } from "effect"
import { createHash } from "node:crypto"
import { homedir } from "node:os"
import path from "node:path"
import { connect } from "../../client/connect.ts"
import { type Environment } from "../../server/config/Settings.ts"
import { ProcessEnvironment } from "../environment.ts"
import { escapeInvisible } from "../escapeInvisible.ts"
import { readMessageLines } from "../mcp/readLines.ts"
import { writeMessage } from "../mcp/stdio.ts"
import { gateKey, serverToken } from "../mcpGate.ts"
import { findSecret, SecretMissing } from "../secretFlag.ts"
import { readServiceKey, readServiceUrl } from "../serviceClient.ts"
import { startChildServer } from "./childServer.ts"
import { describe } from "./describe.ts"
import { connectHttpServer } from "./httpServer.ts"
import { makeMcpGate } from "./McpGate.ts"
import type { Connect } from "./Upstream.ts"

/** The flags of the command. */
export interface GateFlags {
  readonly service: Option.Option<string>
  readonly key: Option.Option<Redacted.Redacted>
  readonly keyFile: Option.Option<string>
  readonly url: Option.Option<string>
  readonly token: Option.Option<Redacted.Redacted>
  readonly tokenFile: Option.Option<string>
  readonly name: Option.Option<string>
  readonly prefix: string
  readonly actionClass: Readonly<Record<string, string>>
  readonly session: Option.Option<string>
  readonly state: Option.Option<string>
  readonly acceptChanges: boolean
  readonly consoleUrl: Option.Option<string>
  readonly command: ReadonlyArray<string>
}

/** The command line cannot be followed, or the gate ended before its client. */
export class GateTrouble extends Schema.TaggedError<GateTrouble>()("GateTrouble", {
  message: Schema.String
}) {}

/** The variables that the server's process does not get. */
const SECRET_VARIABLES = [gateKey.variable, serverToken.variable]

const without = (variables: Environment, names: ReadonlyArray<string>) =>
  Object.fromEntries(Object.entries(variables).filter(([name]) => !names.includes(name)))

/** The directory for data of the user's programs. */
const dataDirectory = (variables: Environment): string => {
  if (process.platform === "win32") {
    return variables["LOCALAPPDATA"] ?? path.join(homedir(), "AppData", "Local")
  }
  if (process.platform === "darwin") return path.join(homedir(), "Library", "Application Support")
  const configured = variables["XDG_DATA_HOME"] ?? ""
  return path.isAbsolute(configured) ? configured : path.join(homedir(), ".local", "share")
}

const parseUrl = (text: string, flag: string): Effect.Effect<URL, GateTrouble> => {
  const url = URL.parse(text)
  return url !== null && (url.protocol === "https:" || url.protocol === "http:")
    ? Effect.succeed(url)
    : Effect.fail(
        new GateTrouble({ message: `${flag} must be an http or https URL, such as https://mcp.example/mcp.` })
      )
}

/** The server behind the gate: how to connect to it, its name, and what tells it from others. */
const findServer = Effect.fnUntraced(function* (flags: GateFlags, variables: Environment) {
  const [command, ...args] = flags.command
  if (Option.isSome(flags.url) === (command !== undefined)) {
    return yield* new GateTrouble({
      message: "give either a command after --, such as -- npx -y some-mcp-server, or --url"
    })
  }
  if (Option.isSome(flags.url)) {
    const url = yield* parseUrl(flags.url.value, "--url")
    const found = yield* findSecret(serverToken, { text: flags.token, file: flags.tokenFile })
    const token = Option.getOrUndefined(Option.map(found, Redacted.value))
    const connectTo: Connect = (events) => connectHttpServer({ ...events, url, token })
    return { connectTo, name: url.host, identity: [url.href] }
  }
  const environment = without(variables, SECRET_VARIABLES)
  const connectTo: Connect = (events) =>
    startChildServer({ ...events, command: command ?? "", args, environment })
  return { connectTo, name: path.basename(command ?? ""), identity: [command ?? "", ...args] }
})

const log = (line: string): void => {
  process.stderr.write(`countersign mcp-gate: ${escapeInvisible(line)}\n`)
}

/** Runs the gate until its client closes the input, the server ends, or a signal comes. */
export const runGate = Effect.fnUntraced(function* (flags: GateFlags) {
  const { variables } = yield* ProcessEnvironment
  const key = yield* findSecret(gateKey, { text: flags.key, file: flags.keyFile })
  if (Option.isNone(key)) {
    return yield* new SecretMissing({
      message: "the API key is missing: set COUNTERSIGN_KEY, or use --key-file"
    })
  }
  const url = Option.isSome(flags.service)
    ? yield* readServiceUrl(flags.service.value, "--service")
    : yield* readServiceUrl(variables["COUNTERSIGN_URL"] ?? "http://127.0.0.1:8080", "COUNTERSIGN_URL")
  const server = yield* findServer(flags, variables)
  const state = Option.getOrElse(flags.state, () =>
    path.join(dataDirectory(variables), "countersign", "mcp-gate")
  )
  const identity = createHash("sha256")
    .update(JSON.stringify([url, ...server.identity]))
    .digest("hex")

  // One retry: a client waits for the answer, and the gate repeats what failed itself.
  const client = connect({ url, key: Redacted.value(yield* readServiceKey(key.value)), retries: 1 })
  yield* Effect.addFinalizer(() => Effect.promise(() => client.close()))
  const gate = yield* Effect.acquireRelease(
    makeMcpGate({
      client,
      key: Redacted.value(key.value),
      consoleUrl: Option.getOrElse(flags.consoleUrl, () => `${url}/console`).replace(/\/+$/, ""),
      server: Option.getOrElse(flags.name, () => server.name),
      prefix: flags.prefix,
      actionClasses: flags.actionClass,
      session: Option.getOrUndefined(flags.session),
      directory: path.join(path.resolve(state), identity.slice(0, 16)),
      acceptsChanges: flags.acceptChanges,
      connect: server.connectTo,
      write: writeMessage,
      log
    }).pipe(Effect.catchDefect((error) => new GateTrouble({ message: describe(error) }))),
    (gate) => gate.stop({ drain: false })
  )
  const receive = async () => {
    for await (const line of readMessageLines(process.stdin)) await Effect.runPromise(gate.receive(line))
  }
  receive()
    .catch((error: unknown) => log(`the client's messages cannot be read: ${String(error)}`))
    .finally(() => Effect.runFork(gate.stop({ drain: true })))
  const reason = yield* gate.ended
  if (reason !== undefined) return yield* new GateTrouble({ message: reason })
  return undefined
}, Effect.scoped)
