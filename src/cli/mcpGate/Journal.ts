/**
 * The gate's calls, on disk. A call has up to five files, named by its step:
 *
 * - `<step>.call.json`: the call was asked about;
 * - `<step>.<leg>.started`: the call is sent to the server. A leg is one request: the server can answer one with a question. This file
 *   alone survives a crash of the machine: without the others, the outcome of the call is unknown;
 * - `<step>.<leg>.answered`: the server answered a leg with a question;
 * - `<step>.end.json`: the server's response;
 * - `<step>.delivered`: the client has the response, and the service was out of reach for the outcome.
 *
 * They are removed once the client has the response and the service the outcome.
 */
import { Option, Schema } from "effect"
import { readdir } from "node:fs/promises"
import path from "node:path"
import { createDurably, makeDirectory, readIfExists, removeFiles, replaceQuickly } from "./durableFiles.ts"

/** A call that the service was asked about. */
export const CallRecord = Schema.Struct({
  session: Schema.String,
  step_id: Schema.String,
  tool: Schema.String,
  action_class: Schema.String,
  /** Digest of the tool and its arguments. */
  digest: Schema.String,
  /** Digest of the definition of the tool that the call is decided under. */
  definition: Schema.String,
  /** Identifies the request for the claim: the gate that goes on with the call gets the same claim, and no other gate does. */
  claim_key: Schema.String,
  /** The claim under which the call is sent to the server; null before it has one. */
  claim_id: Schema.NullOr(Schema.String)
})
export type CallRecord = typeof CallRecord.Type

/** How a call ended. */
export const CallEnd = Schema.Struct({
  /** The members `result` or `error` of the server's response. */
  response: Schema.Union([Schema.Struct({ result: Schema.Json }), Schema.Struct({ error: Schema.Json })]),
  /** Why the call failed; null if it succeeded. */
  failure: Schema.NullOr(Schema.String),
  /** Whether the call may have been executed: the service gets no outcome, and a person finds out. */
  isUnknown: Schema.Boolean
})
export type CallEnd = typeof CallEnd.Type

/**
 * A call that an earlier process has left:
 *
 * - `asked`: it was not sent to the server;
 * - `interrupted`: it was sent, and its response is unknown;
 * - `ended`: the client may not have its response, or the service the outcome.
 */
export type LeftCall =
  | { readonly state: "asked" | "interrupted"; readonly record: CallRecord }
  | {
      readonly state: "ended"
      readonly record: CallRecord
      readonly end: CallEnd
      /** Whether the client certainly has the response. */
      readonly isDelivered: boolean
    }

export type Journal = Awaited<ReturnType<typeof openJournal>>

const RecordFile = Schema.fromJsonString(CallRecord)
const EndFile = Schema.fromJsonString(CallEnd)

const CALL_SUFFIX = ".call.json"

/** Opens the journal of a directory. */
export const openJournal = async (directory: string) => {
  await makeDirectory(directory)
  const fileOf = (step_id: string, suffix: string) => path.join(directory, `${step_id}${suffix}`)

  const find = async (step_id: string, names: ReadonlyArray<string>): Promise<LeftCall | undefined> => {
    const decode = Schema.decodeUnknownOption(RecordFile)
    // The file of the start has the claim.
    const started = decode(await readIfExists(fileOf(step_id, ".0.started")))
    const record = Option.isSome(started) ? started : decode(await readIfExists(fileOf(step_id, CALL_SUFFIX)))
    if (Option.isNone(record)) return undefined
    const end = Schema.decodeUnknownOption(EndFile)(await readIfExists(fileOf(step_id, ".end.json")))
    if (Option.isSome(end)) {
      const isDelivered = names.includes(`${step_id}.delivered`)
      return { state: "ended", record: record.value, end: end.value, isDelivered }
    }
    const isInterrupted = names.some(
      (name) =>
        name.startsWith(`${step_id}.`) &&
        name.endsWith(".started") &&
        !names.includes(name.replace(/\.started$/, ".answered"))
    )
    return { state: isInterrupted ? "interrupted" : "asked", record: record.value }
  }

  return {
    /** The calls that an earlier process has left, in no order. */
    left: async (): Promise<ReadonlyArray<LeftCall>> => {
      const names = await readdir(directory)
      const steps = new Set(
        names
          .filter((name) => name.endsWith(CALL_SUFFIX) || name.endsWith(".started"))
          .map((name) => name.slice(0, name.indexOf(".")))
      )
      const calls = await Promise.all([...steps].map((step_id) => find(step_id, names)))
      return calls.filter((call) => call !== undefined)
    },
    /** One of them; undefined if the journal has no such call. */
    find: async (step_id: string) => find(step_id, await readdir(directory)),
    asked: (record: CallRecord) =>
      replaceQuickly(fileOf(record.step_id, CALL_SUFFIX), JSON.stringify(record)),
    /** Returns `false` if the leg was started before, by any process: it must not be sent. */
    started: (record: CallRecord, leg: number) =>
      createDurably(fileOf(record.step_id, `.${leg}.started`), JSON.stringify(record)),
    /** A leg was not sent after all: it can be started again. */
    unsent: (step_id: string, leg: number) => removeFiles([fileOf(step_id, `.${leg}.started`)]),
    answered: (step_id: string, leg: number) => createDurably(fileOf(step_id, `.${leg}.answered`), ""),
    ended: (step_id: string, end: CallEnd) =>
      replaceQuickly(fileOf(step_id, ".end.json"), JSON.stringify(end)),
    delivered: (step_id: string) => createDurably(fileOf(step_id, ".delivered"), ""),
    /** Removes a call. */
    forget: async (step_id: string): Promise<void> => {
      const names = (await readdir(directory)).filter((name) => name.startsWith(`${step_id}.`))
      // The files of the start last: without the end, the outcome is unknown, but without the start, the call was not sent.
      const isStart = (name: string) => name.endsWith(".started")
      await removeFiles(names.filter((name) => !isStart(name)).map((name) => path.join(directory, name)))
      await removeFiles(names.filter(isStart).map((name) => path.join(directory, name)))
    }
  }
}
