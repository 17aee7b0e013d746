/** Starts the gate in front of a server of the tests, with a client of an official SDK. */
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { Effect } from "effect"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { entryPoint } from "../../support/process.ts"
import type { GovernedRun } from "../governedRun.ts"

/** What a call returns, as a test compares it. */
export interface CallOutcome {
  readonly text: string
  readonly isError: boolean
  readonly meta: Readonly<Record<string, unknown>>
}

/** A client of the gate. */
export interface GateClient {
  readonly pid: number
  readonly call: (
    tool: string,
    args?: Record<string, unknown>,
    options?: {
      readonly timeout?: number
      readonly signal?: AbortSignal
      readonly onProgress?: (message: string) => void
    }
  ) => Promise<CallOutcome>
  readonly tools: () => Promise<
    ReadonlyArray<{ readonly name: string; readonly description?: string | undefined }>
  >
  /** Links that the gate asked the client to show. */
  readonly links: Array<string>
  /** What the gate has written to stderr. */
  readonly log: () => string
  readonly close: () => Promise<void>
  /** The client itself, for everything else. */
  readonly newest: Client
}

/** Versions of client and server. */
export type Side = "old" | "newest"

export interface GateWorld {
  readonly directory: string
  /** The lines that the server has written of what it executed. */
  readonly executed: () => ReadonlyArray<string>
  /** Name of the file whose text is the description of `refund`. */
  readonly description: string
  readonly start: (options?: {
    readonly client?: "stateless" | "initialize" | "old"
    readonly server?: Side
    readonly flags?: ReadonlyArray<string>
    readonly url?: string
    readonly decline?: boolean
  }) => Promise<GateClient>
}

const outcomeOf = (result: unknown): CallOutcome => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the SDK has validated it
  const { _meta, content, isError } = result as {
    content: ReadonlyArray<{ text?: string }>
    isError?: boolean
    _meta?: Record<string, unknown>
  }
  return {
    text: content.map(({ text = "" }) => text).join("\n"),
    isError: isError === true,
    meta: _meta ?? {}
  }
}

/** A directory of the test's own, in which gates are started for a run. */
export const gateWorld = (run: Pick<GovernedRun, "key" | "url">) =>
  Effect.gen(function* () {
    const directory = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-gate-"))),
      (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
    )
    const closers: Array<() => Promise<void>> = []
    yield* Effect.addFinalizer(() => Effect.promise(() => Promise.all(closers.map((close) => close()))))
    const executedFile = path.join(directory, "executed")
    const description = path.join(directory, "description")

    const start: GateWorld["start"] = async ({
      client: kind = "initialize",
      decline = false,
      flags = [],
      server = "newest",
      url
    } = {}) => {
      const program = server === "old" ? "oldServer.ts" : "server.ts"
      const parameters = {
        command: process.execPath,
        args: [
          entryPoint(),
          "mcp-gate",
          "--service",
          url ?? run.url,
          "--state",
          path.join(directory, "state"),
          ...flags,
          ...(flags.includes("--url")
            ? []
            : ["--", process.execPath, fileURLToPath(new URL(program, import.meta.url))])
        ],
        env: {
          PATH: process.env["PATH"] ?? "",
          NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "",
          COUNTERSIGN_KEY: run.key,
          EXECUTED: executedFile,
          DESCRIPTION: description
        },
        stderr: "pipe" as const
      }
      let log = ""
      const links: Array<string> = []
      const newest = new Client(
        { name: "tests", version: "1.0.0" },
        {
          capabilities: { elicitation: kind === "stateless" ? { url: {} } : {} },
          versionNegotiation: { mode: kind === "stateless" ? "auto" : "legacy" }
        }
      )
      if (kind === "stateless") {
        newest.setRequestHandler("elicitation/create", ({ params }) => {
          if (params.mode === "url") links.push(params.url)
          return { action: decline ? "decline" : "accept" }
        })
      }
      const old = new OldClient({ name: "old tests", version: "1.0.0" })
      const transport = kind === "old" ? new OldTransport(parameters) : new StdioClientTransport(parameters)
      transport.stderr?.on("data", (chunk: unknown) => (log += String(chunk)))
      await (transport instanceof OldTransport ? old.connect(transport) : newest.connect(transport))
      const close = () => (kind === "old" ? old.close() : newest.close())
      closers.push(close)
      return {
        newest,
        pid: transport.pid ?? 0,
        links,
        log: () => log,
        close,
        tools: async () => (kind === "old" ? await old.listTools() : await newest.listTools()).tools,
        call: async (name, args = {}, { onProgress, signal, timeout = 60_000 } = {}) => {
          const options = {
            timeout,
            resetTimeoutOnProgress: true,
            ...(signal === undefined ? {} : { signal }),
            ...(onProgress === undefined
              ? {}
              : { onprogress: ({ message = "" }: { message?: string | undefined }) => onProgress(message) })
          }
          return outcomeOf(
            kind === "old"
              ? await old.callTool({ name, arguments: args }, undefined, options)
              : await newest.callTool({ name, arguments: args }, options)
          )
        }
      }
    }
    const world: GateWorld = {
      directory,
      description,
      start,
      executed: () => {
        try {
          return readFileSync(executedFile, "utf8").trim().split("\n")
        } catch {
          return []
        }
      }
    }
    return world
  })
