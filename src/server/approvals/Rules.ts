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
import { atomic } from "../store/Database/transaction.ts"
import { LruCache } from "../concurrency/LruCache.ts"

/** The organization's ordered list of approval rules, kept and replaced as one. */
export class Rules extends Context.Service<
  Rules,
  {
    /** What the rules say of a step, as they stand now. */
    readonly judge: (org_id: OrgId, step: RuleInput) => Effect.Effect<Ruling>
    readonly list: Effect.Effect<ApprovalRules, never, Authorized<"approvals.read">>
    /** A stale revision is refused; without one the list is replaced as it is. */
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

      const kept = new LruCache<ApprovalRules>({ entries: KEPT_LISTS, weight: KEPT_RULES })

      /** The list as it stands now. It travels, and is decoded, only where it is not the one that was read last. */
      const read = Effect.fnUntraced(function* (org_id: OrgId) {
        const last = kept.get(org_id)
        const rows = yield* sql`
          SELECT revision::int, CASE WHEN revision = ${last?.revision ?? null}::int THEN NULL ELSE rules END AS rules
          FROM approval_rules
          WHERE org_id = ${org_id}
        `
        const [row] = yield* decodeRules(rows)
        if (row === undefined) return none
        if (row.rules === null && last !== undefined) return last
        const list = { rules: row.rules ?? [], revision: row.revision }
        kept.set(org_id, list, Math.max(1, list.rules.length))
        return list
      }, Effect.orDie)

      return Rules.of({
        judge: Effect.fn("Rules.judge")(function* (org_id, step) {
          return evaluateRules((yield* read(org_id)).rules, step)
        }),
        list: Effect.gen(function* () {
          const { org_id } = yield* Authorized("approvals.read")
          return yield* read(org_id)
        }).pipe(Effect.withSpan("Rules.list")),
        replace: Effect.fn("Rules.replace")(function* (input) {
          const principal = yield* Authorized("rules.write")
          const { org_id } = principal
          const rules = yield* Effect.forEach(input.rules, completed)
          const errors = faultsOf(rules)
          if (errors.length > 0)
            return yield* new InvalidRequest({ detail: "The rules contradict themselves", errors })
          const text = JSON.stringify(rules)
          return yield* atomically(
            Effect.gen(function* () {
              // The first list of an organization is a row like any other, so that two first lists meet at it.
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
                  detail: "Read the rules again, and send them with that revision",
                  current_revision: revision
                })
              }
              const { revision } = replaced[0]
              yield* audit.record(principal, "rules.replaced", org_id, { revision, rules: rules.length })
              return { rules, revision }
            })
          )
        })
      })
    })
  )
}

/** Lists that one process keeps decoded, and the rules in all of them: a rule takes about a kilobyte. */
const KEPT_LISTS = 1_000
const KEPT_RULES = 10_000

const none: ApprovalRules = { rules: [], revision: 0 }

const decodeRules = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ rules: Schema.NullOr(Schema.Array(ApprovalRule)), revision: Schema.Int }))
)

/** What each rule may be, but not this rule, or not beside the others. */
const faultsOf = (rules: ReadonlyArray<ApprovalRule>): ReadonlyArray<FieldError> => {
  const ids = new Set<RuleId>()
  const errors: Array<FieldError> = []
  for (const [index, rule] of rules.entries()) {
    if (ids.has(rule.id)) errors.push({ pointer: `#/rules/${index}/id`, detail: "Another rule has this id" })
    ids.add(rule.id)
    if (rule.expiring_seconds !== null && rule.expiring_seconds >= rule.review_seconds) {
      errors.push({
        pointer: `#/rules/${index}/expiring_seconds`,
        detail: "Expected less than review_seconds"
      })
    }
  }
  return errors
}

/** A rule with everything that was left unsaid. */
const completed = (rule: NewApprovalRule): Effect.Effect<ApprovalRule> => {
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
