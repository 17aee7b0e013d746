import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { ApprovalRule, judge, type RuledStep, type Verdict } from "../domain/ApprovalRule.ts"
import type { OrgId } from "../domain/Ids.ts"

/** The organization's ordered list of approval rules. */
export class Rules extends Context.Service<
  Rules,
  {
    /** What the rules say of a step, as they stand now. */
    readonly judge: (org_id: OrgId, step: RuledStep) => Effect.Effect<Verdict>
  }
>()("countersign/server/Rules") {
  static readonly layer = Layer.effect(
    Rules,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient

      return Rules.of({
        judge: Effect.fn("Rules.judge")(function* (org_id, step) {
          const rows = yield* sql`
            SELECT rules
            FROM approval_rules
            WHERE org_id = ${org_id}
          `
          const [row] = yield* decodeRules(rows)
          return judge(row?.rules ?? [], step)
        }, Effect.orDie)
      })
    })
  )
}

const decodeRules = Schema.decodeUnknownEffect(
  Schema.Array(Schema.Struct({ rules: Schema.Array(ApprovalRule) }))
)
