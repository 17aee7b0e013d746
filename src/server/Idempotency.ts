import { Clock, Effect, Latch, Layer, Option, Redacted, Schema } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { CurrentPrincipal } from "../api/Authorization.ts"
import { Idempotent } from "../api/Frame.ts"
import { IdempotencyKeyInUse, IdempotencyKeyReused } from "../api/Problems.ts"
import type { Principal } from "../domain/Principal.ts"
import { toDate } from "../domain/Time.ts"
import { dieOfStoreFaults } from "./Database/faults.ts"
import { atomic } from "./Database/transaction.ts"
import { makeTurns } from "./Database/turns.ts"
import { monotonicMillis } from "./monotonicMillis.ts"
import { lookingUpAhead } from "./Egress/Ahead.ts"
import { SecretBox } from "./SecretBox.ts"
import { StoreClock } from "./StoreClock.ts"

/** How long an answer is kept. */
export const KEPT = "24 hours"
/** How long a second request waits for the first one's answer. */
const WAIT_MILLIS = 5_000

/**
 * Operations under a key that one process runs at once for an organization. Each holds a connection of the pool to its end, and one that
 * comes second while it waits for the first: a handful must not leave the others without one. Names are looked up without one.
 */
const AT_ONCE = 4

/**
 * The same `Idempotency-Key` with the same body gives the same answer. The key's row, what the operation writes and its answer
 * are one transaction: a process that dies in between leaves nothing, and a second request waits at the row until the first
 * has committed. Answers are sealed, since some hold a secret that is shown once. A refused request leaves no row: it created
 * nothing, and may be sent again.
 */
