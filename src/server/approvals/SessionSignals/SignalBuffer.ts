import { Latch, Result, Schema } from "effect"
import { SessionId } from "../../../domain/Ids.ts"
import type { SessionSignal } from "../SessionSignals.ts"

/** Sessions of one NOTIFY, whose payload is limited to 8,000 bytes: 37 for each id and at most 18 for its number and separators. */
const SESSIONS_PER_PAYLOAD = 140

/** Sessions that are buffered while the database is slow; past that, the buffer sends one payload that names no session. */
const MAX_BUFFERED_SESSIONS = 10_000

/** The payload that names no session: every session may have new events. */
const ALL_SESSIONS = "*"

/** Signals that wait to be sent, coalesced by session. */
export interface SignalBuffer {
  /** Open while signals wait. */
  readonly due: Latch.Latch
  readonly add: (signals: ReadonlyArray<SessionSignal>) => void
  /** Adds a signal of every session. */
  readonly addAllSessions: () => void
  /** Removes all signals and returns them as payloads of NOTIFY. */
  readonly takePayloads: () => ReadonlyArray<string>
}

/** An empty buffer. */
export const makeSignalBuffer = (): SignalBuffer => {
  const newestBySession = new Map<SessionId, number>()
  const due = Latch.makeUnsafe(false)
  let ofAllSessions = false
  return {
    due,
    add: (signals) => {
      for (const { newest, session_id } of signals) {
        if (newestBySession.size >= MAX_BUFFERED_SESSIONS) ofAllSessions = true
        else newestBySession.set(session_id, Math.max(newest, newestBySession.get(session_id) ?? 0))
      }
      due.openUnsafe()
    },
    addAllSessions: () => {
      ofAllSessions = true
      due.openUnsafe()
    },
    takePayloads: () => {
      const items = [...newestBySession].map(([session_id, newest]) => `${session_id}:${newest}`)
      newestBySession.clear()
      const payloads = ofAllSessions ? [ALL_SESSIONS] : []
      ofAllSessions = false
      if (payloads.length === 0) {
        for (let at = 0; at < items.length; at += SESSIONS_PER_PAYLOAD) {
          payloads.push(items.slice(at, at + SESSIONS_PER_PAYLOAD).join(" "))
        }
      }
      return payloads
    }
  }
}

const decodeId = Schema.decodeUnknownResult(SessionId)

/** The signals of a payload; undefined if it stands for every session. Malformed items are skipped. */
export const parsePayload = (payload: string): ReadonlyArray<SessionSignal> | undefined =>
  payload === ALL_SESSIONS
    ? undefined
    : payload.split(" ").flatMap((item) => {
        const [id, number] = item.split(":")
        const session_id = decodeId(id)
        const newest = Number(number)
        return Result.isSuccess(session_id) && Number.isSafeInteger(newest)
          ? [{ session_id: session_id.success, newest }]
          : []
      })
