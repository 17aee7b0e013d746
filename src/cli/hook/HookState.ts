/**
 * State that one call of a hook leaves for the next: a directory for each session of a coding agent. Every file is written whole and moved into
 * place, so that parallel hooks read it or do not find it. The service decides about each call; the files say only under which step to ask.
 * Without them a call is asked as a new step.
 */
import { createHash, randomBytes } from "node:crypto"
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync
} from "node:fs"
import path from "node:path"
import { errnoCode } from "../../server/store/errnoCode.ts"

/** The agent session of a coding agent's session. */
export interface SavedSession {
  /** The agent session; null after it was closed. */
  readonly session_id: string | null
  /** How many agent sessions there were before it: a coding agent resumes a session whose agent session was closed. */
  readonly generation: number
}

/** Sessions that have not been used for this time, and in which nothing waits, are closed and removed: Codex has no hook at their end. */
const IDLE_MILLIS = 7 * 24 * 60 * 60 * 1_000

/** Sessions that have not been used for this time are removed in any case: no approval waits longer. */
const MAX_AGE_MILLIS = 61 * 24 * 60 * 60 * 1_000

/** Sessions that one sweep closes. */
const MAX_CLOSED = 5

/** Sessions that one sweep looks at. */
const MAX_SWEPT = 100

/** Waiting steps of equal calls that one call looks at. */
const MAX_WAITING = 100

const digest = (...parts: ReadonlyArray<string>): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32)

/** The files of one session of a coding agent. */
export class HookState {
  readonly #root: string
  readonly #scope: string
  readonly #directory: string

  /** `root` exists. `scope` tells apart services, API keys and coding agents. */
  constructor(root: string, scope: string, session: string) {
    this.#root = root
    this.#scope = digest(scope)
    this.#directory = path.join(root, digest(scope, session))
  }

  get session(): SavedSession | undefined {
    const saved = this.#read("session.json")
    if (saved === undefined) return undefined
    const { generation, session_id } = saved
    return typeof generation === "number" && (typeof session_id === "string" || session_id === null)
      ? { generation, session_id }
      : undefined
  }

  saveSession(saved: SavedSession): void {
    this.#write("session.json", { ...saved, scope: this.#scope })
  }

  /** The step of a call that has another ID; undefined if its step has the call's ID. */
  stepOf(callId: string): string | undefined {
    return stepIn(this.#read(`call-${digest(callId)}.json`))
  }

  saveStepOf(callId: string, step_id: string): void {
    this.#write(`call-${digest(callId)}.json`, { step_id })
  }

  /** The newest allowed step with this tool and these arguments. */
  allowed(call: string): string | undefined {
    return stepIn(this.#read(`allowed-${digest(call)}.json`))
  }

  saveAllowed(call: string, step_id: string): void {
    this.#write(`allowed-${digest(call)}.json`, { step_id })
  }

  /** Forgets an allowed call, after its outcome. */
  forgetAllowed(call: string, callId: string, step_id: string): void {
    if (this.allowed(call) === step_id) this.#remove(`allowed-${digest(call)}.json`)
    this.#remove(`call-${digest(callId)}.json`)
  }

  /** Notes that a step is asked for and may wait for a person: with the process that asks, or null if none does. */
  saveWaiting(call: string, step_id: string, pid: number | null): void {
    this.#write(waitingName(call, step_id), { step_id, pid })
  }

  forgetWaiting(call: string, step_id: string): void {
    this.#remove(waitingName(call, step_id))
  }

  isWaiting(call: string, step_id: string): boolean {
    return this.#read(waitingName(call, step_id)) !== undefined
  }

  get hasWaiting(): boolean {
    return this.#files().some((name) => name.startsWith("waiting-"))
  }

  /** Takes over a step with this tool and these arguments for which no process waits. Each is taken over once. */
  takeWaiting(call: string): string | undefined {
    const prefix = `waiting-${digest(call)}-`
    const names = this.#files().filter((name) => name.startsWith(prefix))
    for (const name of names.slice(0, MAX_WAITING)) {
      const saved = this.#read(name)
      const step_id = stepIn(saved)
      if (step_id === undefined || isAlive(saved?.["pid"])) continue
      try {
        unlinkSync(path.join(this.#directory, name))
        return step_id
      } catch (error) {
        // Another hook has taken it.
        if (errnoCode(error) !== "ENOENT") throw error
      }
    }
    return undefined
  }

  /** Removes everything but the session's number, after it was closed. */
  clear(generation: number): void {
    for (const name of this.#files()) if (name !== "session.json") this.#remove(name)
    this.saveSession({ session_id: null, generation })
  }

  /** Removes sessions that have not been used for long. Returns the agent sessions to close. */
  sweep(now: number): ReadonlyArray<string> {
    const idle: Array<string> = []
    for (const name of readdirSync(this.#root).slice(0, MAX_SWEPT)) {
      if (idle.length >= MAX_CLOSED) break
      const directory = path.join(this.#root, name)
      try {
        const age = now - statSync(directory).mtimeMs
        if (age < IDLE_MILLIS) continue
        const saved = readObject(path.join(directory, "session.json"))
        const isWaiting = readdirSync(directory).some((file) => file.startsWith("waiting-"))
        // Another service, key or coding agent sweeps its own.
        if (age < MAX_AGE_MILLIS && (isWaiting || saved?.["scope"] !== this.#scope)) continue
        rmSync(directory, { recursive: true, force: true })
        const session_id = saved?.["session_id"]
        if (typeof session_id === "string" && saved?.["scope"] === this.#scope) idle.push(session_id)
      } catch (error) {
        if (errnoCode(error) !== "ENOENT") throw error
      }
    }
    return idle
  }

  #files(): ReadonlyArray<string> {
    try {
      return readdirSync(this.#directory)
    } catch (error) {
      if (errnoCode(error) === "ENOENT") return []
      throw error
    }
  }

  #read(name: string): Readonly<Record<string, unknown>> | undefined {
    return readObject(path.join(this.#directory, name))
  }

  #write(name: string, value: object): void {
    try {
      mkdirSync(this.#directory, { mode: 0o700 })
    } catch (error) {
      if (errnoCode(error) !== "EEXIST") throw error
    }
    const file = path.join(this.#directory, name)
    const draft = `${file}.${randomBytes(6).toString("hex")}`
    writeFileSync(draft, JSON.stringify(value), { mode: 0o600, flag: "wx" })
    renameSync(draft, file)
  }

  #remove(name: string): void {
    rmSync(path.join(this.#directory, name), { force: true })
  }
}

/** The members of a file; undefined if it does not exist or is not an object. */
const readObject = (file: string): Readonly<Record<string, unknown>> | undefined => {
  try {
    const value: unknown = JSON.parse(readFileSync(file, "utf8"))
    return typeof value === "object" && value !== null ? { ...value } : undefined
  } catch (error) {
    if (errnoCode(error) === "ENOENT" || error instanceof SyntaxError) return undefined
    throw error
  }
}

const waitingName = (call: string, step_id: string): string =>
  `waiting-${digest(call)}-${digest(step_id)}.json`

const stepIn = (saved: Readonly<Record<string, unknown>> | undefined): string | undefined => {
  const step_id = saved?.["step_id"]
  return typeof step_id === "string" ? step_id : undefined
}

/** Whether a process that waited still runs. The number of an ended process can belong to another: then the call is a new step. */
const isAlive = (pid: unknown): boolean => {
  if (typeof pid !== "number") return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errnoCode(error) !== "ESRCH"
  }
}