export const layer: Layer.Layer<Idempotent, never, SqlClient.SqlClient | SecretBox | StoreClock> =
  Layer.effect(
    Idempotent,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const box = yield* SecretBox
      const clock = yield* StoreClock

      const place = ({ org_id }: Principal, operation: string, key: string) => ({
        org_id,
        table: "idempotency_keys",
        row_id: `${operation} ${key}`,
        column: "answer"
      })

      /** Takes the key; what stands under it where it was taken before. */
      const take = Effect.fnUntraced(function* (
        { org_id }: Principal,
        operation: string,
        key: string,
        fingerprint: Uint8Array,
        leftMillis: number
      ) {
        const at = toDate(yield* clock.now)
        yield* sql`SELECT set_config('lock_timeout', ${`${Math.max(1, Math.ceil(leftMillis))}ms`}, true)`
        const taken = yield* sql`
          INSERT INTO idempotency_keys AS kept (org_id, operation, key, fingerprint, created_at)
          VALUES (${org_id}, ${operation}, ${key}, ${fingerprint}, ${at})
          ON CONFLICT (org_id, operation, key) DO UPDATE
          SET fingerprint = excluded.fingerprint, created_at = excluded.created_at, answer = NULL
          WHERE kept.created_at < ${at}::timestamptz - ${KEPT}::interval
          RETURNING 1 AS taken
        `
        yield* sql`SET LOCAL lock_timeout TO DEFAULT`
        if (taken.length > 0) return Option.none()
        const rows = yield* sql`
          SELECT fingerprint, answer
          FROM idempotency_keys
          WHERE org_id = ${org_id}
            AND operation = ${operation}
            AND key = ${key}
        `
        return Option.fromUndefinedOr((yield* decodeKept(rows))[0])
      })

      const once = Effect.fnUntraced(function* <E, R>(
        operation: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
        name: string,
        key: string,
        takesBody: boolean,
        until: number
      ) {
        const principal = yield* CurrentPrincipal
        const request = yield* HttpServerRequest.HttpServerRequest
        const body = takesBody ? yield* Effect.orDie(request.arrayBuffer) : new ArrayBuffer(0)
        const fingerprint = createHash("sha256")
          // Another key of the organization is another caller: the answer may hold a secret that is the first one's alone.
          .update(principal.actor.id)
          .update("\n")
          .update(request.url)
          .update("\n")
          .update(new Uint8Array(body))
          .digest()
        const kept = yield* take(principal, name, key, fingerprint, until - (yield* now)).pipe(
          Effect.catchTags({
            SqlError: (error) => (error.reason._tag === "LockTimeoutError" ? stillAtWork : Effect.fail(error))
          })
        )
        if (Option.isSome(kept)) {
          if (!Buffer.from(kept.value.fingerprint).equals(fingerprint)) {
            return yield* new IdempotencyKeyReused({
              detail: "An Idempotency-Key is for one request of one API key: use another"
            })
          }
          const opened = yield* Effect.orDie(box.open(place(principal, name, key), kept.value.answer))
          return yield* Effect.map(Effect.orDie(decodeAnswer(Redacted.value(opened))), toResponse)
        }
        const response = yield* operation
        const answer = yield* Effect.orDie(Effect.flatMap(fromResponse(response), encodeAnswer))
        const sealed = yield* box.seal(place(principal, name, key), Redacted.make(answer))
        yield* sql`
          UPDATE idempotency_keys
          SET answer = ${sealed}
          WHERE org_id = ${principal.org_id}
            AND operation = ${name}
            AND key = ${key}
        `
        return response
      })

      const turnOf = makeTurns(AT_ONCE)
      /** What is under way in this process, by its key. */
      const underWay = new Map<string, Latch.Latch>()

      /** Runs what nothing else under its key runs beside here: who comes second takes no turn meanwhile that others wait for. */
      const alone = Effect.fnUntraced(function* <A, E, R>(
        name: string,
        run: (until: number) => Effect.Effect<A, E, R>
      ) {
        const until = (yield* now) + WAIT_MILLIS
        for (let first = underWay.get(name); first !== undefined; first = underWay.get(name)) {
          const ended = yield* Effect.timeoutOption(first.await, Math.max(0, until - (yield* now)))
          if (Option.isNone(ended)) return yield* stillAtWork
        }
        const end = Latch.makeUnsafe(false)
        return yield* Effect.acquireUseRelease(
          Effect.sync(() => underWay.set(name, end)),
          () => run(until),
          () =>
            Effect.sync(() => {
              underWay.delete(name)
              end.openUnsafe()
            })
        )
      })

      return Idempotent.of((operation, { endpoint, group }) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) => {
          const key = headers["idempotency-key"]
          if (key === undefined || key.length === 0 || key.length > 255) return operation
          const name = `${group.identifier}.${endpoint.identifier}`
          const run = (until: number) =>
            atomically(once(operation, name, key, endpoint.payload.size > 0, until))
          return Effect.flatMap(CurrentPrincipal, ({ org_id }) =>
            alone(`${org_id} ${name} ${key}`, (until) => lookingUpAhead(turnOf(org_id)(run(until))))
          ).pipe(dieOfStoreFaults, Effect.provideService(SqlClient.SqlClient, sql))
        })
      )
    })
  )

const stillAtWork = Effect.fail(
  new IdempotencyKeyInUse({ detail: "The first request with this key is still at work; ask again" })
)

const now = Effect.map(Clock.Clock, monotonicMillis)

const decodeKept = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ fingerprint: Schema.Uint8Array, answer: Schema.Uint8Array }))
)

/** An answer as it is kept: every operation that creates answers with a JSON text. */
const Answer = Schema.fromJsonString(
  Schema.Struct({
    status: Schema.Int,
    headers: Schema.Record(Schema.String, Schema.String),
    body: Schema.String
  })
)
const encodeAnswer = Schema.encodeEffect(Answer)
const decodeAnswer = Schema.decodeEffect(Answer)

const fromResponse = ({ body, headers, status }: HttpServerResponse.HttpServerResponse) =>
  body._tag === "Uint8Array"
    ? Effect.succeed({
        status,
        headers: { ...headers },
        body: body.text ?? Buffer.from(body.body).toString()
      })
    : Effect.die(new Error("An operation that creates answers with a body of bytes"))

const toResponse = ({ body, headers, status }: typeof Answer.Type) =>
  HttpServerResponse.raw(undefined, { status, headers }).pipe(
    HttpServerResponse.setBody(HttpBody.text(body, headers["content-type"] ?? "application/json"))
  )
