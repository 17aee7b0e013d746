import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { ApprovalRules, NewApprovalRule, ReplaceApprovalRules } from "../../api/ApprovalRules.ts"
import { Authorized } from "../../api/Authorization.ts"
import type { FieldError } from "../../api/Problem.ts"
import { InvalidRequest, RulesChanged } from "../../api/Problems.ts"
import {
  ApprovalRule,
  DEFAULT_REVIEW_SECONDS,
  evaluateRules,
  type RuleInput,
  type Ruling
} from "../../domain/approvals/ApprovalRule.ts"
import { type OrgId, RuleId } from "../../domain/Ids.ts"
import { Audit } from "../identity/Audit.ts"
import { atomic } from "../store/transaction.ts"
import { textArray } from "../store/pgArrays.ts"
import { rowsOf } from "../store/rows.ts"
import { LruCache } from "../concurrency/LruCache.ts"

/** The organization's ordered list of approval rules, which is stored and replaced as a whole. */
export class Rules extends Context.Service<
  Rules,
  {
    /**
     * The organization's rules as this replica last read them. They may be stale: a write that follows from them must check their revision.
     * `evaluate` reads the current ones.
     */
    readonly cached: (org_id: OrgId) => Effect.Effect<ApprovalRules>
    /** Evaluates the current rules for a step. */
    readonly evaluate: (org_id: OrgId, step: RuleInput) => Effect.Effect<Ruling>
    /** Returns the organization's rules in the order of evaluation, with their revision. */
    readonly list: Effect.Effect<ApprovalRules, never, Authorized<"approvals.read">>
    /** Replaces the list. A `revision` other than the current one fails with RULES_CHANGED; without one there is no check. */
    readonly replace: (
      input: ReplaceApprovalRules
    ) => Effect.Effect<ApprovalRules, RulesChanged | InvalidRequest, Authorized<"rules.write">>
  }
>()("countersign/server/approvals/Rules") {
  static readonly layer = Layer.effect(
    Rules,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit

      const cache = new LruCache<ApprovalRules>({ entries: MAX_CACHED_LISTS, weight: MAX_CACHED_RULES })

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
        const list = { rules: row.rules ?? [], revision: row.revision }
        cache.set(org_id, list, Math.max(1, list.rules.length))
        return list
      }, Effect.orDie)

      /** Rules of tasks that do not exist: a mistyped id would leave the task to the rules below. */
      const findUnknownTasks = Effect.fnUntraced(function* (
        org_id: OrgId,
        rules: ReadonlyArray<ApprovalRule>
      ) {
        const named = [...new Set(rules.flatMap(({ task_id }) => (task_id === null ? [] : [task_id])))]
        if (named.length === 0) return []
        const rows = yield* sql<{ readonly task_id: string }>`
          SELECT task_id
          FROM tasks
          WHERE org_id = ${org_id}
            AND task_id = ANY (${textArray(named)})
        `
        const known = new Set(rows.map(({ task_id }) => task_id))
        return rules.flatMap(({ task_id }, index): ReadonlyArray<FieldError> =>
          task_id === null || known.has(task_id)
            ? []
            : [{ pointer: `#/rules/${index}/task_id`, detail: "No such task in this organization." }]
        )
      })

      return Rules.of({
        cached: (org_id) => {
          const list = cache.get(org_id)
          return list === undefined ? read(org_id) : Effect.succeed(list)
        },
        evaluate: Effect.fn("Rules.evaluate")(function* (org_id, step) {
          return evaluateRules((yield* read(org_id)).rules, step)
        }),
        list: Effect.gen(function* () {
          const { org_id } = yield* Authorized("approvals.read")
          return yield* read(org_id)
        }).pipe(Effect.withSpan("Rules.list")),
        replace: Effect.fn("Rules.replace")(function* (input) {
          const principal = yield* Authorized("rules.write")
          const { org_id } = principal
          const rules = yield* Effect.forEach(input.rules, withDefaults)
          const errors = findInconsistencies(rules)
          if (errors.length > 0)
            return yield* new InvalidRequest({ detail: "The rules are inconsistent; see `errors`.", errors })
          const text = JSON.stringify(rules)
          return yield* atomically(
            Effect.gen(function* () {
              const unknown = yield* findUnknownTasks(org_id, rules)
              if (unknown.length > 0) {
                const detail = "A rule names a task that does not exist in this organization; see `errors`."
                return yield* new InvalidRequest({ detail, errors: unknown })
              }
              // Creates the row of an organization without rules, so that two first lists conflict on it.
              yield* sql`
                INSERT INTO approval_rules (org_id, revision, rules)
                VALUES (${org_id}, 0, '[]')
                ON CONFLICT (org_id) DO NOTHING
              `
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
                Effect.sync(() => cache.set(org_id, { rules, revision }, Math.max(1, rules.length)))
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

/** Decoded lists that one replica caches, and the rules in all of them together. A rule takes about 1 kB. */
const MAX_CACHED_LISTS = 1_000
const MAX_CACHED_RULES = 10_000

const noRules: ApprovalRules = { rules: [], revision: 0 }

const ruleRows = rowsOf(
  Schema.Struct({ rules: Schema.NullOr(Schema.Array(ApprovalRule)), revision: Schema.Int })
)

/** Errors of a list whose rules are each valid by their schema. */
const findInconsistencies = (rules: ReadonlyArray<ApprovalRule>): ReadonlyArray<FieldError> => {
  const ids = new Set<RuleId>()
  const errors: Array<FieldError> = []
  for (const [index, rule] of rules.entries()) {
    if (ids.has(rule.id)) errors.push({ pointer: `#/rules/${index}/id`, detail: "Another rule has this id." })
    ids.add(rule.id)
    if (rule.expiring_seconds !== null && rule.expiring_seconds >= rule.review_seconds) {
      errors.push({
        pointer: `#/rules/${index}/expiring_seconds`,
        detail: "Expected less than review_seconds."
      })
    }
  }
  return errors
}

/** A rule with its defaults. */
const withDefaults = (rule: NewApprovalRule): Effect.Effect<ApprovalRule> => {
  const review_seconds = rule.review_seconds ?? DEFAULT_REVIEW_SECONDS
  return Effect.map(rule.id === undefined ? RuleId.generate : Effect.succeed(rule.id), (id) => ({
    id,
    tool: rule.tool ?? "*",
    action_class: rule.action_class ?? "*",
    task_id: rule.task_id ?? null,
    effect: rule.effect,
    review_seconds,
    expiring_seconds: rule.expiring_seconds ?? null,
    escalation_seconds: rule.escalation_seconds ?? null,
    timeout_action: rule.timeout_action ?? "reject",
    self_approval: rule.self_approval ?? false,
    reason: rule.reason ?? ""
  }))
}
