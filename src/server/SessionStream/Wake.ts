/**
 * How replicas wake each other: what was committed here is named in a NOTIFY, gathered for some milliseconds and sent outside the
 * writing transactions, since a NOTIFY holds a lock of the whole server while its transaction commits. Nothing depends on one
 * arriving: the check finds what got lost.
 */
import { PgClient } from "@effect/sql-pg"
import { type Duration, Effect, Latch, Result, Schedule, Schema, type Scope, Stream } from "effect"
import type { SqlClient } from "effect/sql"
import { SessionId } from "../../domain/Ids.ts"
import { texts } from "../Columns.ts"
import { listenToSignals, type SessionSignal } from "../SessionSignals.ts"

const CHANNEL = "countersign_session_events"

/** Sessions of one NOTIFY, whose payload must stay under 8,000 bytes: 37 for the id and 18 at most for its number. */
const SESSIONS_PER_NOTIFY = 140

/** Sessions that are gathered while the store is slow; past that, the word is to look for yourselves. */
const GATHERED_SESSIONS = 10_000

/** The word to look for yourselves. */
const EVERYTHING = "*"

/** Pause before listening again after the connection was lost. */
const LISTEN_AGAIN: Duration.Input = "200 millis"

export interface WakeOptions {
  /** How long signals are gathered into one NOTIFY. */
  readonly gather: Duration.Input
  readonly onSignals: (signals: ReadonlyArray<SessionSignal>) => void
  /** Signals may have been lost: the listener has just begun, or begun again. */
  readonly onGap: Effect.Effect<void>
}

/** Carries signals from this process to the others, and theirs to it, until the scope closes. */
export const exchangeSignals = (
  options: WakeOptions
): Effect.Effect<void, never, PgClient.PgClient | SqlClient.SqlClient | Scope.Scope> =>
  Effect.gen(function* () {
    const pg = yield* PgClient.PgClient
    const gathered = yield* gather(pg)
    yield* Effect.forkScoped(
      Effect.forever(
        Effect.gen(function* () {
          yield* gathered.some
          yield* Effect.sleep(options.gather)
          yield* tellOthers(pg, gathered.take())
        })
      )
    )
    yield* Effect.forkScoped(
      hear(pg).pipe(
        Stream.runForEach((payload) => {
          const signals = payload === EVERYTHING ? undefined : parse(payload)
          return signals === undefined ? options.onGap : Effect.sync(() => options.onSignals(signals))
        })
      )
    )
  })

/** The newest number of each session that has something to tell. */
const gather = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const pending = new Map<SessionId, number>()
  const latch = yield* Latch.make()
  let tooMany = false
  yield* listenToSignals(sql, (signals) => {
    for (const { newest, session_id } of signals) {
      if (pending.size >= GATHERED_SESSIONS) tooMany = true
      else pending.set(session_id, Math.max(newest, pending.get(session_id) ?? 0))
    }
    latch.openUnsafe()
  })
  return {
    /** Waits for the first. */
    some: latch.await,
    /** Takes all there are, as payloads. */
    take: (): ReadonlyArray<string> => {
      latch.closeUnsafe()
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

const tellOthers = (sql: SqlClient.SqlClient, payloads: ReadonlyArray<string>) =>
  sql`
    SELECT pg_notify(${CHANNEL}, payload)
    FROM unnest(${texts(payloads)}) AS payload
  `.pipe(
    Effect.catchCause((cause) => Effect.logDebug("Other replicas could not be told of session events", cause))
  )

/** What others tell, and `EVERYTHING` each time listening begins: what was told before went by unheard. */
const hear = (pg: PgClient.PgClient): Stream.Stream<string> =>
  Stream.unwrap(
    Effect.map(pg.listen(CHANNEL), (queue) =>
      Stream.concat(
        Stream.succeed(EVERYTHING),
        Stream.map(Stream.fromQueue(queue), ({ payload }) => payload)
      )
    )
  ).pipe(
    Stream.tapError((error) => Effect.logDebug("The listener for session events was lost", error)),
    Stream.retry(Schedule.spaced(LISTEN_AGAIN)),
    Stream.orDie
  )

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
