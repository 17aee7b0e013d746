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

/** A data directory of its own; removed afterwards with whatever still runs in it. */
export const dataDirectory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(makeDirectory),
  (made) => Effect.promise(() => removeDirectory(made))
)

let used: Promise<string> | undefined

/**
 * The data directory of one test file, for tests that do not mind what was in it: making a cluster takes a second or two.
 * No server runs in it when a test begins.
 */
export const reusedDirectory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(() => (used ??= makeDirectory())),
  (dataDir) => Effect.promise(() => endServer(dataDir))
)

/** To be run after the last test of a file that used it. */
export const removeReusedDirectory = async (): Promise<void> => {
  if (used !== undefined) await removeDirectory(await used)
}

/** The process id of the server of a data directory, from its pid file; `undefined` where no server has a claim. */
export const readPostmasterPid = async (dataDir: string): Promise<number | undefined> => {
  try {
    return Number.parseInt(await readFile(path.join(dataDir, "postgres", "postmaster.pid"), "utf8"), 10)
  } catch {
    return undefined
  }
}

/** Whether a process exists; a signal may be sent along. */
export const sendSignal = (pid: number, signal: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}

/** A holder that could not use the store; `phrase` is what it told the operator. */
export class ServiceProcessFailed extends Data.TaggedError("HolderFailed")<{ readonly phrase: string }> {}

/** Another process that uses the store of a data directory. */
export interface ServiceProcess {
  readonly child: ChildProcess
  /** Waits until it uses the store. */
  readonly ready: Effect.Effect<void, ServiceProcessFailed>
  /** Sends a signal and waits for the end; answers with the exit code. */
  readonly end: (signal: NodeJS.Signals) => Effect.Effect<number | null>
}

const script = fileURLToPath(new URL("embeddedPostgresService.ts", import.meta.url))

/** Starts one, as another account where `account` names it; killed when the scope closes. */
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

/** Runs one statement over a connection of its own and answers with its rows. */
export const query = (url: Redacted.Redacted, sql: string) =>
  Effect.scoped(
    Effect.map(
      Effect.flatMap(PgConnection.make({ url }), (connection) => connection.query(sql)),
      ({ rows }) => rows
    )
  )
