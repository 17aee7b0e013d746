/**
 * State that one call of a hook leaves for the next: a directory for each session of a coding agent. Every file is written whole and moved into
 * place, so that parallel hooks read it or do not find it. The service decides about each call; the files say only under which step to ask.
 * Without them a call is asked as a new step.
 */
import { createHash, randomBytes, randomInt } from "node:crypto"
import {
  linkSync,
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

/** How a call of the coding agent was asked. */
export interface SavedCall {
  /** The ID that the service was asked with: the call's own, that of the waiting call that it goes on with, or one with a number. */
  readonly id: string
  /** How many calls with its own ID there were up to this one. */
  readonly repeat: number
  /** The step of a call that has its answer. The next call with the same ID is another one. Null while the answer is open. */
  readonly answered_step: string | null
}

/** The claim of a step. */
export interface SavedClaim {
  readonly claim_id: string
  /** Identifies the request that claimed it. */
  readonly key: string
}

/** The process that waits for a decision, and the coding agent that it waits for. */
export interface Waiter {
  readonly pid: number
  /** Undefined if its process was not found. */
  readonly agent?: number | undefined
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

/** The name of the directory of a session: a digest. */
const SESSION_DIRECTORY = /^[0-9a-f]{32}$/u

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

  /** How the call with this ID was asked last. */
  call(callId: string): SavedCall | undefined {
    const saved = this.#read(`call-${digest(callId)}.json`)
    if (saved === undefined) return undefined
    const { answered_step, id, repeat } = saved
    return typeof id === "string" &&
      typeof repeat === "number" &&
      (typeof answered_step === "string" || answered_step === null)
      ? { id, repeat, answered_step }
      : undefined
  }

  saveCall(callId: string, saved: SavedCall): void {
    this.#write(`call-${digest(callId)}.json`, saved)
  }

  forgetCall(callId: string): void {
    this.#remove(`call-${digest(callId)}.json`)
  }

  /** The newest allowed step with this tool and these arguments. */
  allowed(call: string): string | undefined {
    return stepIn(this.#read(`allowed-${digest(call)}.json`))
  }

  saveAllowed(call: string, step_id: string): void {
    this.#write(`allowed-${digest(call)}.json`, { step_id })
  }

  /** Forgets an allowed step, after its outcome. */
  forgetAllowed(call: string, step_id: string): void {
    if (this.allowed(call) === step_id) this.#remove(`allowed-${digest(call)}.json`)
  }

  /**
   * Identifies the request for the claim of a call. The hook that goes on with a call of one that was killed gets the same claim; the hooks of
   * other directories have a secret of their own, so that they do not.
   */
  claimKey(id: string): string {
    const saved = this.claim(id)
    if (saved !== undefined) return saved.key
    this.#create(CLAIM_SECRET, { secret: randomBytes(16).toString("hex") })
    return `hook-${digest(String(this.#read(CLAIM_SECRET)?.["secret"]), id)}`
  }

  /** The claim of a step that this state's hooks have allowed. */
  claim(step_id: string): SavedClaim | undefined {
    const { claim_id, key } = this.#read(`claim-${digest(step_id)}.json`) ?? {}
    return typeof claim_id === "string" && typeof key === "string" ? { claim_id, key } : undefined
  }

  saveClaim(step_id: string, saved: SavedClaim): void {
    this.#write(`claim-${digest(step_id)}.json`, saved)
  }

  forgetClaim(step_id: string): void {
    this.#remove(`claim-${digest(step_id)}.json`)
  }

  /**
   * Notes that a call is asked with this ID and may wait for a person. False if another process waits for the same: that is another call,
   * with the same ID and arguments.
   */
  claimWaiting(call: string, id: string, waiter: Waiter): boolean {
    const name = waitingName(call, id)
    while (!this.#create(name, { id, ...waiter })) {
      if (isAttended(this.#read(name))) return false
      this.#remove(name)
    }
    return true
  }

  /** Stores the process that waits; null: none, so that the next equal call continues it. */
  saveWaiting(call: string, id: string, waiter: Waiter | null): void {
    this.#write(waitingName(call, id), { id, ...waiter })
  }

  forgetWaiting(call: string, id: string): void {
    this.#remove(waitingName(call, id))
  }

  isWaiting(call: string, id: string): boolean {
    return this.#read(waitingName(call, id)) !== undefined
  }

  /** Notes the call at which the run ends. False if it ends at another one: Claude Code resumes one call of a turn. */
  claimDeferred(id: string): boolean {
    return this.#create(DEFERRED, { id }) || idIn(this.#read(DEFERRED)) === id
  }

  /** Forgets the call at which the run ended: `id`, or any. */
  forgetDeferred(id?: string): void {
    if (id === undefined || idIn(this.#read(DEFERRED)) === id) this.#remove(DEFERRED)
  }

  get hasWaiting(): boolean {
    return this.#files().some((name) => name.startsWith("waiting-"))
  }

  /** Takes over the ID of a waiting call with this tool and these arguments for which no process waits. Each is taken over once. */
  takeWaiting(call: string): string | undefined {
    const prefix = `waiting-${digest(call)}-`
    const names = this.#files().filter((name) => name.startsWith(prefix))
    for (const name of names.slice(0, MAX_WAITING)) {
      const saved = this.#read(name)
      const id = idIn(saved)
      if (id === undefined || isAttended(saved)) continue
      try {
        unlinkSync(path.join(this.#directory, name))
        return id
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
    // The directory may have been given, and hold files of others.
    const names = readdirSync(this.#root).filter((name) => SESSION_DIRECTORY.test(name))
    // From a random one on: the first ones are always the same, and may all be in use.
    const first = names.length === 0 ? 0 : randomInt(names.length)
    for (const name of [...names.slice(first), ...names.slice(0, first)].slice(0, MAX_SWEPT)) {
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
      } catch {
        // Another hook has removed it, or it belongs to another account: no reason to deny a call.
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
    renameSync(this.#draft(name, value), path.join(this.#directory, name))
  }

  /** Writes a file unless it exists. */
  #create(name: string, value: object): boolean {
    const draft = this.#draft(name, value)
    try {
      linkSync(draft, path.join(this.#directory, name))
      return true
    } catch (error) {
      if (errnoCode(error) === "EEXIST") return false
      throw error
    } finally {
      unlinkSync(draft)
    }
  }

  #draft(name: string, value: object): string {
    try {
      mkdirSync(this.#directory, { mode: 0o700 })
    } catch (error) {
      if (errnoCode(error) !== "EEXIST") throw error
    }
    const draft = path.join(this.#directory, `${name}.${randomBytes(6).toString("hex")}`)
    writeFileSync(draft, JSON.stringify(value), { mode: 0o600, flag: "wx" })
    return draft
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

const waitingName = (call: string, id: string): string => `waiting-${digest(call)}-${digest(id)}.json`

const DEFERRED = "deferred.json"

const CLAIM_SECRET = "claims.json"

const idIn = (saved: Readonly<Record<string, unknown>> | undefined): string | undefined => {
  const id = saved?.["id"]
  return typeof id === "string" ? id : undefined
}

const stepIn = (saved: Readonly<Record<string, unknown>> | undefined): string | undefined => {
  const step_id = saved?.["step_id"]
  return typeof step_id === "string" ? step_id : undefined
}

/** Whether a process waits, for a coding agent that runs. */
const isAttended = (saved: Readonly<Record<string, unknown>> | undefined): boolean =>
  isAlive(saved?.["pid"]) && (saved?.["agent"] === undefined || isAlive(saved["agent"]))

/** Whether a process runs. The number of an ended process can belong to another: then the call is a new step. */
export const isAlive = (pid: unknown): boolean => {
  if (typeof pid !== "number") return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errnoCode(error) !== "ESRCH"
  }
}
