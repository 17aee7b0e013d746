import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { ApprovalRules, NewApprovalRule, ReplaceApprovalRules } from "../../api/ApprovalRules.ts"
import { Authorized } from "../../api/Authorization.ts"
import {
  type InvalidRequest,
  RulesChanged,
  type RulesTooLarge,
  type UnknownGroup
} from "../../api/Problems.ts"
import type { ApprovalRule, RuleTarget, Ruling } from "../../domain/approvals/ApprovalRule.ts"
import { compileRules } from "../../domain/approvals/CompiledRules.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { Audit } from "../identity/Audit.ts"
import { dieOnDatabaseError } from "../store/databaseErrors.ts"
import { atomic } from "../store/transaction.ts"
import { rowsOf } from "../store/rows.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { prepareRules, requireGroups, requireKnownMembers, requireTasks } from "./Rules/prepareRules.ts"
import { noRules, type RuleList, StoredRule } from "./Rules/RuleList.ts"

export type { RuleList } from "./Rules/RuleList.ts"

/** The organization's ordered list of approval rules, which is stored and replaced as a whole. */
export class Rules extends Context.Service<
  Rules,
  {
    /**
     * The organization's rules as this replica last read them. They may be stale: a write that follows from them must check their revision.
     * `evaluate` reads the current ones.
     */
    readonly cached: (org_id: OrgId) => Effect.Effect<RuleList>
    /** Evaluates the current rules for a step. Takes its arguments only if a rule has conditions. */
    readonly evaluate: (
      org_id: OrgId,
      step: RuleTarget,
      stepArguments: Effect.Effect<Schema.Json | undefined>
    ) => Effect.Effect<Ruling>
    /** Completes, checks and compiles rules exactly as `replace` does, without storing them. */
    readonly prepare: (
      org_id: OrgId,
      rules: ReadonlyArray<NewApprovalRule>
    ) => Effect.Effect<Omit<RuleList, "revision">, InvalidRequest | RulesTooLarge | UnknownGroup>
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

      /** The current list. The database sends it, and it is decoded, only if its revision is not the cached one. */
      const read = Effect.fnUntraced(function* (org_id: OrgId) {
        const cached = cache.get(org_id)
        const row = yield* ruleRows.first(sql`
          SELECT revision::int, CASE WHEN revision = ${cached?.revision ?? null}::int THEN NULL ELSE rules END AS rules
          FROM approval_rules
          WHERE org_id = ${org_id}
        `)
        if (row === undefined) {
          cache.set(org_id, noRules, 1)
          return noRules
        }
        if (row.rules === null && cached !== undefined) return cached
        const rules = row.rules ?? []
        const list: RuleList = { rules, revision: row.revision, compiled: compileRules(rules) }
        cache.set(org_id, list, list.compiled.weight)
        return list
      }, Effect.orDie)

      /** Checks what the rules refer to: tasks, groups, and rules that are stored. */
      const requireReferences = Effect.fnUntraced(function* (
        org_id: OrgId,
        given: ReadonlyArray<NewApprovalRule>,
        rules: ReadonlyArray<ApprovalRule>
      ) {
        yield* requireTasks(sql, org_id, rules)
        yield* requireGroups(sql, org_id, rules, clock.now)
        const isIncomplete = ({ id, quorum, when }: NewApprovalRule) =>
          id !== undefined && (when === undefined || quorum === undefined)
        if (given.some(isIncomplete)) yield* requireKnownMembers(given, (yield* read(org_id)).rules)
      })

      return Rules.of({
        cached: (org_id) => {
          const list = cache.get(org_id)
          return list === undefined ? read(org_id) : Effect.succeed(list)
        },
        evaluate: Effect.fn("Rules.evaluate")(function* (org_id, step, stepArguments) {
          const { compiled } = yield* read(org_id)
          return compiled.evaluate({
            tool: step.tool,
            action_class: step.action_class,
            task_id: step.task_id,
            arguments: compiled.readsArguments ? yield* stepArguments : undefined
          })
        }),
        prepare: Effect.fn("Rules.prepare")(function* (org_id, given) {
          const prepared = yield* prepareRules(given)
          yield* requireReferences(org_id, given, prepared.rules)
          return prepared
        }, dieOnDatabaseError),
        list: Effect.gen(function* () {
          const { org_id } = yield* Authorized("approvals.read")
          const { revision, rules } = yield* read(org_id)
          return { rules, revision }
        }).pipe(Effect.withSpan("Rules.list")),
        replace: Effect.fn("Rules.replace")(function* (input) {
          const principal = yield* Authorized("rules.write")
          const { org_id } = principal
          const { compiled, rules } = yield* prepareRules(input.rules)
          const text = JSON.stringify(rules)
          return yield* atomically(
            Effect.gen(function* () {
              // Creates the row of an organization without rules, so that two first lists conflict on it.
              yield* sql`
                INSERT INTO approval_rules (org_id, revision, rules)
                VALUES (${org_id}, 0, '[]')
                ON CONFLICT (org_id) DO NOTHING
              `
              // Before the stored rules are read: a concurrent request must not add conditions that this one then removes unseen.
              yield* sql`SELECT FROM approval_rules WHERE org_id = ${org_id} FOR NO KEY UPDATE`
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
                Effect.sync(() => cache.set(org_id, { rules, revision, compiled }, compiled.weight))
              )
              yield* audit.record(principal, "rules.replaced", org_id, { revision, rules: rules.length })
              return { rules, revision }
            })
          )
        })
      })
    })
  )
}

/** Compiled lists that one replica caches, and their weight in all: about 1 kB a unit. */
const MAX_CACHED_LISTS = 1_000
const MAX_CACHED_WEIGHT = 10_000

const ruleRows = rowsOf(
  Schema.Struct({ rules: Schema.NullOr(Schema.Array(StoredRule)), revision: Schema.Int })
)
