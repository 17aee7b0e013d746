import { type ChildProcess, spawn } from "node:child_process"
import { createServer } from "node:net"
import { listenOnFreePort } from "../../test/support/listenOnFreePort.ts"

/** A place for a replica: the processes that run there one after the other have one address. */
export interface Replica {
  readonly url: string
  /** Whether a process runs that was ready to serve, frozen or not. */
  readonly isReady: () => boolean
  readonly isFrozen: () => boolean
  /** Kills the process and waits for its end. */
  readonly kill: () => Promise<void>
  readonly freeze: () => void
  readonly resume: () => void
  /** Starts a process, and waits until it is ready. Repeated if it ends before, as supervisors do. */
  readonly start: () => Promise<void>
  /** Kills the process and starts none any more. */
  readonly remove: () => Promise<void>
}

/** Characters of a process's output in which the line that it is ready is looked for. */
const MAX_OUTPUT = 10_000

/** A port that is probably free. */
const freePort = async (): Promise<number> => {
  const server = createServer()
  const port = await listenOnFreePort(server)
  await new Promise((done) => server.close(done))
  return port
}

/** Makes a replica of a bundled service, which is not started yet. */
export const makeReplica = async (
  entry: string,
  environment: Readonly<Record<string, string>>
): Promise<Replica> => {
  const port = await freePort()
  let child: ChildProcess | undefined
  let isReady = false
  let isFrozen = false
  let isRemoved = false
  const isWanted = () => !isRemoved

  const isRunning = (one: ChildProcess | undefined): one is ChildProcess =>
    one !== undefined && one.exitCode === null && one.signalCode === null

  const kill = async (): Promise<void> => {
    const running = child
    if (!isRunning(running)) return
    const ended = new Promise((done) => running.once("close", done))
    running.kill("SIGKILL")
    isReady = false
    isFrozen = false
    await ended
  }

  const startOnce = async (): Promise<boolean> => {
    const started = spawn(process.execPath, [entry, "serve"], {
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...environment, PATH: process.env["PATH"], PORT: String(port) }
    })
    child = started
    return new Promise((done) => {
      let output = ""
      started.stdout.setEncoding("utf8").on("data", (text: string) => {
        if (output.length < MAX_OUTPUT) output += text
        if (isReady || !/is ready/.test(output)) return
        isReady = true
        done(true)
      })
      started.once("close", () => {
        if (child === started) isReady = false
        done(false)
      })
    })
  }

  return {
    url: `http://127.0.0.1:${port}`,
    isReady: () => isReady && isRunning(child),
    isFrozen: () => isFrozen,
    kill,
    freeze: () => {
      isFrozen = child?.kill("SIGSTOP") === true
    },
    resume: () => {
      child?.kill("SIGCONT")
      isFrozen = false
    },
    start: async () => {
      while (isWanted() && !(await startOnce()));
      if (!isWanted()) await kill()
    },
    remove: async () => {
      isRemoved = true
      await kill()
    }
  }
}
