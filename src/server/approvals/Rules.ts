import { Context, Deferred, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { ApprovalRules, NewApprovalRule, ReplaceApprovalRules } from "../../api/ApprovalRules.ts"
import { Authorized } from "../../api/Authorization.ts"
import {
  type InvalidRequest,
  RulesChanged,
  type RulesTooLarge,
  type UnknownGroup
} from "../../api/Problems.ts"
import { ApprovalRule, type RuleTarget, type Ruling } from "../../domain/approvals/ApprovalRule.ts"
import type { AuditEntry } from "../../domain/identity/AuditEntry.ts"
import { savedBudgets } from "../../domain/approvals/BudgetMeter.ts"
import type { OrgId, RuleId } from "../../domain/Ids.ts"
import { TimestampFromDate } from "../../domain/Time.ts"
import { Audit, type Author } from "../identity/Audit.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { atomic } from "../store/transaction.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { compileInTurns } from "./Rules/compileInTurns.ts"
import { lockRules } from "./Rules/lockRules.ts"
import {
  prepareRules,
  requireGroups,
  requireKnownMembers,
  requireReviewers,
  requireTasks
} from "./Rules/prepareRules.ts"
import { warningsOf } from "./Rules/warningsOf.ts"
import { noRules, type PreparedRules, type RuleList, type ShadowList, weightOf } from "./Rules/RuleList.ts"

export { type PreparedRules, type RuleList, ruleNewStep, type StepRuling } from "./Rules/RuleList.ts"

/** The organization's ordered list of approval rules, which is stored and replaced as a whole. */
export class Rules extends Context.Service<
  Rules,
  {
    /**
     * The organization's rules as this replica last read them. They may be stale: a write that follows from them must check their revision.
     * `evaluate` reads the current ones.
     */
    readonly cached: (org_id: OrgId) => Effect.Effect<RuleList>
    /** The organization's current rules, with the shadow list. */
    readonly current: (org_id: OrgId) => Effect.Effect<RuleList>
    /** Removes the organization's lists from the cache. For the end of a transaction that changes the shadow list. */
    readonly forget: (org_id: OrgId) => void
    /** Evaluates the current rules for a saved step. Takes its arguments only if a rule has conditions. */
    readonly evaluate: (
      org_id: OrgId,
      step: RuleTarget & { readonly rule_id: RuleId | null },
      stepArguments: Effect.Effect<Schema.Json | undefined>
    ) => Effect.Effect<Ruling>
    /** Completes, checks and compiles rules exactly as `replace` does, without storing them. */
    readonly prepare: (
      org_id: OrgId,
      rules: ReadonlyArray<NewApprovalRule>
    ) => Effect.Effect<PreparedRules, InvalidRequest | RulesTooLarge | UnknownGroup>
    /** `replace` for an author whose permission is checked, with more detail for the audit log. */
    readonly replaceFor: (
      author: Author,
      input: ReplaceApprovalRules,
      detail?: AuditEntry["detail"]
    ) => Effect.Effect<ApprovalRules, RulesChanged | RulesTooLarge | InvalidRequest | UnknownGroup>
    /** Returns the organization's rules in the order of evaluation, with their revision. */
    readonly list: Effect.Effect<ApprovalRules, never, Authorized<"approvals.read">>
    /** Replaces the list. A `revision` other than the current one fails with RULES_CHANGED; without one there is no check. */
    readonly replace: (
      input: ReplaceApprovalRules
    ) => Effect.Effect<
      ApprovalRules,
      RulesChanged | RulesTooLarge | InvalidRequest | UnknownGroup,
      Authorized<"rules.write">
    >
  }
>()("countersign/server/approvals/Rules") {
  static readonly layer = Layer.effect(
    Rules,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit
      const clock = yield* StoreClock

      const cache = new LruCache<RuleList>({ entries: MAX_CACHED_LISTS, weight: MAX_CACHED_WEIGHT })

      const store = (org_id: OrgId, list: RuleList): RuleList => {
        cache.set(org_id, list, weightOf(list))
        return list
      }

      const compiling = new Map<string, Deferred.Deferred<PreparedRules>>()

      /** Compiles the list with this key once for all callers that need it at the same time, as the steps after a change do. */
      const prepared = (key: string, rules: ReadonlyArray<ApprovalRule>): Effect.Effect<PreparedRules> =>
        Effect.suspend(() => {
          const running = compiling.get(key)
          if (running !== undefined) return Deferred.await(running)
          const deferred = Deferred.makeUnsafe<PreparedRules>()
          compiling.set(key, deferred)
          return Effect.map(compileInTurns(rules), (compiled): PreparedRules => ({ rules, compiled })).pipe(
            Effect.onExit((exit) => {
              compiling.delete(key)
              return Deferred.done(deferred, exit)
            }),
            // Others wait for it.
            Effect.uninterruptible
          )
        })

      const shadowOf = (
        org_id: OrgId,
        { shadow_revision, shadow_rules, shadow_since }: typeof RuleRow.Type
      ): Effect.Effect<ShadowList | null> =>
        shadow_rules === null || shadow_since === null
          ? Effect.succeed(null)
          : Effect.map(prepared(`${org_id} shadow ${shadow_revision}`, shadow_rules), (list) => ({
              ...list,
              since: shadow_since
            }))

      /** The current lists. The database sends each, and it is decoded, only if its revision is not the cached one. */
      const read = Effect.fnUntraced(function* (org_id: OrgId) {
        const cached = cache.get(org_id)
        const row = yield* ruleRows.first(sql`
          SELECT
            revision::int, CASE WHEN revision = ${cached?.revision ?? null}::int THEN NULL ELSE rules END AS rules,
            shadow_revision::int, shadow_since,
            CASE WHEN shadow_revision = ${cached?.shadow_revision ?? null}::int THEN NULL ELSE shadow_rules END AS shadow_rules
          FROM approval_rules
          WHERE org_id = ${org_id}
        `)
        if (row === undefined) return store(org_id, noRules)
        const live =
          row.rules === null ? (cached ?? noRules) : yield* prepared(`${org_id} ${row.revision}`, row.rules)
        const shadow =
          row.shadow_revision === cached?.shadow_revision ? cached.shadow : yield* shadowOf(org_id, row)
        if (live === cached && shadow === cached.shadow) return cached
        const { compiled, rules } = live
        const { revision, shadow_revision } = row
        return store(org_id, { rules, compiled, revision, shadow, shadow_revision })
      }, Effect.orDie)

      /** Checks the references of the rules: tasks, groups, and rules that are stored. */
      const requireReferences = Effect.fnUntraced(function* (
        org_id: OrgId,
        given: ReadonlyArray<NewApprovalRule>,
        rules: ReadonlyArray<ApprovalRule>
      ) {
        yield* requireTasks(sql, org_id, rules)
        yield* requireReviewers(sql, org_id, rules)
        yield* requireGroups(sql, org_id, rules, clock.now)
        const isIncomplete = ({ budget, budgets, id, quorum, when }: NewApprovalRule) =>
          id !== undefined &&
          (when === undefined || quorum === undefined || (budget === undefined && budgets === undefined))
        if (!given.some(isIncomplete)) return
        const { rules: live, shadow } = yield* read(org_id)
        yield* requireKnownMembers(given, [...(shadow?.rules ?? []), ...live])
      })

      const replaceFor = Effect.fn("Rules.replaceFor")(function* (
        author: Author,
        input: ReplaceApprovalRules,
        detail: AuditEntry["detail"] = {}
      ) {
        const { org_id } = author
        const { compiled, rules } = yield* prepareRules(input.rules)
        const text = JSON.stringify(rules)
        return yield* atomically(
          Effect.gen(function* () {
            yield* lockRules(sql, org_id)
            yield* requireReferences(org_id, input.rules, rules)
            const replaced = yield* sql<{ readonly revision: number }>`
              UPDATE approval_rules
              SET rules = ${text}, revision = revision + 1
              WHERE org_id = ${org_id}
                ${input.revision === undefined ? sql.literal("") : sql`AND revision = ${input.revision}`}
              RETURNING revision::int
            `
            if (replaced[0] === undefined) {
              const { revision } = yield* read(org_id)
              return yield* new RulesChanged({
                detail:
                  "The rules were changed by another request. Re-read them and send the change with their `revision`.",
                current_revision: revision
              })
            }
            const { revision } = replaced[0]
            yield* sql.afterCommit(
              Effect.sync(() => {
                // A shadow list that was changed meanwhile has another revision, so that it is read again.
                const { shadow, shadow_revision } = cache.get(org_id) ?? noRules
                store(org_id, { rules, revision, compiled, shadow, shadow_revision })
              })
            )
            yield* audit.record(author, "rules.replaced", org_id, {
              revision,
              rules: rules.length,
              ...detail
            })
            return { rules, revision, warnings: yield* warningsOf(sql, org_id, rules, clock.now) }
          })
        )
      })

      return Rules.of({
        cached: (org_id) => {
          const list = cache.get(org_id)
          return list === undefined ? read(org_id) : Effect.succeed(list)
        },
        current: read,
        forget: (org_id) => void cache.delete(org_id),
        evaluate: Effect.fn("Rules.evaluate")(function* (org_id, step, stepArguments) {
          const { compiled } = yield* read(org_id)
          return compiled.evaluate(
            {
              tool: step.tool,
              action_class: step.action_class,
              task_id: step.task_id,
              arguments: compiled.readsArguments ? yield* stepArguments : undefined
            },
            savedBudgets(step)
          )
        }),
        prepare: Effect.fn("Rules.prepare")(function* (org_id, given) {
          const prepared = yield* prepareRules(given)
          yield* requireReferences(org_id, given, prepared.rules)
          return prepared
        }, dieOnDatabaseError),
        list: Effect.gen(function* () {
          const { org_id } = yield* Authorized("approvals.read")
          const { revision, rules } = yield* read(org_id)
          return { rules, revision, warnings: yield* warningsOf(sql, org_id, rules, clock.now) }
        }).pipe(Effect.withSpan("Rules.list")),
        replaceFor,
        replace: Effect.fn("Rules.replace")(function* (input) {
          return yield* replaceFor(yield* Authorized("rules.write"), input)
        })
      })
    })
  )
}

/**
 * Organizations whose compiled lists one replica caches, and the weight of the lists in all: about 1 kB a unit. Both lists of one
 * organization have at most 16,000.
 */
const MAX_CACHED_LISTS = 1_000
const MAX_CACHED_WEIGHT = 20_000

const RuleRow = Schema.Struct({
  rules: Schema.NullOr(Schema.Array(ApprovalRule)),
  revision: Schema.Int,
  shadow_rules: Schema.NullOr(Schema.Array(ApprovalRule)),
  shadow_revision: Schema.Int,
  shadow_since: Schema.NullOr(TimestampFromDate)
})

const ruleRows = rowsOf(RuleRow)
