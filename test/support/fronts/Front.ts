import { Effect, type Scope } from "effect"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import path from "node:path"
import { eventually } from "../eventually.ts"

/** The organization that the configurations name, and one that they do not, by the domain of both. */
export const DOMAIN = "countersign.example"
export const ACME = `acme.${DOMAIN}`
export const NEIGHBOUR = `neighbour.${DOMAIN}`

export type Cell = "cell1" | "cell2"

/** A running front with a configuration of `scripts/deploy`, before two services on this machine. */
export interface Front {
  readonly port: number
  /** What it has logged of its requests. */
  readonly log: () => string
  /** Sends the requests to {@link ACME} to a cell from now on, as an operator would. */
  readonly routeAcme: (cell: Cell) => Effect.Effect<void>
}

/** How a front is started. */
export interface FrontOptions {
  /** The base URLs of the services. */
  readonly cells: Readonly<Record<Cell, string>>
  /** In place of the host names {@link ACME} and those of all others, for clients that must resolve them. */
  readonly hosts?: { readonly acme: string; readonly others: string }
}

/** A program that can be a front. */
export interface FrontProgram {
  readonly name: string
  /** The reason why it cannot be run here; undefined if it can. */
  readonly missing: string | undefined
  /** Part of the log of a request that no replica could be chosen for, since all of the cell have failed their health checks. */
  readonly unreached: RegExp
  readonly start: (options: FrontOptions) => Effect.Effect<Front, never, Scope.Scope>
}

/** Starts a front's program, which is killed with the scope. Returns what it has printed. */
export const spawnFront = (program: string, args: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.sync(() => spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] })),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  ).pipe(
    Effect.map((child) => {
      const printed: Array<string> = []
      child.stdout.setEncoding("utf8").on("data", (text: string) => printed.push(text))
      return () => printed.join("")
    })
  )

/** A directory for a front's files, which is removed with the scope. */
export const frontDirectory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-front-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
)

/** Waits until a front answers with the readiness of the cell of a host name. */
export const untilReady = (port: number, host: string) =>
  eventually(
    Effect.callback<number>((resume) => {
      const sent = request({ port, host: "127.0.0.1", path: "/readyz", headers: { host } }, (response) => {
        response.resume()
        resume(Effect.succeed(response.statusCode ?? 0))
      })
      sent.on("error", () => resume(Effect.succeed(0)))
      sent.end()
    }),
    (status) => status === 200
  ).pipe(Effect.orDie)
