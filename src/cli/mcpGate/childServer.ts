import { spawn } from "node:child_process"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { forwardedMessage } from "../mcp/jsonRpc.ts"
import { readMessageLines } from "../mcp/readLines.ts"
import { NotExecuted, type Upstream, type UpstreamEvents } from "./Upstream.ts"

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
export const startChildServer = (options: ChildServerOptions): Promise<Upstream> =>
  new Promise((resolve, reject) => {
    const { args, command, environment, log, onEnd, onMessage } = options
    const child = spawn(command, args, {
      stdio: ["pipe", "pipe", "inherit"],
      env: environment,
      // `npx` is a batch file on Windows.
      shell: process.platform === "win32",
      windowsHide: true
    })
    let isEnded = false
    const ended = new Promise<void>((done) => {
      const end = (reason: string) => {
        if (isEnded) return
        isEnded = true
        done()
        onEnd(reason)
      }
      child.once("error", (error) => {
        // A server that did not start has no end: the caller has no connection that could end yet.
        if (child.pid === undefined) {
          isEnded = true
          done()
          reject(new Error(describeStart(command, error)))
        } else end(`The MCP server failed: ${error.message}.`)
      })
      child.once("exit", (code, signal) =>
        // Its last messages may still be in the pipe.
        child.once("close", () => {
          end(`The MCP server ended ${signal === null ? `with exit code ${String(code)}` : `by ${signal}`}.`)
        })
      )
    })
    // A write to a server that is gone: its end tells.
    child.stdin.on("error", (error) => log(`the server's input: ${error.message}`))

    const read = async () => {
      for await (const line of readMessageLines(child.stdout)) await onMessage(line)
    }
    const isGone = async (millis: number): Promise<boolean> => {
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<boolean>((done) => (timer = setTimeout(() => done(false), millis)))
      const isOver = await Promise.race([ended.then(() => true), late])
      clearTimeout(timer)
      return isOver
    }
    const close = async () => {
      child.stdin.end()
      if (await isGone(GRACE_MILLIS)) return
      child.kill("SIGTERM")
      if (await isGone(GRACE_MILLIS)) return
      child.kill("SIGKILL")
      await isGone(GRACE_MILLIS)
    }

    child.once("spawn", () => {
      read().catch((error: unknown) => {
        log(`the server's output cannot be read: ${String(error)}`)
        child.kill("SIGKILL")
      })
      resolve({
        send: (message) =>
          new Promise((done, fail) => {
            if (isEnded || !child.stdin.writable) return fail(new NotExecuted("the MCP server has ended"))
            child.stdin.write(`${forwardedMessage(message)}\n`, (error) =>
              error === null || error === undefined ? done() : fail(error)
            )
          }),
        close
      })
    })
  })
