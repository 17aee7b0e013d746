import { Effect } from "effect"
import { spawn } from "node:child_process"
import type { Account } from "./Account.ts"

/**
 * The environment of the server and its tools: without this process's variables, which contain secrets, and with
 * messages in English, because their output is parsed.
 */
export const childEnvironment = (): NodeJS.ProcessEnv => {
  const kept: NodeJS.ProcessEnv = { LC_ALL: "C", TZ: "UTC" }
  for (const name of ["PATH", "LD_LIBRARY_PATH", "TMPDIR", "SystemRoot", "TEMP", "TMP"]) {
    const value = process.env[name]
    if (value !== undefined) kept[name] = value
  }
  return kept
}

/** Longest output that is kept, in characters. The beginning is kept. */
const OUTPUT_LIMIT = 64 * 1024

/** A command to run. */
export interface Command {
  readonly command: string
  readonly args: ReadonlyArray<string>
  /** Undefined: the account of this process. */
  readonly account: Account | undefined
  readonly cwd?: string
  readonly input?: string
  /** Whether standard output is kept too. Standard error always is. */
  readonly capture?: boolean
}

/** Node reports some failures of `spawn` by an event and throws others, such as EPERM for a change of account. */
const attemptSpawn = (options: Command) => {
  try {
    return spawn(options.command, options.args, {
      stdio: ["pipe", options.capture === true ? "pipe" : "ignore", "pipe"],
      env: childEnvironment(),
      windowsHide: true,
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.account === undefined ? {} : { uid: options.account.uid, gid: options.account.gid })
    })
  } catch (cause) {
    return cause instanceof Error ? cause.message : String(cause)
  }
}

/**
 * Runs a command to its end. Returns its exit code, `undefined` if a signal ended it or it could not be started, and the beginning of its
 * output. Interruption kills it.
 *
 * It uses Node's `spawn`, because PostgreSQL's tools run under another uid and gid, which Effect's spawner does not support.
 */
export const runCommand = (
  options: Command
): Effect.Effect<{ readonly code: number | undefined; readonly output: string }> =>
  Effect.callback((resume) => {
    const child = attemptSpawn(options)
    if (typeof child === "string") return resume(Effect.succeed({ code: undefined, output: child }))
    let output = ""
    const keep = (chunk: Buffer) => {
      if (output.length < OUTPUT_LIMIT) output += chunk.toString("utf8")
    }
    child.stdout?.on("data", keep)
    child.stderr?.on("data", keep)
    child.once("error", (cause) => resume(Effect.succeed({ code: undefined, output: cause.message })))
    child.once("close", (code) => resume(Effect.succeed({ code: code ?? undefined, output })))
    // A command that ends before it has read its input fails by its exit code.
    child.stdin?.on("error", () => {})
    child.stdin?.end(options.input ?? "")
    return Effect.sync(() => {
      child.kill("SIGKILL")
    })
  })
