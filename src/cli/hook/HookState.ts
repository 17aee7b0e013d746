/**
 * What one call of a hook leaves for the next: a directory for each session of a coding agent. Every file is written whole and moved into
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

/** Sessions older than this are removed. */
const MAX_AGE_MILLIS = 30 * 24 * 60 * 60 * 1_000

/** Sessions that one sweep looks at. */
const MAX_SWEPT = 100

/** Waiting steps of equal calls that one call looks at. */
const MAX_WAITING = 100

const digest = (...parts: ReadonlyArray<string>): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32)

/** The files of one session of a coding agent. */
export class HookState {
  readonly #root: string
  readonly #directory: string

  /** `scope` tells apart services, API keys and coding agents. */
  constructor(root: string, scope: string, session: string) {
    this.#root = root
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
    this.#write("session.json", saved)
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

  /** Notes that a step waits for a person: with the process that waits, or null if none does. */
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

  /** Removes sessions that have not been used for 30 days, the least of them that the sweep finds. */
  sweep(now: number): void {
    for (const name of readdirSync(this.#root).slice(0, MAX_SWEPT)) {
      const directory = path.join(this.#root, name)
      try {
        if (now - statSync(directory).mtimeMs > MAX_AGE_MILLIS)
          rmSync(directory, { recursive: true, force: true })
      } catch (error) {
        if (errnoCode(error) !== "ENOENT") throw error
      }
    }
  }

  #files(): ReadonlyArray<string> {
    try {
      return readdirSync(this.#directory)
    } catch (error) {
      if (errnoCode(error) === "ENOENT") return []
      throw error
    }
  }

  /** The members of a file; undefined if it does not exist or is not an object. */
  #read(name: string): Readonly<Record<string, unknown>> | undefined {
    try {
      const value: unknown = JSON.parse(readFileSync(path.join(this.#directory, name), "utf8"))
      return typeof value === "object" && value !== null ? { ...value } : undefined
    } catch (error) {
      if (errnoCode(error) === "ENOENT" || error instanceof SyntaxError) return undefined
      throw error
    }
  }

  #write(name: string, value: object): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    const file = path.join(this.#directory, name)
    const draft = `${file}.${randomBytes(6).toString("hex")}`
    writeFileSync(draft, JSON.stringify(value), { mode: 0o600, flag: "wx" })
    renameSync(draft, file)
  }

  #remove(name: string): void {
    rmSync(path.join(this.#directory, name), { force: true })
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
