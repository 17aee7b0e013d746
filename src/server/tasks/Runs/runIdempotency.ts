import { Effect, Option, Redacted, Result, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { createHash } from "node:crypto"
import type { NewRun } from "../../../api/Tasks.ts"
import { canonicalJson } from "../../../domain/json/CanonicalJson.ts"
import type { TaskId } from "../../../domain/Ids.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { TaskRun } from "../../../domain/tasks/Run.ts"
import { toDate } from "../../../domain/Time.ts"
import {
  answerPlace,
  findAnswer,
  releaseKey,
  storeAnswer,
  requestInProgress,
  claimKey,
  WAIT_MILLIS
} from "../../store/idempotencyKeys.ts"
import { monotonicNow } from "../../concurrency/monotonicMillis.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import type { StoreClock } from "../../store/StoreClock.ts"

/** The operation that keys of runs stand under. */
const OPERATION = "tasks.run"

/** How often a second request looks for the first one's answer. */
const POLL_INTERVAL = "100 millis"

const Answer = Schema.fromJsonString(Schema.toCodecJson(TaskRun))
const encodeAnswer = Schema.encodeEffect(Answer)
const decodeAnswer = Schema.decodeEffect(Answer)

/** What a key of a run is taken for. */
export interface IdempotentRun {
  readonly principal: Principal
  readonly key: string
  readonly task_id: TaskId
  readonly input: NewRun
}

/** What is to be written by the very statement that logs a run: the answer, under the key. */
export type SaveAnswer = (answer: TaskRun) => Effect.Effect<Statement.Fragment>

/**
 * The same key with the same run gives the same answer for 24 hours, as on every operation that creates. A run may take as long as its model,
 * so it is not done within a transaction that takes the key: the key is taken first, the answer kept by the statement that logs the run, and
 * the key given back where there is none.
 */
export const makeRunIdempotency =
  (sql: SqlClient.SqlClient, box: SecretBox["Service"], clock: StoreClock["Service"]) =>
  <E, R>(
    { input, key, principal, task_id }: IdempotentRun,
    run: (keep: SaveAnswer) => Effect.Effect<TaskRun, E, R>
  ) => {
    const { actor, org_id } = principal
    const mine = { org_id, operation: OPERATION, key }

    const keepOf = (taken: Date): SaveAnswer =>
      Effect.fnUntraced(function* (answer) {
        const sealed = yield* box.seal(answerPlace(mine), Redacted.make(yield* encodeAnswer(answer)))
        return storeAnswer(sql, mine, taken, sealed)
      }, Effect.orDie)

    return Effect.gen(function* () {
      const fingerprint = createHash("sha256")
        .update(Result.getOrThrow(canonicalJson([actor.id, task_id, asJson(input)])))
        .digest()
      const until = (yield* monotonicNow) + WAIT_MILLIS
      for (;;) {
        const now = toDate(yield* clock.now)
        if (yield* Effect.orDie(claimKey(sql, mine, fingerprint, now))) {
          return yield* Effect.onError(run(keepOf(now)), () => Effect.ignore(releaseKey(sql, mine, now)))
        }
        const kept = yield* findAnswer(sql, mine, fingerprint)
        if (Option.isSome(kept)) {
          const opened = yield* Effect.orDie(box.unseal(answerPlace(mine), kept.value))
          return yield* Effect.orDie(decodeAnswer(Redacted.value(opened)))
        }
        if ((yield* monotonicNow) >= until) return yield* requestInProgress
        yield* Effect.sleep(POLL_INTERVAL)
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
