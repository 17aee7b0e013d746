import { Option, Schema } from "effect"
import { randomUUID } from "node:crypto"
import { readdir, rm, stat } from "node:fs/promises"
import path from "node:path"
import { isProblem } from "../../client/connect/Problem.ts"
import type { CountersignClient } from "../../client/connect.ts"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { ownerState, writeOwner } from "../../testing/ownerRecord.ts"
import { claimDirectory, makeDirectory, readIfExists, replaceDurably } from "./durableFiles.ts"
import { openJournal } from "./Journal.ts"

/** The session of a run, in the file `session.json`. */
const SessionFile = Schema.fromJsonString(
  Schema.Struct({
    /** Creates the session once, also if the process is killed before it has the response. */
    idempotency_key: Schema.String,
    session_id: Schema.NullOr(Schema.String)
  })
)

export interface GateRunOptions {
  /** The directory of the runs of this gate and server. */
  readonly directory: string
  readonly client: Pick<CountersignClient, "sessions">
  /** A session that the gate was given, which it does not close. */
  readonly session: string | undefined
  /** Metadata of a session that the gate creates. */
  readonly metadata: () => Readonly<Record<string, string>>
  readonly log: (line: string) => void
}

/** Directories of runs whose process has ended, the newest first. */
const endedRuns = async (directory: string): Promise<ReadonlyArray<string>> => {
  const names = await readdir(directory)
  const found = await Promise.all(
    names.map(async (name) => {
      const run = path.join(directory, name)
      if ((await ownerState(run)) !== "ended") return []
      return [{ run, time: (await stat(run)).mtimeMs }]
    })
  )
  return found
    .flat()
    .toSorted((one, other) => other.time - one.time)
    .map(({ run }) => run)
}

/** The directory of a run of this process: that of an ended one, or a new one. */
const takeDirectory = async (directory: string): Promise<string> => {
  await makeDirectory(directory)
  const own = path.join(directory, randomUUID())
  for (const ended of await endedRuns(directory).catch((error: unknown) => {
    // Another gate took it meanwhile.
    if (errnoCode(error) === "ENOENT") return []
    throw error
  })) {
    if (await claimDirectory(ended, own)) {
      await writeOwner(own)
      return own
    }
  }
  await makeDirectory(own)
  await writeOwner(own)
  return own
}

/** The directory of a session that the gate was given. */
const takeSessionDirectory = async (directory: string, session: string): Promise<string> => {
  const own = path.join(directory, session)
  if ((await ownerState(own)) === "running") {
    throw new Error(
      `another gate in front of the same server uses the session ${session}: stop it, or give this one another --state`
    )
  }
  await makeDirectory(own)
  await writeOwner(own)
  return own
}

/** The session of a gate and its calls. A gate that is started again goes on with the run of the one before. */
export type GateRun = Awaited<ReturnType<typeof openRun>>

/** Opens the run of a gate: continues that of a gate that was killed, or begins one. */
export const openRun = async (options: GateRunOptions) => {
  const { client, log } = options
  const given = options.session
  const directory =
    given === undefined
      ? await takeDirectory(path.join(options.directory, "runs"))
      : await takeSessionDirectory(path.join(options.directory, "sessions"), given)
  const journal = await openJournal(path.join(directory, "calls"))
  const left = await journal.left()
  const file = path.join(directory, "session.json")

  const read = async () =>
    Option.getOrUndefined(Schema.decodeUnknownOption(SessionFile)(await readIfExists(file)))

  const isOpen = async (id: string): Promise<boolean> => {
    try {
      return (await client.sessions.get({ params: { id } })).status === "open"
    } catch (error) {
      if (isProblem(error, "NOT_FOUND")) return false
      // A key that cannot read sessions: its steps tell.
      if (isProblem(error, "INSUFFICIENT_SCOPE")) return true
      throw error
    }
  }

  const create = async (key: string): Promise<string> => {
    await replaceDurably(file, JSON.stringify({ idempotency_key: key, session_id: null }))
    const { session_id } = await client.sessions.create({
      headers: { "idempotency-key": key },
      payload: { metadata: options.metadata() }
    })
    await replaceDurably(file, JSON.stringify({ idempotency_key: key, session_id }))
    log(`session ${session_id}`)
    return session_id
  }

  const findSession = async (): Promise<string> => {
    if (given !== undefined) return given
    const saved = await read()
    if (saved === undefined) return create(randomUUID())
    if (saved.session_id === null) return create(saved.idempotency_key)
    if (!(await isOpen(saved.session_id))) {
      log(`session ${saved.session_id} was closed meanwhile`)
      return create(randomUUID())
    }
    log(`session ${saved.session_id}, continued`)
    return saved.session_id
  }

  return {
    journal,
    /** The calls that the earlier process has left. */
    left,
    /** The session's ID. Creates the session if there is none; rejects if the service cannot be reached. */
    session: findSession,
    /** Ends the run: closes a session that the gate created, and removes its files, unless calls are left for the next gate. */
    end: async ({ hasOpenCalls }: { readonly hasOpenCalls: boolean }): Promise<void> => {
      if (hasOpenCalls) return
      const { session_id = null } = given === undefined ? ((await read()) ?? {}) : {}
      if (session_id !== null) {
        try {
          await client.sessions.close({ params: { id: session_id } })
        } catch (error) {
          log(
            `session ${session_id} was not closed: ${error instanceof Error ? error.message : String(error)}`
          )
          return
        }
      }
      await rm(directory, { recursive: true, force: true })
    }
  }
}
