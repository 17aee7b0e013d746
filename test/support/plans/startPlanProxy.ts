import { Effect, Redacted, Schema, type Scope } from "effect"
import { connect as dial, createServer, type Socket } from "node:net"
import { listenOnFreePort } from "../listenOnFreePort.ts"

/** A node of a plan that was executed, with its actual figures. */
export interface PlanNode {
  readonly "Node Type": string
  readonly "Relation Name"?: string | undefined
  readonly "Index Name"?: string | undefined
  readonly "Actual Rows": number
  readonly "Actual Loops": number
  readonly "Rows Removed by Filter"?: number | undefined
  readonly "Rows Removed by Index Recheck"?: number | undefined
  readonly Plans?: ReadonlyArray<PlanNode> | undefined
}

const PlanNode = Schema.Struct({
  "Node Type": Schema.String,
  "Relation Name": Schema.optional(Schema.String),
  "Index Name": Schema.optional(Schema.String),
  "Actual Rows": Schema.Number,
  "Actual Loops": Schema.Number,
  "Rows Removed by Filter": Schema.optional(Schema.Number),
  "Rows Removed by Index Recheck": Schema.optional(Schema.Number),
  Plans: Schema.optional(Schema.Array(Schema.suspend((): Schema.Codec<PlanNode> => PlanNode)))
})

/** A statement that the service sent, or that a function of the database ran for it, and its plan. */
const ExecutedStatement = Schema.Struct({ "Query Text": Schema.String, Plan: PlanNode })
export type ExecutedStatement = typeof ExecutedStatement.Type

const decodeStatement = Schema.decodeUnknownSync(Schema.fromJsonString(ExecutedStatement))

/** A proxy in front of a database that reports the plan of each statement that ran through it. */
export interface PlanProxy {
  /** The URL of the database through the proxy. */
  readonly url: Redacted.Redacted
  /** The statements since the last call. */
  readonly take: () => ReadonlyArray<ExecutedStatement>
}

/** Settings of a database whose sessions send the plan of each statement to their client as a notice, with the rows that each node read. */
export const planSettings: Readonly<Record<string, string>> = {
  session_preload_libraries: "auto_explain",
  "auto_explain.log_min_duration": "0",
  "auto_explain.log_analyze": "on",
  "auto_explain.log_timing": "off",
  "auto_explain.log_format": "json",
  "auto_explain.log_nested_statements": "on",
  "auto_explain.log_level": "notice"
}

/** Type bytes of the protocol's messages from the server. */
const NOTICE = "N".charCodeAt(0)

/** Reads the server's messages from chunks of bytes, and calls `onNotice` with the text of each notice. */
const readNotices = (onNotice: (text: string) => void) => {
  let rest = Buffer.alloc(0)
  return (chunk: Buffer): void => {
    rest = Buffer.concat([rest, chunk])
    // One type byte, then the length of the rest of the message, which counts itself.
    for (let size = 0; rest.length >= 5 && rest.length >= (size = 1 + rest.readUInt32BE(1));) {
      if (rest[0] === NOTICE) {
        const fields = rest.toString("utf8", 5, size).split("\0")
        onNotice(fields.find((field) => field.startsWith("M"))?.slice(1) ?? "")
      }
      rest = rest.subarray(size)
    }
  }
}

/** Starts a proxy in front of a database with `planSettings`. */
export const startPlanProxy = (url: Redacted.Redacted): Effect.Effect<PlanProxy, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const target = new URL(Redacted.value(url))
      const host = target.searchParams.get("host")
      const port = Number(target.searchParams.get("port") ?? (target.port || "5432"))
      const sockets = new Set<Socket>()
      let statements: Array<ExecutedStatement> = []
      const server = createServer((client) => {
        const database = host?.startsWith("/")
          ? dial(`${host}/.s.PGSQL.${port}`)
          : dial(port, host ?? target.hostname)
        const read = readNotices((text) => {
          const plan = text.indexOf("plan:\n")
          if (plan >= 0) statements.push(decodeStatement(text.slice(plan + "plan:\n".length)))
        })
        database.on("data", read)
        for (const [socket, other] of [
          [client, database],
          [database, client]
        ] as const) {
          sockets.add(socket)
          socket.pipe(other)
          socket.on("error", () => other.destroy())
          socket.on("close", () => other.destroy())
        }
      })
      const through = new URL(target)
      // In the query, because the URL of a Unix socket has no authority to set a host and port in.
      through.searchParams.set("host", "127.0.0.1")
      through.searchParams.set("port", String(await listenOnFreePort(server)))
      through.searchParams.set("sslmode", "disable")
      const take = () => {
        const taken = statements
        statements = []
        return taken
      }
      return { proxy: { url: Redacted.make(through.href), take }, server, sockets }
    }),
    ({ server, sockets }) =>
      Effect.sync(() => {
        server.close()
        for (const socket of sockets) socket.destroy()
      })
  ).pipe(Effect.map(({ proxy }) => proxy))
