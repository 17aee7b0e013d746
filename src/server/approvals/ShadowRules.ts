import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type {
  ApprovalRules,
  PromoteShadowRules,
  ReplaceApprovalRules,
  ShadowApprovalRules,
  ShadowDifferences,
  ShadowDifferencesQuery
} from "../../api/ApprovalRules.ts"
import { Authorized } from "../../api/Authorization.ts"
import {
  type InvalidRequest,
  NotFound,
  RulesChanged,
  type RulesTooLarge,
  type UnknownGroup
} from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { toDate } from "../../domain/Time.ts"
import { Audit } from "../identity/Audit.ts"
import { toPage } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import { Rules } from "./Rules.ts"
import { warningsOf } from "./Rules/warningsOf.ts"
import { lockRules } from "./Rules/lockRules.ts"
import { countDifferences, formatCursor, listDifferences } from "./ShadowRules/differences.ts"

/** Why a list is refused. */
type RefusedRules = RulesChanged | RulesTooLarge | InvalidRequest | UnknownGroup

/**
 * The organization's shadow list: rules that are evaluated for each new step beside the live ones, and not enforced. Where their effect
 * differs from the decision, the step says so.
 */
export class ShadowRules extends Context.Service<
  ShadowRules,
  {
    /** Returns the shadow list. */
    readonly get: Effect.Effect<ShadowApprovalRules, never, Authorized<"approvals.read">>
    /** Replaces the shadow list, with the same checks as the live one. Differences are counted from here on. */
    readonly replace: (
      input: ReplaceApprovalRules
    ) => Effect.Effect<ShadowApprovalRules, RefusedRules, Authorized<"rules.write">>
    /** Removes the shadow list. Idempotent. */
    readonly remove: Effect.Effect<void, never, Authorized<"rules.write">>
    /** Replaces the live list with the shadow list, and removes that. */
    readonly promote: (
      input: PromoteShadowRules
    ) => Effect.Effect<ApprovalRules, NotFound | RefusedRules, Authorized<"rules.write">>
    /** Lists the steps for which the current shadow list differs, newest first. */
    readonly differences: (
      query: ShadowDifferencesQuery
    ) => Effect.Effect<ShadowDifferences, never, Authorized<"approvals.read">>
  }
>()("countersign/server/approvals/ShadowRules") {
  static readonly layer = Layer.effect(
    ShadowRules,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const rules = yield* Rules
      const audit = yield* Audit
      const clock = yield* StoreClock

      const requireRevision = (expected: number | undefined, current_revision: number) =>
        expected === undefined || expected === current_revision
          ? Effect.void
          : new RulesChanged({
              detail:
                "The shadow rules were changed by another request. Re-read them and send the change with their `revision`.",
              current_revision
            })

      /** Removes the locked list. */
      const clear = Effect.fnUntraced(function* (org_id: OrgId) {
        yield* sql`
          UPDATE approval_rules
          SET shadow_rules = NULL, shadow_since = NULL, shadow_revision = shadow_revision + 1
          WHERE org_id = ${org_id}
        `
        yield* sql.afterCommit(Effect.sync(() => rules.forget(org_id)))
      })

      return ShadowRules.of({
        get: Effect.gen(function* () {
          const { org_id } = yield* Authorized("approvals.read")
          const { shadow, shadow_revision } = yield* rules.current(org_id)
          return {
            active: shadow !== null,
            rules: shadow?.rules ?? [],
            revision: shadow_revision,
            since: shadow?.since ?? null,
            warnings: yield* warningsOf(sql, org_id, shadow?.rules ?? [], clock.now)
          }
        }).pipe(Effect.withSpan("ShadowRules.get")),
        replace: Effect.fn("ShadowRules.replace")(function* (input) {
          const author = yield* Authorized("rules.write")
          const { org_id } = author
          return yield* atomically(
            Effect.gen(function* () {
              const { shadow_revision: previous } = yield* lockRules(sql, org_id)
              const prepared = yield* rules.prepare(org_id, input.rules)
              yield* requireRevision(input.revision, previous)
              const since = yield* clock.now
              const revision = previous + 1
              yield* sql`
                UPDATE approval_rules
                SET shadow_rules = ${JSON.stringify(prepared.rules)}, shadow_since = ${toDate(since)}, shadow_revision = ${revision}
                WHERE org_id = ${org_id}
              `
              yield* sql.afterCommit(Effect.sync(() => rules.forget(org_id)))
              const detail = { revision, rules: prepared.rules.length }
              yield* audit.record(author, "rules.shadow_replaced", org_id, detail)
              const warnings = yield* warningsOf(sql, org_id, prepared.rules, clock.now)
              return { active: true, rules: prepared.rules, revision, since, warnings }
            })
          )
        }),
        remove: Effect.gen(function* () {
          const author = yield* Authorized("rules.write")
          const { org_id } = author
          yield* atomically(
            Effect.gen(function* () {
              const stored = yield* lockRules(sql, org_id)
              if (stored.shadow_rules === null) return
              yield* clear(org_id)
              yield* audit.record(author, "rules.shadow_removed", org_id, {
                revision: stored.shadow_revision
              })
            })
          )
        }).pipe(Effect.withSpan("ShadowRules.remove")),
        promote: Effect.fn("ShadowRules.promote")(function* ({ revision, shadow_revision }) {
          const author = yield* Authorized("rules.write")
          const { org_id } = author
          return yield* atomically(
            Effect.gen(function* () {
              const stored = yield* lockRules(sql, org_id)
              if (stored.shadow_rules === null) return yield* noShadowRules
              yield* requireRevision(shadow_revision, stored.shadow_revision)
              // Checked again: a task or a group that they name may be gone.
              const promoted = yield* rules.replaceFor(
                author,
                { rules: stored.shadow_rules, ...(revision === undefined ? {} : { revision }) },
                { shadow_revision: stored.shadow_revision }
              )
              yield* clear(org_id)
              return promoted
            })
          )
        }),
        differences: Effect.fn("ShadowRules.differences")(function* (query) {
          const { org_id } = yield* Authorized("approvals.read")
          const { shadow, shadow_revision: revision } = yield* rules.current(org_id)
          if (shadow === null) return { differences: [], next_cursor: null, revision, changes: [] }
          const differences = yield* listDifferences(sql, org_id, revision, query)
          const { items, next_cursor } = toPage(query, differences, formatCursor)
          const changes = query.cursor === undefined ? yield* countDifferences(sql, org_id, revision) : null
          return { differences: items, next_cursor, revision, changes }
        }, Effect.orDie)
      })
    })
  )
}

const noShadowRules = Effect.fail(
  new NotFound({ detail: "This organization has no shadow rules. Store some first." })
)
