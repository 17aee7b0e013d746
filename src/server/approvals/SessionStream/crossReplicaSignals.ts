/**
 * How replicas wake each other: what was committed here is named in notices to the others. Nothing depends on one arriving: the check
 * finds what got lost.
 */
import { PgClient } from "@effect/sql-pg"
import { type Duration, Effect, Latch, Result, Schema, type Scope } from "effect"
import type { SqlClient } from "effect/sql"
import { SessionId } from "../../../domain/Ids.ts"
import { makePgNotify } from "../../store/Database/PgNotify.ts"
import { listenToSignals, type SessionSignal } from "../SessionSignals.ts"

/** Sessions of one NOTIFY, whose payload must stay under 8,000 bytes: 37 for the id and 18 at most for its number. */
const SESSIONS_PER_NOTIFY = 140

/** Sessions that are gathered while the store is slow; past that, the word is to look for yourselves. */
const GATHERED_SESSIONS = 10_000

/** The word to look for yourselves. */
const EVERYTHING = "*"

export interface SignalExchangeOptions {
  /** How long signals are gathered into one NOTIFY. */
  readonly coalesce: Duration.Input
  readonly onSignals: (signals: ReadonlyArray<SessionSignal>) => void
  /** Signals may have been lost: the listener has just begun, or begun again. */
  readonly onGap: Effect.Effect<void>
}

/** Carries signals from this process to the others, and theirs to it, until the scope closes. */
export const exchangeSignals = (
  options: SignalExchangeOptions
): Effect.Effect<void, never, PgClient.PgClient | SqlClient.SqlClient | Scope.Scope> =>
  Effect.gen(function* () {
    const notices = yield* makePgNotify("countersign_session_events")
    const { due, take } = yield* gather(yield* PgClient.PgClient)
    yield* Effect.forkScoped(notices.notifyDebounced(due, options.coalesce, take))
    yield* Effect.forkScoped(
      notices.listen((payload) => {
        const signals = payload === undefined || payload === EVERYTHING ? undefined : parse(payload)
        return signals === undefined ? options.onGap : Effect.sync(() => options.onSignals(signals))
      })
    )
  })

/** The newest number of each session that has something to tell. */
const gather = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const pending = new Map<SessionId, number>()
  const due = Latch.makeUnsafe(false)
  let tooMany = false
  yield* listenToSignals(sql, (signals) => {
    for (const { newest, session_id } of signals) {
      if (pending.size >= GATHERED_SESSIONS) tooMany = true
      else pending.set(session_id, Math.max(newest, pending.get(session_id) ?? 0))
    }
    due.openUnsafe()
  })
  return {
    /** Open once there are some. */
    due,
    /** Takes all there are, as payloads. */
    take: (): ReadonlyArray<string> => {
      const words = [...pending].map(([session_id, newest]) => `${session_id}:${newest}`)
      pending.clear()
      const payloads = tooMany ? [EVERYTHING] : []
      tooMany = false
      if (payloads.length === 0) {
        for (let at = 0; at < words.length; at += SESSIONS_PER_NOTIFY) {
          payloads.push(words.slice(at, at + SESSIONS_PER_NOTIFY).join(" "))
        }
      }
      return payloads
    }
  }
})

const decodeId = Schema.decodeUnknownResult(SessionId)

const parse = (payload: string): ReadonlyArray<SessionSignal> =>
  payload.split(" ").flatMap((word) => {
    const [id, number] = word.split(":")
    const session_id = decodeId(id)
    const newest = Number(number)
    return Result.isSuccess(session_id) && Number.isSafeInteger(newest)
      ? [{ session_id: session_id.success, newest }]
      : []
  })
