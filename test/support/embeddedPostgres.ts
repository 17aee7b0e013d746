import { PgConnection } from "@effect/sql-pg"
import { Data, Effect, type Redacted, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"

const endServer = async (dataDir: string) => {
  const pid = await readPostmasterPid(dataDir)
  if (pid !== undefined) sendSignal(pid, "SIGKILL")
}

const removeDirectory = async (dataDir: string) => {
  await endServer(dataDir)
  await rm(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
}

const makeDirectory = () => mkdtemp(path.join(tmpdir(), "countersign-embedded-"))

/** A temporary data directory, removed with its server when the scope closes. */
export const dataDirectory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(makeDirectory),
  (made) => Effect.promise(() => removeDirectory(made))
)

let used: Promise<string> | undefined

/**
 * A data directory shared by the tests of one file, because creating a cluster takes a second or two. No server runs in
 * it when a test begins.
 */
export const reusedDirectory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(() => (used ??= makeDirectory())),
  (dataDir) => Effect.promise(() => endServer(dataDir))
)

/** Removes the shared data directory, after the last test of a file. */
export const removeReusedDirectory = async (): Promise<void> => {
  const last = used
  // The next file of this process makes its own.
  used = undefined
  if (last !== undefined) await removeDirectory(await last)
}

/** The process id of the server of a data directory, from its pid file; `undefined` if there is none. */
export const readPostmasterPid = async (dataDir: string): Promise<number | undefined> => {
  try {
    return Number.parseInt(await readFile(path.join(dataDir, "postgres", "postmaster.pid"), "utf8"), 10)
  } catch {
    return undefined
  }
}

/** Sends a signal, or 0 to test whether the process exists. Returns whether it exists. */
export const sendSignal = (pid: number, signal: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}

/** A service process that could not use the server, with its phrase for the operator. */
export class ServiceProcessFailed extends Data.TaggedError("HolderFailed")<{ readonly phrase: string }> {}

/** Another process that uses the embedded server of a data directory. */
export interface ServiceProcess {
  readonly child: ChildProcess
  /** Waits until it has connected. */
  readonly ready: Effect.Effect<void, ServiceProcessFailed>
  /** Sends a signal, waits for the process to end and returns its exit code. */
  readonly end: (signal: NodeJS.Signals) => Effect.Effect<number | null>
}

const script = fileURLToPath(new URL("embeddedPostgresService.ts", import.meta.url))

/** Starts a service process, optionally as another account. It is killed when the scope closes. */
export const startServiceProcess = (
  dataDir: string,
  account?: { readonly uid: number; readonly gid: number }
): Effect.Effect<ServiceProcess, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [script, dataDir], {
        stdio: ["ignore", "pipe", "inherit"],
        cwd: tmpdir(),
        ...account
      })
      const first = new Promise<string>((resolve) => {
        let text = ""
        child.stdout.on("data", (chunk: Buffer) => {
          text += chunk.toString("utf8")
          if (/^(ready|failed)/m.test(text) && text.endsWith("\n")) resolve(text.trim())
        })
        child.once("close", () => resolve(text.trim()))
      })
      const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)))
      return {
        child,
        ready: Effect.flatMap(
          Effect.promise(() => first),
          (line) => (/^ready$/m.test(line) ? Effect.void : new ServiceProcessFailed({ phrase: line }))
        ),
        end: (signal: NodeJS.Signals) =>
          Effect.promise(() => {
            child.kill(signal)
            return ended
          })
      }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

/** Runs one statement on a new connection and returns its rows. */
export const query = (url: Redacted.Redacted, sql: string) =>
  Effect.scoped(
    Effect.map(
      Effect.flatMap(PgConnection.make({ url }), (connection) => connection.query(sql)),
      ({ rows }) => rows
    )
  )
