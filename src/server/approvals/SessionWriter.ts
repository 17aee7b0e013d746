/**
 * Group commit for agent sessions: steps, decisions and outcomes of many requests are written by one statement, which is a transaction of
 * its own.
 *
 * ```
 *             read, decide ──▶ write ──batch──┬─ written: numbers, trace id
 *  commit ─▶  without a lock                  ├─ saved: the session already has the step
 *                                             └─ nothing: a premise failed
 *                  ┌────────────────────────────────────┘
 *                  ▼
 *             read, decide ──▶ write
 *             under the session's lock, in a transaction
 * ```
 *
 * A request reads what its change follows from, cached if possible, and the statement checks that it still holds (`SessionWrite`). So a
 * request takes one round trip and shares a commit with others, and a stale cache can only cost time. If the statement writes nothing, the
 * same code reads, decides and writes again under the session's lock, where nothing can change meanwhile: because the session was locked, a
 * grant might allow the step, a queue is near its limit, rules or endpoints have changed, or the step is large. There the write is the
 * same statement for this request alone.
 * On a Citus cluster every change is made under the lock, by small statements (`writeOnCluster`).
 */
import { Array as Arr, Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { Delivery, type EnqueueParts } from "../delivery/Delivery.ts"
import { recordEntry } from "../identity/auditWrites.ts"
import { Notifications } from "../notifications/Notifications.ts"
import { afterCommit, atomic, isInTransaction, isLostRace } from "../store/transaction.ts"
import { ABANDONED_WRITE_MILLIS, makeStatementBatcher } from "../store/makeStatementBatcher.ts"
import { isCluster } from "../store/Cluster.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { SessionSignals } from "./SessionSignals.ts"
import { type ApprovalKey, type ApprovalRow, findApprovalsByKey } from "./approvalRows.ts"
import { BudgetCounters } from "./BudgetCounters.ts"
import { isLostCounterRace } from "./SessionWriter/counterChange.ts"
import { findSavedSteps, type StepKey } from "./SessionWriter/findSavedSteps.ts"
import { countClosed } from "./countClosed.ts"
import { makeLongQueues } from "./SessionWriter/LongQueues.ts"
import { makePendingApprovals } from "./SessionWriter/PendingApprovals.ts"
import type { ResumedStep } from "./SessionWriter/ResumedStep.ts"
import {
  auditOf,
  type PreparedWrite,
  type SessionWrite,
  targetOf,
  type Written
} from "./SessionWriter/SessionWrite.ts"
import { makeWaitingSteps } from "./SessionWriter/WaitingSteps.ts"
import { writeOnCluster } from "./SessionWriter/writeOnCluster.ts"
import { type Refusal, runWrites } from "./SessionWriter/writeStatement.ts"

export type { StepKey } from "./SessionWriter/findSavedSteps.ts"
export type { ResumedStep } from "./SessionWriter/ResumedStep.ts"
export type { SessionChange, SessionWrite, Written } from "./SessionWriter/SessionWrite.ts"

/** Writes of one statement. */
const MAX_BATCH = 64

/**
 * Steps, outcomes and approvals with more JSON text than this are not batched: others would wait for them. New ones are
 * measured in characters, stored ones in bytes.
 */
const MAX_TEXT = 65_536

/** The result of a write. */
export type WriteOutcome =
  | { readonly _tag: "Written"; readonly written: Written }
  /** The session already has the new step. */
  | { readonly _tag: "Saved"; readonly step: ResumedStep }
  /** Nothing was written: the change must be made under the lock. */
  | { readonly _tag: "NotWritten"; readonly refusals: ReadonlyArray<Refusal> }

/** Writes of many sessions in shared statements. */
export class SessionWriter extends Context.Service<
  SessionWriter,
  {
    /**
     * Makes a change: `attempt` reads, decides and writes without a lock, or returns undefined if it cannot, or its write has written
     * nothing. Then it does the same in a transaction, under the lock that it takes first; there it must succeed or fail.
     */
    readonly commit: <A, E, R>(
      attempt: (isLocked: boolean) => Effect.Effect<A | undefined, E, R>
    ) => Effect.Effect<A, E, R>
    /**
     * Writes a change and all that is recorded with it. Without a lock: if its premises hold, else nothing. `isLocked`: the caller's
     * transaction has locked the session, and has read the premises under the lock.
     */
    readonly write: (write: SessionWrite, isLocked: boolean) => Effect.Effect<WriteOutcome>
    /** Reads a saved step with all that its decision depends on, without locks; undefined if there is none. */
    readonly findStep: (key: StepKey) => Effect.Effect<ResumedStep | undefined>
    /** `findStep` for a request that is probably repeated: undefined without a read if this replica has not made the step wait. */
    readonly findWaitingStep: (key: StepKey) => Effect.Effect<ResumedStep | undefined>
    /**
     * An approval, cached or read without locks; undefined if the organization has none with this id, or its arguments are large. A cached
     * one may have been decided or deleted since.
     */
    readonly findApproval: (key: ApprovalKey) => Effect.Effect<ApprovalRow | undefined>
  }
>()("countersign/server/approvals/SessionWriter") {
  static readonly layer = Layer.effect(
    SessionWriter,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const delivery = yield* Delivery
      const notifications = yield* Notifications
      const signals = yield* SessionSignals
      const budgets = yield* BudgetCounters

      const atomically = atomic(sql)
      const clustered = yield* isCluster(sql)
      const clock = yield* Clock.Clock
      const storeClock = yield* StoreClock
      const longQueues = makeLongQueues(() => monotonicMillis(clock))
      const pendingApprovals = makePendingApprovals()
      const waitingSteps = makeWaitingSteps()

      /** Keeps the caches of approvals and steps after a write, whatever became of it. */
      const updateCaches = (write: SessionWrite, outcome: WriteOutcome): void => {
        const { change, org_id, session_id } = write
        if (change._tag === "Transition") pendingApprovals.remove(change.to)
        // A large step is always written and resumed under the lock.
        if (change._tag !== "Step" || isLarge(write)) return
        if (outcome._tag === "Written" && change.approval !== null) pendingApprovals.add(change.approval)
        const approval_id = outcome._tag === "Saved" ? outcome.step.approval_id : change.step.approval_id
        if (outcome._tag !== "NotWritten" && approval_id !== null) {
          waitingSteps.add({ org_id, session_id, step_id: change.step.step_id })
        }
      }

      const runBatch = Effect.fnUntraced(function* (writes: Arr.NonEmptyReadonlyArray<PreparedWrite>) {
        // Of writes with the same target the statement gets the first; the others wait for the lock, after it.
        const byTarget = new Map<string, PreparedWrite>()
        for (const write of writes) {
          const target = targetOf(write)
          if (!byTarget.has(target)) byTarget.set(target, write)
        }
        // A step that does not fit a budget behind the others waits for the lock too.
        const { admitted: distinct, counters } = budgets.compose([...byTarget.values()], false)
        if (!Arr.isReadonlyArrayNonEmpty(distinct)) return writes.map(() => notWritten)
        const deliveries = distinct.flatMap(({ notification }) => notification?.deliveries ?? [])
        const run = (parts?: EnqueueParts) => runWrites(sql, distinct, { parts, counters })
        const writing =
          deliveries.length === 0
            ? run()
            : delivery.enqueueWith(deliveries, (parts) =>
                Effect.map(run(parts), (result) => ({
                  inserted: result.inserted,
                  result
                }))
              )
        const { inserted, refused, saved, written } = yield* counters.length === 0
          ? writing
          : Effect.onError(writing, () => Effect.sync(() => budgets.forget(counters)))
        budgets.settle(counters, written)
        longQueues.note(deliveries, new Map(inserted.map((row) => [row.delivery_id, row.waiting])))
        yield* signals.publish(
          [...written].flatMap(([index, { newest }]) => {
            const session_id = distinct[index]?.session_id
            return session_id === undefined ? [] : [{ session_id, newest }]
          })
        )
        for (const [index, result] of written) yield* distinct[index]?.onWritten(result) ?? Effect.void
        yield* countClosed(
          distinct.flatMap(({ change }, index) =>
            change._tag === "Transition" && written.has(index) ? [change.to] : []
          )
        )
        const outcomes = new Map(
          distinct.map((write, index) => {
            const outcome = outcomeOf(written.get(index), saved.get(index), refused.get(index))
            updateCaches(write, outcome)
            return [write, outcome]
          })
        )
        return writes.map((write) => outcomes.get(write) ?? notWritten)
      })

      const submit = yield* makeStatementBatcher({
        sql,
        maxBatch: MAX_BATCH,
        organizationOf: ({ org_id }: PreparedWrite) => org_id,
        // One statement at a time: two would compete for the locks of the same sessions, and since none waits for a
        // lock, one that serves all waiting requests takes a tenth less processor time.
        maxInFlight: 1,
        abandonedMillis: ABANDONED_WRITE_MILLIS,
        run: (writes) =>
          // A lost race is no fault of the writes: each is made under the lock.
          Effect.catchIf(
            runBatch(writes),
            (error) => isLostRace(error) || isLostCounterRace(error),
            () => Effect.succeed(writes.map(() => notWritten))
          )
      })

      const findSteps = yield* makeStatementBatcher({
        sql,
        maxBatch: MAX_BATCH,
        organizationOf: ({ org_id }: StepKey) => org_id,
        run: (keys, org_id) => findSavedSteps(sql, keys, org_id)
      })

      const findApprovals = yield* makeStatementBatcher({
        sql,
        maxBatch: MAX_BATCH,
        organizationOf: ({ org_id }: ApprovalKey) => org_id,
        run: (keys, org_id) => findApprovalsByKey(sql, keys, MAX_TEXT, org_id)
      })

      const findStep = (key: StepKey) => Effect.map(Effect.orDie(findSteps(key)), ({ step }) => step)

      const writeShared = Effect.fnUntraced(function* (write: SessionWrite) {
        const { now, org_id, published } = write
        const [event, ...further] = published
        if (clustered || isLarge(write) || further.length > 0 || (yield* isInTransaction)) return notWritten
        const notification = event === undefined ? null : yield* notifications.prepare(org_id, event, now)
        if (notification === undefined) return notWritten
        if (notification !== null && longQueues.isPaused(org_id, notification.deliveries)) return notWritten
        const outcome = yield* submit({ ...write, notification })
        if (outcome._tag === "NotWritten") {
          if (outcome.refusals.includes("EndpointsChanged")) yield* notifications.invalidateEndpoints(org_id)
          if (outcome.refusals.includes("QueueNearLimit")) longQueues.noteQueueNearLimit(org_id)
        }
        return outcome
      })

      const writeLocked = Effect.fnUntraced(
        function* (write: SessionWrite) {
          const { change, now, onWritten, org_id, published, session_id } = write
          const prepared = { ...write, notification: null }
          const { counters } = budgets.compose([prepared], true)
          const result = clustered
            ? yield* writeOnCluster(sql, write, counters)
            : (yield* runWrites(sql, [prepared], { isLocked: true, counters })).written.get(0)
          if (result === undefined)
            return yield* Effect.die(new Error("A premise must hold while the session is locked"))
          if (Arr.isReadonlyArrayNonEmpty(published)) yield* notifications.publish(org_id, published, now)
          const entry = auditOf(write)
          if (entry !== null) yield* recordEntry(entry)
          const outcome: WriteOutcome = { _tag: "Written", written: result }
          yield* signals.publish([{ session_id, newest: result.newest }])
          yield* afterCommit(
            Effect.gen(function* () {
              budgets.settle(counters, new Map([[0, result]]))
              yield* onWritten(result)
              if (change._tag === "Transition") yield* countClosed([change.to])
              updateCaches(write, outcome)
            })
          )
          return outcome
        },
        Effect.provideService(SqlClient.SqlClient, sql)
      )

      return SessionWriter.of({
        findStep,
        findWaitingStep: (key) => (waitingSteps.has(key) ? findStep(key) : Effect.undefined),
        findApproval: (key) =>
          Effect.flatMap(storeClock.now, (now) => {
            const cached = pendingApprovals.find(key, now)
            return cached === undefined
              ? Effect.map(Effect.orDie(findApprovals(key)), ({ row }) => row)
              : Effect.succeed(cached)
          }),
        commit: (attempt) => {
          // Built only if it runs: most changes need no lock.
          const locked = Effect.suspend(() =>
            atomically(
              Effect.filterOrElse(
                attempt(true),
                (answer) => answer !== undefined,
                () => Effect.die(new Error("A change must succeed or fail under the lock"))
              )
            )
          )
          return Effect.flatMap(isInTransaction, (isNested) =>
            isNested
              ? locked
              : Effect.flatMap(attempt(false), (answer) =>
                  answer === undefined ? locked : Effect.succeed(answer)
                )
          )
        },
        write: (write, isLocked) => Effect.orDie(isLocked ? writeLocked(write) : writeShared(write))
      })
    })
  )
}

const notWritten: WriteOutcome = { _tag: "NotWritten", refusals: [] }

const outcomeOf = (
  written: Written | undefined,
  saved: ResumedStep | undefined,
  refusals: ReadonlyArray<Refusal> = []
): WriteOutcome => {
  if (written !== undefined) return { _tag: "Written", written }
  return saved === undefined ? { _tag: "NotWritten", refusals } : { _tag: "Saved", step: saved }
}

const isLarge = ({ change }: SessionWrite): boolean => {
  switch (change._tag) {
    case "Step":
      return (change.step.arguments?.length ?? 0) > MAX_TEXT
    case "Outcome":
      // The result is encoded for the statement anyway; its exact length matters less than not to encode it twice.
      return change.outcome.result !== undefined && JSON.stringify(change.outcome.result).length > MAX_TEXT
    default:
      return false
  }
}
