import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { FeedbackSettings as Settings, ReplaceFeedbackSettings } from "../../api/FeedbackSettings.ts"
import { FeedbackSettingsChanged } from "../../api/Problems.ts"
import { Audit } from "../identity/Audit.ts"
import { textArray } from "../store/pgArrays.ts"
import { raiseSettingsRevision } from "../store/raiseSettingsRevision.ts"
import { rowsOf } from "../store/rows.ts"
import { atomic } from "../store/transaction.ts"

/** The settings of organizations for the feedback of end users. */
export class FeedbackSettings extends Context.Service<
  FeedbackSettings,
  {
    /** The organization's settings, with their revision. */
    readonly get: Effect.Effect<Settings, never, Authorized<"org_config.read">>
    /** Replaces the settings. A `revision` other than the current one fails; without one there is no check. */
    readonly replace: (
      input: ReplaceFeedbackSettings
    ) => Effect.Effect<Settings, FeedbackSettingsChanged, Authorized<"org_config.write">>
  }
>()("countersign/server/tasks/FeedbackSettings") {
  static readonly layer = Layer.effect(
    FeedbackSettings,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const atomically = atomic(sql)
      const audit = yield* Audit

      return FeedbackSettings.of({
        get: Effect.gen(function* () {
          const { org_id } = yield* Authorized("org_config.read")
          const row = yield* settingsRows.first(sql`
            SELECT revision, allowed_origins
            FROM feedback_settings
            WHERE org_id = ${org_id}
          `)
          return row ?? { revision: 0, allowed_origins: [] }
        }).pipe(Effect.orDie, Effect.withSpan("FeedbackSettings.get")),
        replace: Effect.fn("FeedbackSettings.replace")(function* ({ allowed_origins, revision: replaced }) {
          const principal = yield* Authorized("org_config.write")
          const { org_id } = principal
          const origins = [...new Set(allowed_origins)]
          return yield* atomically(
            Effect.gen(function* () {
              const revision = yield* raiseSettingsRevision(
                sql,
                "feedback_settings",
                { org_id, allowed_origins: "{}" },
                replaced,
                FeedbackSettingsChanged
              )
              yield* sql`
                UPDATE feedback_settings
                SET allowed_origins = ${textArray(origins)}::text[]
                WHERE org_id = ${org_id}
              `
              const stored: Settings = { revision, allowed_origins: origins }
              yield* audit.record(principal, "feedback_settings.replaced", org_id, { ...stored })
              return stored
            })
          )
        })
      })
    })
  )
}

const settingsRows = rowsOf(
  Schema.Struct({ revision: Schema.Int, allowed_origins: Schema.Array(Schema.String) })
)
