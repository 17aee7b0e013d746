import { Array as Arr, Context, DateTime, Effect, Layer, Option, Stream } from "effect"
import { Sse } from "effect/encoding"
import { SqlClient } from "effect/sql"
import { AuthorizedEither } from "../../src/api/Authorization.ts"
import { generateTraceId, KeyId, OrgId, SessionId, StepId } from "../../src/domain/Ids.ts"
import type { Principal } from "../../src/domain/identity/Principal.ts"
import { type NewSessionEvent, sessionClosedEvent } from "../../src/domain/approvals/SessionEvent.ts"
import { transaction } from "../../src/server/store/transaction.ts"
import { SessionEvents } from "../../src/server/approvals/SessionEvents.ts"
import { SessionSignals } from "../../src/server/approvals/SessionSignals.ts"
import type { SessionKey } from "../../src/server/approvals/SessionStream/Subscription.ts"

/** Inserts an organization with a key that has `sessions.read`. */
export const seedReader: Effect.Effect<Principal, never, SqlClient.SqlClient> = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const principal: Principal = {
    org_id: yield* OrgId.generate,
    actor: { id: yield* KeyId.generate, name: "reader" },
    scopes: new Set(["sessions.read"]),
    groups: [],
    keyMakers: [],
    makers: []
  }
  yield* sql`INSERT INTO organizations VALUES (${principal.org_id}, ${principal.org_id}, now())`
  yield* sql`
    INSERT INTO api_keys (org_id, key_id, public_id, digest, name, scopes, created_at)
    VALUES (
      ${principal.org_id}, ${principal.actor.id}, ${principal.actor.id}, '\\x00', 'reader',
      ARRAY['sessions.read'], now()
    )
  `
  return principal
}).pipe(Effect.orDie)

/** Inserts an open session without events in the reader's organization. */
export const seedSession = Effect.fnUntraced(function* ({ actor, org_id }: Principal) {
  const sql = yield* SqlClient.SqlClient
  const session: SessionKey = { org_id, session_id: yield* SessionId.generate }
  yield* sql`
    INSERT INTO agent_sessions (org_id, session_id, trace_id, metadata, created_at, created_by_id, created_by_name)
    VALUES (${org_id}, ${session.session_id}, ${yield* generateTraceId}, '{}', now(), ${actor.id}, 'reader')
  `
  return session
}, Effect.orDie)

const outcomeEvent: NewSessionEvent = {
  type: "tool:outcome",
  step_id: StepId.make("step 1"),
  payload: { tool: "payments.refund", status: "succeeded", error: null }
}

/** Appends `count` events to a session in one transaction. */
export const recordOutcomes = (session: SessionKey, count = 1) =>
  recordEvents(
    session,
    Arr.makeBy(count, () => outcomeEvent)
  )

/**
 * Appends events to a session in one transaction, through the service under test if the context has one. Otherwise no stream is
 * signalled, as if another process had written them.
 */
export const recordEvents = (session: SessionKey, events: Arr.NonEmptyReadonlyArray<NewSessionEvent>) =>
  Effect.gen(function* () {
    const log = Option.getOrElse(yield* Effect.serviceOption(SessionEvents), () => undefined)
    const { append } = log ?? (yield* eventsWithoutSignals)
    yield* transaction(append([{ ...session, events }], yield* DateTime.now))
  }).pipe(Effect.orDie)

const eventsWithoutSignals = Effect.scoped(
  Effect.map(
    Layer.build(
      SessionEvents.layer.pipe(
        Layer.provide(
          Layer.succeed(SessionSignals, {
            publish: () => Effect.void,
            subscribe: () => Effect.void,
            announce: () => {}
          })
        )
      )
    ),
    Context.get(SessionEvents)
  )
)

/** Closes a session and appends its last event, as `Sessions.close` does. */
export const closeSession = (session: SessionKey) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`UPDATE agent_sessions SET closed_at = now() WHERE session_id = ${session.session_id}`
    yield* recordEvents(session, [sessionClosedEvent])
  }).pipe(Effect.orDie)

/** Runs an effect as this principal. */
export const as = (principal: Principal) =>
  Effect.provideService(AuthorizedEither("sessions.read", "sessions.write"), principal)

/** The numbers of the events in a stream of bytes, as they arrive. */
export const numbersOf = (bytes: Stream.Stream<Uint8Array>): Stream.Stream<number> =>
  Stream.suspend(() => {
    const numbers: Array<number> = []
    const parser = Sse.makeParser((event) => {
      if (event._tag === "Event") numbers.push(Number(event.id))
    })
    return bytes.pipe(
      Stream.decodeText(),
      Stream.flatMap((text) => {
        parser.feed(text)
        return Stream.fromArray(numbers.splice(0))
      })
    )
  })

/** The stream, which the test expects to exist. */
export const expectStream = <A>(stream: Option.Option<A>): A => Option.getOrThrow(stream)
