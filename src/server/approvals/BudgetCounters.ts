/**
 * The counters of budgets. One row of `budget_counters` counts the steps of one rule, scope and set of values. The statement that writes an
 * allowed step adds it to the rows, if they still have the versions with which the step was found to fit.
 *
 * ```
 *  rule: evaluates the lists, reads counters ──▶ compose: adds the steps of a batch, ──▶ statement: checks the versions,
 *        that this replica has not cached               one after another                       appends the steps it wrote
 * ```
 *
 * So a step takes no further round trip while this replica has the newest versions. Steps of one batch share a counter. A step for which a
 * version has changed, or which does not fit behind the others of its batch, is decided again in a transaction that locks the counters.
 */
import { hash } from "node:crypto"
import { Array as Arr, Clock, Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { RuleInput } from "../../domain/approvals/ApprovalRule.ts"
import { type CounterUse, makeStepMeter } from "../../domain/approvals/BudgetMeter.ts"
import type { KeyId, OrgId, SessionId } from "../../domain/Ids.ts"
import type { Timestamp } from "../../domain/Time.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"
import { LimitUse } from "../observability/LimitUse.ts"
import { makeStatementBatcher } from "../store/makeStatementBatcher.ts"
import {
  type ComposedSpends,
  composeSpends,
  type CountedSpend,
  type CounterWrite,
  settledState
} from "./BudgetCounters/composeSpends.ts"
import {
  type CounterKey,
  type CounterState,
  countCounters,
  lockCounters,
  noCounter,
  readCounters
} from "./BudgetCounters/rows.ts"
import { type RuleList, ruleNewStep, type StepRuling } from "./Rules/RuleList.ts"
import type { PreparedWrite } from "./SessionWriter/SessionWrite.ts"

/** Counters that one replica caches, and the entries of all: about 100 bytes each. */
const MAX_CACHED = 20_000
const MAX_CACHED_ENTRIES = 200_000

/** Counters that one statement reads. */
const MAX_BATCH = 64

/**
 * Counters of an organization; a step that needs a further one does not fit. Replicas count them every minute, so that together they can
 * exceed it by the counters of a minute.
 */
export const MAX_COUNTERS = 100_000
const RECOUNT_MILLIS = 60_000
const MAX_COUNTED_ORGANIZATIONS = 1_000

/** Longest name of a counter whose digest is cached, in characters. */
const MAX_CACHED_NAME = 500

/** The facts about a new step that decide which counters it uses. */
export interface SpendingStep {
  readonly org_id: OrgId
  readonly session_id: SessionId
  readonly key_id: KeyId
  readonly now: Timestamp
}

/** A ruling with everything that the step uses of budgets if it is written: of the live rules only if they allow it. */
export interface CountedRuling extends StepRuling {
  readonly spends: ReadonlyArray<CountedSpend>
}

/** The counters of the budgets of rules. */
export class BudgetCounters extends Context.Service<
  BudgetCounters,
  {
    /** Evaluates both lists for a new step. `isLocked`: in a transaction, which locks the counters that decide. */
    readonly rule: (
      list: RuleList,
      step: RuleInput,
      by: SpendingStep,
      isLocked: boolean
    ) => Effect.Effect<CountedRuling>
    /** Adds the steps of a statement to their counters. `isLocked`: these are locked as they were read. */
    readonly compose: (writes: ReadonlyArray<PreparedWrite>, isLocked: boolean) => ComposedSpends
    /** Caches the counters after a statement that has committed. `written`: the places of the writes that took effect. */
    readonly settle: (
      counters: ReadonlyArray<CounterWrite>,
      written: { readonly has: (op: number) => boolean }
    ) => void
    /** Forgets the counters after a statement that may not have committed. */
    readonly forget: (counters: ReadonlyArray<CounterWrite>) => void
  }
>()("countersign/server/approvals/BudgetCounters") {
  static readonly layer = Layer.effect(
    BudgetCounters,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const cache = new LruCache<CounterState>({ entries: MAX_CACHED, weight: MAX_CACHED_ENTRIES })
      const digests = new LruCache<string>({ entries: MAX_CACHED, weight: MAX_CACHED })
      const counts = new LruCache<{ count: number; readonly until: number }>({
        entries: MAX_COUNTED_ORGANIZATIONS,
        weight: MAX_COUNTED_ORGANIZATIONS
      })
      const clock = yield* Clock.Clock
      const limits = yield* LimitUse

      const read = yield* makeStatementBatcher({
        sql,
        maxBatch: MAX_BATCH,
        organizationOf: ({ org_id }: CounterKey) => org_id,
        run: (keys, org_id) =>
          Effect.map(readCounters(sql, keys, org_id), (found) =>
            keys.map(({ digest }) => found.get(digest) ?? noCounter)
          )
      })

      const digestOf = (org_id: OrgId, counter: string): string => {
        const name = `${org_id} ${counter}`
        const known = digests.get(name)
        if (known !== undefined) return known
        const digest = hash("sha256", name)
        if (name.length <= MAX_CACHED_NAME) digests.set(name, digest, 1)
        return digest
      }

      /** A newer version than the cached one: two transactions may end in another order than they were written. */
      const remember = (digest: string, state: CounterState): void => {
        if (state.version >= (cache.get(digest)?.version ?? 0)) cache.set(digest, state, state.use.length + 1)
      }

      /** Whether the organization may have one more counter. */
      const hasCapacity = Effect.fnUntraced(function* (org_id: OrgId) {
        const now = monotonicMillis(clock)
        let counted = counts.get(org_id)
        if (counted === undefined || counted.until <= now) {
          counted = { count: yield* countCounters(sql, org_id, MAX_COUNTERS), until: now + RECOUNT_MILLIS }
          counts.set(org_id, counted, 1)
        }
        limits.used("budget_counters", counted.count / MAX_COUNTERS)
        if (counted.count++ < MAX_COUNTERS) return true
        limits.refused("budget_counters")
        return false
      })

      type FoundCounter = readonly [digest: string, state: CounterState | "limit_reached"]

      /** Finds counters: cached, or read at once. */
      const findAll = Effect.fnUntraced(function* (
        org_id: OrgId,
        digests: ReadonlyArray<string>
      ): Effect.fn.Return<ReadonlyArray<FoundCounter>, SqlError.SqlError> {
        const states = yield* Effect.forEach(
          digests,
          (digest) => {
            const cached = cache.get(digest)
            return cached === undefined ? read({ org_id, digest }) : Effect.succeed(cached)
          },
          { concurrency: "unbounded" }
        )
        const found: Array<FoundCounter> = []
        for (const [digest, state] of Arr.zip(digests, states)) {
          const isNew = state.version === 0 && cache.get(digest) === undefined
          if (isNew && !(yield* hasCapacity(org_id))) found.push([digest, "limit_reached"])
          else {
            remember(digest, state)
            found.push([digest, state])
          }
        }
        return found
      }, Effect.orDie)

      /** Finds counters, and locks them if they exist or may be created. */
      const lockAll = Effect.fnUntraced(function* (
        org_id: OrgId,
        digests: ReadonlyArray<string>,
        now: Timestamp
      ): Effect.fn.Return<ReadonlyArray<FoundCounter>> {
        const found = yield* findAll(org_id, digests)
        const usable = found.flatMap(([digest, state]) => (state === "limit_reached" ? [] : [digest]))
        if (usable.length === 0) return found
        const locked = yield* Effect.orDie(lockCounters(sql, org_id, usable, now))
        return found.map(([digest]) => [digest, locked.get(digest) ?? "limit_reached"])
      })

      /**
       * Evaluates the lists. Returns the ruling, or the digests of counters that must be read first. Under the lock only `states` is used, and
       * otherwise the cache too.
       */
      const evaluate = (
        list: RuleList,
        step: RuleInput,
        { key_id, now, org_id, session_id }: SpendingStep,
        states: Map<string, CounterState | "limit_reached">,
        isLocked: boolean
      ): CountedRuling | ReadonlyArray<string> => {
        const useOf = (counter: string): CounterUse => {
          const digest = digestOf(org_id, counter)
          const state = states.get(digest) ?? (isLocked ? undefined : cache.get(digest))
          if (state === undefined) return "unknown"
          states.set(digest, state)
          return state === "limit_reached" ? state : state.use
        }
        const metered = { session_id, key_id, now: now.epochMilliseconds }
        const meters = {
          live: makeStepMeter("live", metered, useOf),
          shadow: makeStepMeter("shadow", metered, useOf)
        }
        const ruled = ruleNewStep(list, step, meters)
        const unknown = [...meters.live.unknown, ...meters.shadow.unknown]
        if (unknown.length > 0) return unknown.map((counter) => digestOf(org_id, counter))
        const spends = [...(ruled.ruling.spends ?? []), ...(ruled.shadow?.ruling.spends ?? [])]
        return {
          ...ruled,
          spends: spends.map((spend) => {
            const digest = digestOf(org_id, spend.counter)
            const state = states.get(digest)
            return { ...spend, org_id, digest, state: typeof state === "object" ? state : noCounter }
          })
        }
      }

      /** Evaluates the lists until all counters that decide are known: each further evaluation adds the counters of at least one more rule. */
      const ruleWithCounters = Effect.fnUntraced(function* (
        list: RuleList,
        step: RuleInput,
        by: SpendingStep,
        isLocked: boolean
      ) {
        const states = new Map<string, CounterState | "limit_reached">()
        for (;;) {
          const result = evaluate(list, step, by, states, isLocked)
          if (isRuling(result)) return result
          const found = yield* isLocked ? lockAll(by.org_id, result, by.now) : findAll(by.org_id, result)
          for (const [digest, state] of found) states.set(digest, state)
        }
      })

      return BudgetCounters.of({
        rule: (list, step, by, isLocked) => {
          // Without an effect of its own on the way that nearly all steps take.
          if (!list.compiled.hasBudgets && list.shadow?.compiled.hasBudgets !== true)
            return Effect.succeed({ ...ruleNewStep(list, step), spends: [] })
          const cached = isLocked ? [] : evaluate(list, step, by, new Map(), false)
          return isRuling(cached) ? Effect.succeed(cached) : ruleWithCounters(list, step, by, isLocked)
        },
        compose: (writes, isLocked) =>
          composeSpends(writes, ({ digest, state }) => (isLocked ? state : (cache.get(digest) ?? state))),
        settle: (counters, written) => {
          for (const counter of counters) {
            const state = settledState(counter, written)
            if (state === undefined) cache.delete(counter.digest)
            else remember(counter.digest, state)
          }
        },
        forget: (counters) => {
          for (const { digest } of counters) cache.delete(digest)
        }
      })
    })
  )
}

const isRuling = (result: CountedRuling | ReadonlyArray<string>): result is CountedRuling =>
  "ruling" in result
