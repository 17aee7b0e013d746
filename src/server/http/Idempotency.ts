import { Effect, Layer, Option, Redacted, Schema } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlClient, type SqlError } from "effect/sql"
import { createHash } from "node:crypto"
import { CurrentPrincipal } from "../../api/Authorization.ts"
import { Idempotent } from "../../api/Middleware.ts"
import { toDate } from "../../domain/Time.ts"
import { dieOnDatabaseError, permitTimeout } from "../store/databaseErrors.ts"
import { atomic } from "../store/transaction.ts"
import { makeKeyedSemaphore } from "../admission/KeyedSemaphore.ts"
import { yieldingOnly } from "../admission/LoopTurns.ts"
import { withDnsPrefetch } from "../egress/PrefetchedDns.ts"
import {
  responsePlace,
  findResponse,
  type IdempotencyKey,
  storeResponse,
  requestInProgress,
  claimKey,
  WAIT_MILLIS
} from "../store/idempotencyKeys.ts"
import { monotonicNow } from "../concurrency/monotonicMillis.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { StoreClock } from "../store/StoreClock.ts"

/**
 * Operations with a key that one replica runs concurrently for an organization. Each holds a connection of the pool
 * until it ends, and a duplicate holds one while it waits for the first request. The limit leaves connections for other
 * organizations. DNS lookups run before that, without a connection.
 */
const MAX_CONCURRENT = 4

/**
 * Requests with the same `Idempotency-Key` and the same body get the same response. The key's row, the writes of the
 * operation and its response are one transaction. If the process dies, nothing is left. A duplicate on another replica
 * waits for the row lock until the first request has committed. Responses are sealed, because some contain a secret
 * that is shown once. A failed request leaves no row: it created nothing and can be sent again.
 */
export const layer: Layer.Layer<Idempotent, never, SqlClient.SqlClient | SecretBox | StoreClock> =
  Layer.effect(
    Idempotent,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const box = yield* SecretBox
      const clock = yield* StoreClock

      /** Claims the key. If another transaction is claiming it, waits for the end of that transaction. */
      const claim = Effect.fnUntraced(
        function* (key: IdempotencyKey, fingerprint: Uint8Array, at: Date, leftMillis: number) {
          yield* sql`SELECT set_config('lock_timeout', ${`${Math.max(1, Math.ceil(leftMillis))}ms`}, true)`
          const claimed = yield* claimKey(sql, key, fingerprint, at)
          yield* sql`SET LOCAL lock_timeout TO DEFAULT`
          return claimed
        },
        Effect.catchIf(isLockTimeout, () => requestInProgress)
      )

      /** Runs the operation, or returns the stored response of an earlier request. */
      const runOnce = Effect.fnUntraced(function* <E, R>(
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
          // Another API key of the organization is another caller: the response may contain a secret for the first caller alone.
          .update(principal.actor.id)
          .update("\n")
          .update(request.url)
          .update("\n")
          .update(new Uint8Array(body))
          .digest()
        const idempotencyKey = { org_id: principal.org_id, operation: name, key }
        const at = toDate(yield* clock.now)
        if (!(yield* claim(idempotencyKey, fingerprint, at, until - (yield* monotonicNow)))) {
          const sealed = yield* findResponse(sql, idempotencyKey, fingerprint)
          // A key and its response are committed together, so the response exists.
          const unsealed = yield* Effect.orDie(
            box.unseal(responsePlace(idempotencyKey), Option.getOrThrow(sealed))
          )
          const stored = yield* Effect.orDie(decodeResponse(Redacted.value(unsealed)))
          return HttpServerResponse.setHeader(toResponse(stored), "idempotent-replayed", "true")
        }
        const response = yield* yieldingOnly(operation)
        const stored = yield* Effect.orDie(Effect.flatMap(fromResponse(response), encodeResponse))
        yield* storeResponse(
          sql,
          idempotencyKey,
          at,
          yield* box.seal(responsePlace(idempotencyKey), Redacted.make(stored))
        )
        return response
      })

      const withOrganizationPermit = makeKeyedSemaphore({
        permits: MAX_CONCURRENT,
        onTimeout: permitTimeout
      })
      /** Duplicates on one replica wait here and hold neither a connection nor a permit of the organization. */
      const withKeyPermit = makeKeyedSemaphore({
        permits: 1,
        timeout: WAIT_MILLIS,
        onTimeout: requestInProgress
      })

      return Idempotent.of((operation, { endpoint, group }) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) => {
          const key = headers["idempotency-key"]
          if (key === undefined || key.length === 0 || key.length > 255) return operation
          const name = `${group.identifier}.${endpoint.identifier}`
          return Effect.gen(function* () {
            const { org_id } = yield* CurrentPrincipal
            // The wait here and the wait for the row lock share one time limit.
            const until = (yield* monotonicNow) + WAIT_MILLIS
            const run = atomically(runOnce(operation, name, key, endpoint.payload.size > 0, until))
            return yield* withKeyPermit(`${org_id} ${name} ${key}`)(
              withDnsPrefetch(withOrganizationPermit(org_id)(run))
            )
          }).pipe(dieOnDatabaseError, Effect.provideService(SqlClient.SqlClient, sql))
        })
      )
    })
  )

const isLockTimeout = (error: SqlError.SqlError) => error.reason._tag === "LockTimeoutError"

/** A stored response. Every operation that accepts a key responds with a JSON text. */
const StoredResponse = Schema.fromJsonString(
  Schema.Struct({
    status: Schema.Int,
    headers: Schema.Record(Schema.String, Schema.String),
    body: Schema.String
  })
)
const encodeResponse = Schema.encodeEffect(StoredResponse)
const decodeResponse = Schema.decodeEffect(StoredResponse)

const fromResponse = ({ body, headers, status }: HttpServerResponse.HttpServerResponse) =>
  body._tag === "Uint8Array"
    ? Effect.succeed({
        status,
        headers: { ...headers },
        body: body.text ?? Buffer.from(body.body).toString()
      })
    : Effect.die(new Error("An operation with an idempotency key responded with a binary body"))

const toResponse = ({ body, headers, status }: typeof StoredResponse.Type) =>
  HttpServerResponse.raw(undefined, { status, headers }).pipe(
    HttpServerResponse.setBody(HttpBody.text(body, headers["content-type"] ?? "application/json"))
  )
