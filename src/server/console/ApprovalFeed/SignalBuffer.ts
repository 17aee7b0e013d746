import { Latch } from "effect"
import type { SessionId } from "../../../domain/Ids.ts"
import type { SessionSignal } from "../../approvals/SessionSignals.ts"
import { LruCache } from "../../concurrency/LruCache.ts"

/** The most sessions that wait for the next read. Past it, subscribers refetch the inbox instead. */
const MAX_PENDING_SESSIONS = 5_000

/** The most sessions whose read position is cached. A session without one is read from its recent events. */
const MAX_READ_POSITIONS = 10_000

/** The events of one session to read: those numbered after `after`, up to `newest`. */
export interface PendingSession {
  readonly session_id: SessionId
  readonly after: number
  readonly newest: number
}

/** Coalesces session signals between two reads, and caches how far each session has been read. */
export const makeSignalBuffer = () => {
  const nonEmpty = Latch.makeUnsafe()
  const newestBySession = new Map<SessionId, number>()
  const readPositions = new LruCache<number>({
    entries: MAX_READ_POSITIONS,
    weight: Number.POSITIVE_INFINITY
  })
  let isIncomplete = false
  const readPosition = (session_id: SessionId): number => readPositions.get(session_id) ?? 0
  return {
    /** Adds signals; `undefined` means that signals were lost. */
    add: (signals: ReadonlyArray<SessionSignal> | undefined): void => {
      for (const { newest, session_id } of signals ?? []) {
        if (newest > readPosition(session_id)) {
          newestBySession.set(session_id, Math.max(newest, newestBySession.get(session_id) ?? 0))
        }
      }
      if (signals === undefined || newestBySession.size > MAX_PENDING_SESSIONS) isIncomplete = true
      if (isIncomplete || newestBySession.size > 0) nonEmpty.openUnsafe()
    },
    /** Completes when there is something to take. */
    awaitNonEmpty: nonEmpty.await,
    /** Empties the buffer and advances the read positions. Undefined if signals were lost or there are too many. */
    take: (): ReadonlyArray<PendingSession> | undefined => {
      nonEmpty.closeUnsafe()
      const sessions = isIncomplete
        ? undefined
        : [...newestBySession].map(([session_id, newest]) => ({
            session_id,
            newest,
            after: readPosition(session_id)
          }))
      for (const [session_id, newest] of newestBySession) readPositions.set(session_id, newest, 0)
      newestBySession.clear()
      isIncomplete = false
      return sessions
    }
  }
}
