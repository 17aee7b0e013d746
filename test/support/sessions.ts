import { Array as Arr, DateTime, Effect, Option, Stream } from "effect"
import { Sse } from "effect/encoding"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../src/api/Authorization.ts"
import { generateTraceId, KeyId, OrgId, SessionId, StepId } from "../../src/domain/Ids.ts"
import type { Principal } from "../../src/domain/identity/Principal.ts"
import { type NewSessionEvent, sessionClosedEvent } from "../../src/domain/approvals/SessionEvent.ts"
import { transaction } from "../../src/server/store/Database/transaction.ts"
import { appendEvents } from "../../src/server/approvals/SessionEvents.ts"
import type { SessionKey } from "../../src/server/approvals/SessionStream/Subscription.ts"

/** An organization with a key that may read sessions, in the store. */
export const seedReader: Effect.Effect<Principal, never, SqlClient.SqlClient> = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const principal: Principal = {
    org_id: yield* OrgId.generate,
    actor: { id: yield* KeyId.generate, name: "reader" },
    scopes: new Set(["sessions.read"])
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

/** An open session of the reader's organization, without events. */
export const seedSession = Effect.fnUntraced(function* ({ actor, org_id }: Principal) {
  const sql = yield* SqlClient.SqlClient
  const session: SessionKey = { org_id, session_id: yield* SessionId.generate }
  yield* sql`
    INSERT INTO agent_sessions (org_id, session_id, trace_id, created_at, created_by_id, created_by_name)
    VALUES (${org_id}, ${session.session_id}, ${yield* generateTraceId}, now(), ${actor.id}, 'reader')
  `
  return session
}, Effect.orDie)

const outcome: NewSessionEvent = {
  type: "tool:outcome",
  step_id: StepId.make("step 1"),
  payload: { tool: "payments.refund", status: "succeeded", error: null }
}

/** Records this many events of a session in one transaction. */
export const recordOutcomes = (session: SessionKey, count = 1) =>
  recordEvents(
    session,
    Arr.makeBy(count, () => outcome)
  )

/** Records events of a session in one transaction. */
export const recordEvents = (session: SessionKey, events: Arr.NonEmptyReadonlyArray<NewSessionEvent>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* transaction(appendEvents(sql, [{ ...session, events }], yield* DateTime.now))
  }).pipe(Effect.orDie)

/** Closes a session, as far as its stream is concerned. */
export const closeSession = (session: SessionKey) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`UPDATE agent_sessions SET closed_at = now() WHERE session_id = ${session.session_id}`
    yield* recordEvents(session, [sessionClosedEvent])
  }).pipe(Effect.orDie)

/** Runs as this principal. */
export const as = (principal: Principal) => Effect.provideService(Authorized("sessions.read"), principal)

/** The numbers of the events that a stream of bytes holds, as they come. */
export const numbersOf = (bytes: Stream.Stream<Uint8Array>): Stream.Stream<number> =>
  Stream.suspend(() => {
    const found: Array<number> = []
    const parser = Sse.makeParser((event) => {
      if (event._tag === "Event") found.push(Number(event.id))
    })
    return bytes.pipe(
      Stream.decodeText(),
      Stream.flatMap((text) => {
        parser.feed(text)
        return Stream.fromArray(found.splice(0))
      })
    )
  })

/** The stream there must be. */
export const expectStream = <A>(stream: Option.Option<A>): A => Option.getOrThrow(stream)
