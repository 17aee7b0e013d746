/** The service that the documents' commands run against, started by the documents' own commands. */
import { type ChildProcess, spawn } from "node:child_process"
import { root } from "./markdown.ts"

/** How long a start may take: the first one also builds the console and creates the database. */
const START_MILLIS = 120_000

export class Service {
  readonly #environment: NodeJS.ProcessEnv
  #process: ChildProcess | undefined
  #command: string | undefined
  #output = ""

  /** The admin key that the first start printed. */
  adminKey: string | undefined

  constructor(environment: NodeJS.ProcessEnv) {
    this.#environment = environment
  }

  /**
   * Starts the service by a command and returns all it printed until it was ready. Stops it first if it runs by another command; a service
   * that runs by the same one stays.
   */
  async start(command: string): Promise<string> {
    if (command === this.#command && this.#process?.exitCode === null) return this.#output
    await this.stop()
    const child = spawn("bash", ["-c", command], {
      cwd: root,
      env: this.#environment,
      stdio: ["ignore", "pipe", "pipe"],
      // A group of its own: npm does not always pass a signal on.
      detached: true
    })
    this.#process = child
    this.#command = command
    let output = ""
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()))
    const deadline = Date.now() + START_MILLIS
    const isPrinted = () => output.includes("is ready\n")
    while (!isPrinted()) {
      if (child.exitCode !== null || Date.now() > deadline) {
        throw new Error(`The service did not start by: ${command}\n${output}`)
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    // The admin key stands below the addresses.
    await new Promise((resolve) => setTimeout(resolve, 100))
    this.adminKey ??= /csk_\w+/.exec(output)?.[0]
    this.#output = output
    return output
  }

  /** Ends the service by SIGTERM, as a supervisor does, and waits for its end. */
  async stop(): Promise<void> {
    const child = this.#process
    if (child?.pid === undefined || child.exitCode !== null) return
    const ended = new Promise((resolve) => child.once("exit", resolve))
    process.kill(-child.pid, "SIGTERM")
    await ended
  }
}
