import { Clock, Effect, Redacted, Result, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { IdempotencyKeyInUse, IdempotencyKeyReused } from "../../api/Problems.ts"
import type { NewRun } from "../../api/Tasks.ts"
import { canonicalJson } from "../../domain/CanonicalJson.ts"
import type { TaskId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/Principal.ts"
import { TaskRun } from "../../domain/Run.ts"
import { toDate } from "../../domain/Time.ts"
import type { SecretBox } from "../SecretBox.ts"
import type { StoreClock } from "../StoreClock.ts"

/** The operation that keys of runs stand under. */
const OPERATION = "tasks.run"

/** How long an answer is kept. */
const KEPT = "24 hours"

/** A run takes two minutes at most: a key whose run has no answer after this was left by a process that died. */
const LEFT_BEHIND = "150 seconds"

/** How long a second request waits for the first one's answer, and how often it looks. */
const WAIT_MILLIS = 5_000
const LOOK_EVERY = "100 millis"

const Kept = Schema.Struct({ fingerprint: Schema.Uint8Array, answer: Schema.NullOr(Schema.Uint8Array) })

const decodeKept = Schema.decodeUnknownEffect(Schema.Array(Kept))

const Answer = Schema.fromJsonString(Schema.toCodecJson(TaskRun))
const encodeAnswer = Schema.encodeEffect(Answer)
const decodeAnswer = Schema.decodeEffect(Answer)

/** What a key of a run is taken for. */
export interface Once {
  readonly principal: Principal
  readonly key: string
  readonly task_id: TaskId
  readonly input: NewRun
}

/**
 * The same key with the same run gives the same answer for 24 hours, as on every operation that creates. A run may take as long as its model,
 * so it is not done within the transaction that takes the key: the key is taken first, the answer kept in the transaction that
 * logs the run, and the key given back where there is none. `keep` is to be run in that transaction.
 */
export const runOnce =
  (sql: SqlClient.SqlClient, box: SecretBox["Service"], clock: StoreClock["Service"]) =>
  <E, R>(
    { input, key, principal, task_id }: Once,
    run: (keep: (answer: TaskRun) => Effect.Effect<void>) => Effect.Effect<TaskRun, E, R>
  ) => {
    const { actor, org_id } = principal
    const place = { org_id, table: "idempotency_keys", row_id: `${OPERATION} ${key}`, column: "answer" }
    const mine = sql`
      org_id = ${org_id}
      AND operation = ${OPERATION}
      AND key = ${key}
    `

    /** Takes the key as of now, unless it is taken. */
    const take = Effect.fnUntraced(function* (fingerprint: Uint8Array, now: Date) {
      const rows = yield* sql`
        INSERT INTO idempotency_keys AS kept (org_id, operation, key, fingerprint, created_at)
        VALUES (${org_id}, ${OPERATION}, ${key}, ${fingerprint}, ${now})
        ON CONFLICT (org_id, operation, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, created_at = excluded.created_at, answer = NULL
        WHERE kept.created_at < ${now}::timestamptz - ${KEPT}::interval
          OR (kept.answer IS NULL AND kept.created_at < ${now}::timestamptz - ${LEFT_BEHIND}::interval)
        RETURNING 1 AS taken
      `
      return rows.length > 0
    }, Effect.orDie)

    const look = sql`
      SELECT fingerprint, answer
      FROM idempotency_keys
      WHERE ${mine}
    `.pipe(Effect.flatMap(decodeKept), Effect.orDie)

    // Only what was taken then: another may have taken it over since.
    const keepOf = (taken: Date) =>
      Effect.fnUntraced(function* (answer: TaskRun) {
        const sealed = yield* box.seal(place, Redacted.make(yield* encodeAnswer(answer)))
        yield* sql`
          UPDATE idempotency_keys
          SET answer = ${sealed}
          WHERE ${mine}
            AND created_at = ${taken}
        `
      }, Effect.orDie)

    const giveBack = (taken: Date) =>
      Effect.ignore(sql`
        DELETE FROM idempotency_keys
        WHERE ${mine}
          AND created_at = ${taken}
          AND answer IS NULL
      `)

    return Effect.gen(function* () {
      const fingerprint = createHash("sha256")
        .update(Result.getOrThrow(canonicalJson([actor.id, task_id, asJson(input)])))
        .digest()
      const until = (yield* Clock.currentTimeMillis) + WAIT_MILLIS
      for (;;) {
        const now = toDate(yield* clock.now)
        if (yield* take(fingerprint, now)) {
          return yield* Effect.onError(run(keepOf(now)), () => giveBack(now))
        }
        const [kept] = yield* look
        if (kept !== undefined && !fingerprint.equals(kept.fingerprint)) {
          return yield* new IdempotencyKeyReused({
            detail: "An Idempotency-Key is for one request of one API key: use another"
          })
        }
        if (kept !== undefined && kept.answer !== null) {
          const opened = yield* Effect.orDie(box.open(place, kept.answer))
          return yield* Effect.orDie(decodeAnswer(Redacted.value(opened)))
        }
        if ((yield* Clock.currentTimeMillis) >= until) {
          return yield* new IdempotencyKeyInUse({
            detail: "The first request with this key is still at work; ask again"
          })
        }
        yield* Effect.sleep(LOOK_EVERY)
      }
    })
  }

/** A run as it was given, its absent parts left out. */
const asJson = ({ answer, input, metadata, session_id }: NewRun): Schema.Json => ({
  input,
  ...(answer === undefined ? {} : { answer }),
  ...(metadata === undefined ? {} : { metadata }),
  ...(session_id === undefined ? {} : { session_id })
})
