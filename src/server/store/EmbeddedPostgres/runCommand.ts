import { Effect } from "effect"
import { spawn } from "node:child_process"
import type { Account } from "./Account.ts"

/**
 * The environment of the server and its tools: none of ours, which holds secrets, and messages in English, because
 * they are read.
 */
export const childEnvironment = (): NodeJS.ProcessEnv => {
  const kept: NodeJS.ProcessEnv = { LC_ALL: "C", TZ: "UTC" }
  for (const name of ["PATH", "LD_LIBRARY_PATH", "TMPDIR", "SystemRoot", "TEMP", "TMP"]) {
    const value = process.env[name]
    if (value !== undefined) kept[name] = value
  }
  return kept
}

/** Most output kept of one tool, in bytes; the beginning is kept. */
const OUTPUT_LIMIT = 64 * 1024

/** A tool to run, and as whom: `account` undefined is this process's own. */
export interface Command {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly account: Account | undefined
  readonly cwd?: string
  readonly input?: string
  /** Whether to keep standard output too. Standard error is always kept. */
  readonly capture?: boolean
}

/** Node reports some failures of `spawn` by an event and some, such as EPERM of a change of account, by throwing. */
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
 * Runs a tool to its end: its exit code (`undefined` where a signal ended it or it could not be started) and the
 * beginning of what it wrote. Interruption kills it.
 *
 * Node's own `spawn`: the tools of PostgreSQL run under another uid and gid, which Effect's spawner does not offer.
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
    // A tool that ends before it has read its input is reported by its exit code.
    child.stdin?.on("error", () => {})
    child.stdin?.end(options.input ?? "")
    return Effect.sync(() => {
      child.kill("SIGKILL")
    })
  })
