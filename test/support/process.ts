import { Effect, type Scope } from "effect"
import { spawn } from "node:child_process"
import type { Readable } from "node:stream"
import { fileURLToPath } from "node:url"
import { setup } from "../../scripts/setup.js"

/** Exit code and output of a terminated process. */
export interface ProcessExit {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** The CLI in a child process. */
export interface CliProcess {
  readonly pid: number
  /** Returns the stdout so far once it matches. Fails if the process exits before. */
  readonly waitForStdout: (pattern: RegExp) => Effect.Effect<string>
  /** The same for stderr. */
  readonly waitForStderr: (pattern: RegExp) => Effect.Effect<string>
  /** Writes to stdin. */
  readonly write: (text: string) => Effect.Effect<void>
  /** Closes stdin. */
  readonly close: Effect.Effect<void>
  readonly ended: Effect.Effect<ProcessExit>
  readonly kill: (signal: NodeJS.Signals) => Effect.Effect<void>
}

let built: string | undefined

/** The entry point of the bundle that `npm start` runs, or of the sources: a bundle starts in a quarter of the time. */
export const entryPoint = (): string =>
  (built ??= setup({ withConsole: false }) ?? fileURLToPath(new URL("../../src/main.ts", import.meta.url)))

/**
 * Starts `countersign <args>` with only PATH, the directory of compiled code and the given environment variables. Killed when the scope
 * closes.
 */
export const spawnCli = (
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>> = {},
  program: string = entryPoint(),
  account: { readonly uid?: number; readonly gid?: number } = {}
): Effect.Effect<CliProcess, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [program, ...args], {
          ...account,
          stdio: ["pipe", "pipe", "pipe"],
          env: {
            PATH: process.env["PATH"],
            NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
            ...environment
          }
        })
      ),
      (child) =>
        Effect.callback<void>((resume) => {
          if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
          child.once("exit", () => resume(Effect.void))
          child.kill("SIGKILL")
        })
    ),
    (child) => {
      let out = ""
      let err = ""
      child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text))
      child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text))
      const ended = new Promise<ProcessExit>((done) =>
        child.once("close", (code) => done({ code, out, err }))
      )
      // Writing to a killed process fails.
      child.stdin.on("error", () => undefined)
      const matched = (stream: Readable, soFar: () => string) => (pattern: RegExp) =>
        Effect.promise(
          () =>
            new Promise<string>((done, fail) => {
              const look = () => {
                if (!pattern.test(soFar())) return
                stream.off("data", look)
                done(soFar())
              }
              stream.on("data", look)
              void ended.then(() => fail(new Error(`ended without ${pattern}: ${out}${err}`)))
              look()
            })
        )
      return {
        pid: child.pid ?? 0,
        waitForStdout: matched(child.stdout, () => out),
        waitForStderr: matched(child.stderr, () => err),
        write: (text) => Effect.sync(() => void child.stdin.write(text)),
        close: Effect.sync(() => void child.stdin.end()),
        ended: Effect.promise(() => ended),
        kill: (signal) => Effect.sync(() => void child.kill(signal))
      }
    }
  )
