import { Deferred, Effect, Option } from "effect"
import { type ChildProcessByStdio, spawn } from "node:child_process"
import type { Readable, Writable } from "node:stream"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { forwardedMessage, type RpcMessage } from "../mcp/jsonRpc.ts"
import { readMessageLines } from "../mcp/readLines.ts"
import { NotExecuted, SendFailed, type SendOptions, type UpstreamEvents } from "./Upstream.ts"

/** How long the server may take to end after its input was closed, and again after each signal. */
const GRACE_MILLIS = 2_000

export interface ChildServerOptions extends UpstreamEvents {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Why a command could not be started, and what to do. */
const describeStart = (command: string, error: Error): string => {
  switch (errnoCode(error)) {
    case "ENOENT":
      return `The command ${command} does not exist: check its name and the variable PATH.`
    case "EACCES":
      return `The command ${command} cannot be executed: check that it is a program, and its permissions.`
    default:
      return `The command ${command} cannot be started: ${error.message}`
  }
}

/** Starts an MCP server as a child process, which reads messages from its input and writes them to its output, one a line. */
export const startChildServer = Effect.fnUntraced(function* (options: ChildServerOptions) {
  const { args, command, environment, log, onEnd, onMessage } = options
  const ended = yield* Deferred.make<void>()
  const end = (reason: string): void => {
    if (Deferred.isDoneUnsafe(ended)) return
    // The reason is known before the scope is closed.
    onEnd(reason)
    Deferred.doneUnsafe(ended, Effect.void)
  }
  const start = Effect.callback<ChildProcessByStdio<Writable, Readable, null>>((resume) => {
    const child = spawn(command, args, {
      stdio: ["pipe", "pipe", "inherit"],
      env: environment,
      // `npx` is a batch file on Windows.
      shell: process.platform === "win32",
      windowsHide: true
    })
    child.once("spawn", () => resume(Effect.succeed(child)))
    child.once("error", (error) => {
      if (child.pid === undefined) resume(Effect.die(new Error(describeStart(command, error))))
      else end(`The MCP server failed: ${error.message}.`)
    })
    child.once("exit", (code, signal) =>
      // Its last messages may still be in the pipe.
      child.once("close", () => {
        end(`The MCP server ended ${signal === null ? `with exit code ${String(code)}` : `by ${signal}`}.`)
      })
    )
    // A write to a server that is gone: its end tells.
    child.stdin.on("error", (error) => log(`the server's input: ${error.message}`))
  })
  const child = yield* Effect.acquireRelease(
    start,
    Effect.fnUntraced(function* (running) {
      running.stdin.end()
      for (const signal of ["SIGTERM", "SIGKILL", undefined] as const) {
        if (Option.isSome(yield* Effect.timeoutOption(Deferred.await(ended), GRACE_MILLIS))) return
        if (signal !== undefined) running.kill(signal)
      }
    })
  )
  const read = async () => {
    for await (const line of readMessageLines(child.stdout)) await onMessage(line)
  }
  read().catch((error: unknown) => {
    log(`the server's output cannot be read: ${String(error)}`)
    child.kill("SIGKILL")
  })

  const write = (message: RpcMessage) =>
    Effect.callback<void, SendFailed>((resume) => {
      if (Deferred.isDoneUnsafe(ended) || !child.stdin.writable)
        return resume(Effect.fail(new SendFailed({ cause: new NotExecuted("the MCP server has ended") })))
      child.stdin.write(`${forwardedMessage(message)}\n`, (error) =>
        resume(
          error === null || error === undefined ? Effect.void : Effect.fail(new SendFailed({ cause: error }))
        )
      )
    })

  return {
    send: (message: RpcMessage, { confirm = Effect.void }: SendOptions = {}) =>
      Effect.andThen(confirm, write(message))
  }
})
