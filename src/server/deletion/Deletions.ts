import { Array as Arr, Context, DateTime, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { Authorized } from "../../api/Authorization.ts"
import type { NewErasure } from "../../api/Deletions.ts"
import { notFound } from "../../api/notFound.ts"
import type { PageRequest } from "../../api/Pagination.ts"
import { LimitReached, type NotFound } from "../../api/Problems.ts"
import type { Deletion } from "../../domain/deletion/Deletion.ts"
import type { DeletionId, OrgId } from "../../domain/Ids.ts"
import { runWorker, startWorkers } from "../concurrency/Worker.ts"
import { Audit } from "../identity/Audit.ts"
import { Organizations } from "../identity/Organizations.ts"
import { StoredUsage } from "../identity/StoredUsage.ts"
import { countDeleted } from "../tasks/countDeleted.ts"
import { EndUsers } from "../tasks/EndUsers.ts"
import { type Page, toPage } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import {
  countRunningDeletions,
  deferDeletion,
  type DeletionRow,
  findDeletion,
  insertDeletion,
  listDeletions,
  lockDueDeletion,
  toDeletion,
  writeProgress
} from "../tasks/deletionRows.ts"
import { runStep } from "./Deletions/runStep.ts"

/** Erasures of one organization that run at a time. */
const MAX_ERASURES = 100

/** Steps of one run of the worker. */
const MAX_STEPS = 50

/** How often a replica looks for deletions that are due. */
const EVERY = Duration.seconds(2)

/** When a step that failed is tried again, so that the deletions behind it are not held up. */
const RETRY_AFTER = Duration.seconds(10)

/**
 * When a completed deletion is repeated once: runs that were in progress when it was requested have been logged by then.
 * A run takes a few minutes at most.
 */
const REPEATED_AFTER = Duration.minutes(15)

/**
 * Deletions that take more than one transaction: of tasks, of dataset versions and of the data of a data subject. The
 * deletion is a row; a worker deletes a bounded amount and writes its progress in one transaction, with the row locked.
 * So a replica that is killed loses nothing and repeats nothing, and any other continues.
 */
export class Deletions extends Context.Service<
  Deletions,
  {
    /** Lists the organization's deletions, newest first. */
    readonly list: (
      request: PageRequest<DeletionId>
    ) => Effect.Effect<Page<Deletion, DeletionId>, never, Authorized<"data.delete">>
    /** Returns one deletion with its progress. */
    readonly get: (id: DeletionId) => Effect.Effect<Deletion, NotFound, Authorized<"data.delete">>
    /** Requests the erasure of a data subject. */
    readonly erase: (input: NewErasure) => Effect.Effect<Deletion, LimitReached, Authorized<"data.delete">>
    /**
     * Runs one step of the deletion that has been due for the longest time, or defers it if another change of its dataset
     * is in progress. None if no deletion is due.
     */
    readonly runOnce: Effect.Effect<Option.Option<Deletion>>
  }
>()("countersign/server/deletion/Deletions") {
  static readonly layer = Layer.effect(
    Deletions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const clock = yield* StoreClock
      const organizations = yield* Organizations
      const usage = yield* StoredUsage
      const endUsers = yield* EndUsers

      /** The data subject of an erasure as it is stored, and for the audit log: neither has the value or ID of the request. */
      const subjectOf = Effect.fnUntraced(function* (org_id: OrgId, input: NewErasure) {
        if ("end_user_id" in input) {
          const end_user = yield* endUsers.pseudonym(org_id, input.end_user_id)
          return { subject: { end_user }, detail: { end_user } }
        }
        const { metadata_key, metadata_value } = input
        const metadata_digest = createHash("sha256")
          .update(`${metadata_key}=${JSON.stringify(metadata_value)}`)
          .digest()
        return {
          subject: { metadata_key, metadata_digest },
          detail: { metadata_key, metadata_digest: metadata_digest.toString("hex") }
        }
      })

      /** Runs the next step. `onLocked` gets its deletion, which is deferred if the step fails. */
      const step = Effect.fnUntraced(function* (onLocked: (row: DeletionRow) => void) {
        const now = yield* clock.now
        const row = yield* lockDueDeletion(sql, now)
        if (row === undefined) return Option.none()
        onLocked(row)
        const { deleted, next } = yield* runStep({ sql, usage, now }, row)
        const counted: DeletionRow = {
          ...row,
          runs: row.runs + (deleted.runs ?? 0),
          feedback: row.feedback + (deleted.feedback ?? 0),
          examples: row.examples + (deleted.examples ?? 0),
          sessions: row.sessions + (deleted.sessions ?? 0)
        }
        if (next !== null) {
          yield* writeProgress(sql, { ...counted, ...next }, now)
          return Option.some({ row: counted, deleted })
        }
        const isFirst = row.status === "running"
        const finished: DeletionRow = {
          ...counted,
          status: "completed",
          phase: "begin",
          cursor: null,
          finished_at: row.finished_at ?? now
        }
        yield* writeProgress(sql, finished, isFirst ? DateTime.addDuration(now, REPEATED_AFTER) : null)
        return Option.some({ row: finished, deleted })
      })

      const defer = (row: DeletionRow) =>
        Effect.ignore(
          Effect.flatMap(clock.now, (now) => deferDeletion(sql, row, DateTime.addDuration(now, RETRY_AFTER)))
        )

      const runOnce = Effect.gen(function* () {
        const locked: Array<DeletionRow> = []
        const done = yield* atomically(step((row) => void locked.push(row))).pipe(
          Effect.onError(() =>
            Effect.suspend(() => {
              const row = locked.at(-1)
              return row === undefined ? Effect.void : defer(row)
            })
          ),
          // An import holds the lock of the dataset: the step was deferred, and the deletions behind it go on.
          Effect.catchTag("DATASET_BUSY", () =>
            Effect.sync(() => Option.map(Arr.last(locked), (row) => ({ row, deleted: {} })))
          )
        )
        if (Option.isNone(done)) return Option.none()
        yield* countDeleted("request", done.value.deleted)
        return Option.some(toDeletion(done.value.row))
      }).pipe(Effect.withSpan("Deletions.runOnce"))

      return Deletions.of({
        runOnce,
        list: Effect.fn("Deletions.list")(function* (request) {
          const { org_id } = yield* Authorized("data.delete")
          const rows = yield* listDeletions(sql, org_id, request)
          return toPage(request, rows.map(toDeletion), (deletion) => deletion.id)
        }, Effect.orDie),
        get: Effect.fn("Deletions.get")(function* (id) {
          const { org_id } = yield* Authorized("data.delete")
          const row = yield* Effect.orDie(findDeletion(sql, org_id, id))
          return row === undefined ? yield* notFound("deletion") : toDeletion(row)
        }),
        erase: Effect.fn("Deletions.erase")(function* (input) {
          const principal = yield* Authorized("data.delete")
          const { detail, subject } = yield* subjectOf(principal.org_id, input)
          const now = yield* clock.now
          return yield* atomically(
            Effect.gen(function* () {
              // Serializes requests of the organization, so that concurrent ones cannot exceed the limit.
              yield* organizations.lockForUpdate(principal.org_id)
              if ((yield* countRunningDeletions(sql, principal.org_id, MAX_ERASURES)) >= MAX_ERASURES) {
                return yield* new LimitReached({
                  detail: `An organization can have at most ${MAX_ERASURES} running deletions. Wait for one to finish.`
                })
              }
              const deletion = yield* insertDeletion(sql, principal, { kind: "erasure", ...subject }, now)
              yield* audit.record(principal, "erasure.requested", deletion.id, detail)
              return deletion
            })
          )
        })
      })
    })
  )

  /** The worker `deletions`. */
  static readonly layerWorker: Layer.Layer<never, never, Deletions | StoreClock> = Layer.effectDiscard(
    Effect.gen(function* () {
      const deletions = yield* Deletions
      yield* countDeleted("request", {})
      const { clock } = yield* StoreClock
      const run = Effect.gen(function* () {
        let steps = 0
        while (steps < MAX_STEPS && Option.isSome(yield* deletions.runOnce)) steps++
        return { counts: { steps }, ...(steps === MAX_STEPS ? { next: "10 millis" as const } : {}) }
      })
      yield* startWorkers([
        runWorker({ name: "deletions", runOnce: run, every: EVERY, clock, retryAfter: "1 second" })
      ])
    })
  )
}
