import { Effect, Option, Redacted, Result, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { createHash } from "node:crypto"
import type { NewRun } from "../../../api/Tasks.ts"
import { canonicalJson } from "../../../domain/json/CanonicalJson.ts"
import type { TaskId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { ModelCall, TaskRun } from "../../../domain/tasks/Run.ts"
import { toDate } from "../../../domain/Time.ts"
import {
  responsePlace,
  claimKey,
  findResponse,
  type IdempotencyKey,
  releaseKey,
  requestInProgress,
  storeResponse,
  WAIT_MILLIS
} from "../../store/idempotencyKeys.ts"
import { nextTurn } from "../../admission/LoopTurns.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import type { StoreClock } from "../../store/StoreClock.ts"
import type { KeyClaim } from "./keyClaims.ts"

/** The operation of runs in `idempotency_keys`. */
const OPERATION = "tasks.run"

/** How often a repeated request polls for the response of the first one. */
const POLL_INTERVAL = "100 millis"

const StoredResponse = Schema.fromJsonString(Schema.toCodecJson(TaskRun))
const encodeResponse = Schema.encodeEffect(StoredResponse)
const decodeResponse = Schema.decodeEffect(StoredResponse)
const encodeModelCall = Schema.encodeSync(Schema.toCodecJson(ModelCall))

/** A run request with its idempotency key. */
export interface IdempotentRun {
  readonly principal: Principal
  readonly key: string
  readonly task_id: TaskId
  readonly request: NewRun
}

/** Makes the SQL that stores a response under the idempotency key, as part of the statement that logs the run. */
export type SaveResponse = (response: TaskRun) => Effect.Effect<Statement.Fragment>

/** Makes the claim of the idempotency key together with the response. */
export type ClaimKey = (response: TaskRun) => Effect.Effect<KeyClaim>

const fingerprintOf = ({ principal: { actor }, request, task_id }: IdempotentRun): Uint8Array =>
  createHash("sha256")
    .update(Result.getOrThrow(canonicalJson([actor.id, task_id, asJson(request)])))
    .digest()

const sealResponse = (box: SecretBox["Service"], key: IdempotencyKey, response: TaskRun) =>
  Effect.flatMap(encodeResponse(response), (text) => box.seal(responsePlace(key), Redacted.make(text)))

/** Makes the claim of a run whose answer the caller supplies. */
export const makeKeyClaim =
  (box: SecretBox["Service"], clock: StoreClock["Service"]) =>
  (run: IdempotentRun): ClaimKey =>
    Effect.fnUntraced(function* (response) {
      const { key, principal } = run
      const idempotencyKey = { org_id: principal.org_id, operation: OPERATION, key }
      yield* nextTurn
      const claim: KeyClaim = {
        operation: OPERATION,
        key,
        fingerprint: fingerprintOf(run),
        claimed_at: yield* clock.now,
        answer: yield* sealResponse(box, idempotencyKey, response)
      }
      return claim
    }, Effect.orDie)

/**
 * Returns the same response to the same run with the same key for 24 hours, like every operation that creates something. A run may take as
 * long as its model, so it cannot be one transaction with its key. The key is claimed first, the statement that logs the run stores the
 * response, and the key is released if the run fails. A run whose answer the caller supplies first tries to claim its key by the statement
 * that logs it (`makeKeyClaim`); this is for what that statement refuses.
 */
export const makeRunIdempotency =
  (sql: SqlClient.SqlClient, box: SecretBox["Service"], clock: StoreClock["Service"]) =>
  <E, R>(idempotentRun: IdempotentRun, run: (saveResponse: SaveResponse) => Effect.Effect<TaskRun, E, R>) => {
    const { key, principal } = idempotentRun
    const idempotencyKey = { org_id: principal.org_id, operation: OPERATION, key }

    const saveResponseOf = (claimedAt: Date): SaveResponse =>
      Effect.fnUntraced(function* (response) {
        const sealed = yield* sealResponse(box, idempotencyKey, response)
        return storeResponse(sql, idempotencyKey, claimedAt, sealed)
      }, Effect.orDie)

    /** Runs if the key can be claimed. Not interruptible in between: the statement would claim the key for a run that never begins. */
    const claimAndRun = (fingerprint: Uint8Array, now: Date) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(Effect.orDie(claimKey(sql, idempotencyKey, fingerprint, now)), (isClaimed) =>
          isClaimed
            ? restore(run(saveResponseOf(now))).pipe(
                Effect.onError(() => Effect.ignore(releaseKey(sql, idempotencyKey, now))),
                Effect.asSome
              )
            : Effect.succeedNone
        )
      )

    return Effect.gen(function* () {
      yield* nextTurn
      const fingerprint = fingerprintOf(idempotentRun)
      const until = (yield* monotonicNow) + WAIT_MILLIS
      for (;;) {
        const performed = yield* claimAndRun(fingerprint, toDate(yield* clock.now))
        if (Option.isSome(performed)) return performed.value
        const stored = yield* findResponse(sql, idempotencyKey, fingerprint)
        if (Option.isSome(stored)) {
          const text = yield* Effect.orDie(box.unseal(responsePlace(idempotencyKey), stored.value))
          return yield* Effect.orDie(decodeResponse(Redacted.value(text)))
        }
        if ((yield* monotonicNow) >= until) return yield* requestInProgress
        yield* Effect.sleep(POLL_INTERVAL)
      }
    })
  }

/** The request as JSON, without its absent members. */
const asJson = ({ answer, answered_by, canary_key, input, metadata, session_id }: NewRun): Schema.Json => ({
  input,
  ...(canary_key === undefined ? {} : { canary_key }),
  ...(answer === undefined ? {} : { answer }),
  ...(answered_by === undefined ? {} : { answered_by: encodeModelCall(answered_by) }),
  ...(metadata === undefined ? {} : { metadata }),
  ...(session_id === undefined ? {} : { session_id })
})
