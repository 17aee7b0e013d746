import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import { RetentionSettingsChanged } from "../../api/Problems.ts"
import type { ReplaceRetentionSettings, RetentionSettings as Settings } from "../../api/RetentionSettings.ts"
import { Audit } from "../identity/Audit.ts"
import { raiseSettingsRevision } from "../store/raiseSettingsRevision.ts"
import { rowsOf } from "../store/rows.ts"
import { atomic } from "../store/transaction.ts"

/** How long an organization's runs, feedback and agent sessions are retained. The worker `data_retention` reads the rows. */
export class RetentionSettings extends Context.Service<
  RetentionSettings,
  {
    /** The organization's settings, with their revision. */
    readonly get: Effect.Effect<Settings, never, Authorized<"org_config.read">>
    /** Replaces the settings. A `revision` other than the current one fails; without one there is no check. */
    readonly replace: (
      input: ReplaceRetentionSettings
    ) => Effect.Effect<Settings, RetentionSettingsChanged, Authorized<"data.delete">>
  }
>()("countersign/server/deletion/RetentionSettings") {
  static readonly layer = Layer.effect(
    RetentionSettings,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit

      return RetentionSettings.of({
        get: Effect.gen(function* () {
          const { org_id } = yield* Authorized("org_config.read")
          const row = yield* settingsRows.first(sql`
            SELECT run_days, feedback_days, session_days, revision
            FROM retention_settings
            WHERE org_id = ${org_id}
          `)
          return row ?? noSettings
        }).pipe(Effect.orDie, Effect.withSpan("RetentionSettings.get")),
        replace: Effect.fn("RetentionSettings.replace")(function* ({
          feedback_days = null,
          revision: replaced,
          run_days = null,
          session_days = null
        }) {
          const principal = yield* Authorized("data.delete")
          const { org_id } = principal
          return yield* atomically(
            Effect.gen(function* () {
              const revision = yield* raiseSettingsRevision(
                sql,
                "retention_settings",
                { org_id },
                replaced,
                RetentionSettingsChanged
              )
              yield* sql`
                UPDATE retention_settings
                SET run_days = ${run_days}::int, feedback_days = ${feedback_days}::int, session_days = ${session_days}::int
                WHERE org_id = ${org_id}
              `
              const stored: Settings = { run_days, feedback_days, session_days, revision }
              yield* audit.record(principal, "retention_settings.replaced", org_id, { ...stored })
              return stored
            })
          )
        })
      })
    })
  )
}

const noSettings: Settings = { run_days: null, feedback_days: null, session_days: null, revision: 0 }

const settingsRows = rowsOf(
  Schema.Struct({
    run_days: Schema.NullOr(Schema.Int),
    feedback_days: Schema.NullOr(Schema.Int),
    session_days: Schema.NullOr(Schema.Int),
    revision: Schema.Int
  })
)
