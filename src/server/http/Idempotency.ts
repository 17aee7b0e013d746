import { Effect, Latch, Layer, Option, Redacted, Schema } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlClient, type SqlError } from "effect/sql"
import { createHash } from "node:crypto"
import { CurrentPrincipal } from "../../api/Authorization.ts"
import { Idempotent } from "../../api/Middleware.ts"
import { toDate } from "../../domain/Time.ts"
import { dieOnDatabaseError } from "../store/Database/databaseErrors.ts"
import { atomic } from "../store/Database/transaction.ts"
import { makeKeyedSemaphore } from "../concurrency/KeyedSemaphore.ts"
import { withDnsPrefetch } from "../egress/Egress/PrefetchedDns.ts"
import {
  answerPlace,
  findAnswer,
  type IdempotencyKey,
  storeAnswer,
  requestInProgress,
  claimKey,
  WAIT_MILLIS
} from "../store/idempotencyKeys.ts"
import { monotonicNow } from "../concurrency/monotonicMillis.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { StoreClock } from "../store/StoreClock.ts"

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

      /** Takes the key; where another transaction has it, waits for that one's end. */
      const take = Effect.fnUntraced(
        function* (key: IdempotencyKey, fingerprint: Uint8Array, at: Date, leftMillis: number) {
          yield* sql`SELECT set_config('lock_timeout', ${`${Math.max(1, Math.ceil(leftMillis))}ms`}, true)`
          const taken = yield* claimKey(sql, key, fingerprint, at)
          yield* sql`SET LOCAL lock_timeout TO DEFAULT`
          return taken
        },
        Effect.catchIf(isLockTimeout, () => requestInProgress)
      )

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
        const mine = { org_id: principal.org_id, operation: name, key }
        const at = toDate(yield* clock.now)
        if (!(yield* take(mine, fingerprint, at, until - (yield* monotonicNow)))) {
          const kept = yield* findAnswer(sql, mine, fingerprint)
          // Keys and answers are committed together.
          const opened = yield* Effect.orDie(box.unseal(answerPlace(mine), Option.getOrThrow(kept)))
          return yield* Effect.map(Effect.orDie(decodeAnswer(Redacted.value(opened))), toResponse)
        }
        const response = yield* operation
        const answer = yield* Effect.orDie(Effect.flatMap(fromResponse(response), encodeAnswer))
        yield* storeAnswer(sql, mine, at, yield* box.seal(answerPlace(mine), Redacted.make(answer)))
        return response
      })

      const turnOf = makeKeyedSemaphore(AT_ONCE)
      /** What is under way in this process, by its key. */
      const underWay = new Map<string, Latch.Latch>()

      /** Runs what nothing else under its key runs beside here: who comes second takes no turn meanwhile that others wait for. */
      const alone = Effect.fnUntraced(function* <A, E, R>(
        name: string,
        run: (until: number) => Effect.Effect<A, E, R>
      ) {
        const until = (yield* monotonicNow) + WAIT_MILLIS
        for (let first = underWay.get(name); first !== undefined; first = underWay.get(name)) {
          const ended = yield* Effect.timeoutOption(first.await, Math.max(0, until - (yield* monotonicNow)))
          if (Option.isNone(ended)) return yield* requestInProgress
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
            alone(`${org_id} ${name} ${key}`, (until) => withDnsPrefetch(turnOf(org_id)(run(until))))
          ).pipe(dieOnDatabaseError, Effect.provideService(SqlClient.SqlClient, sql))
        })
      )
    })
  )

const isLockTimeout = (error: SqlError.SqlError) => error.reason._tag === "LockTimeoutError"

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
