import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../api/Authorization.ts"
import type { FeedbackSettings as Settings, ReplaceFeedbackSettings } from "../../api/FeedbackSettings.ts"
import { FeedbackSettingsChanged } from "../../api/Problems.ts"
import type { OrgId } from "../../domain/Ids.ts"
import { Audit } from "../identity/Audit.ts"
import { textArray } from "../store/pgArrays.ts"
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

      const read = (org_id: OrgId): Effect.Effect<Settings> =>
        settingsRows
          .first(
            sql`
              SELECT revision, allowed_origins
              FROM feedback_settings
              WHERE org_id = ${org_id}
            `
          )
          .pipe(
            Effect.map((row) => row ?? { revision: 0, allowed_origins: [] }),
            Effect.orDie
          )

      return FeedbackSettings.of({
        get: Effect.gen(function* () {
          const { org_id } = yield* Authorized("org_config.read")
          return yield* read(org_id)
        }).pipe(Effect.withSpan("FeedbackSettings.get")),
        replace: Effect.fn("FeedbackSettings.replace")(function* ({ allowed_origins, revision: replaced }) {
          const principal = yield* Authorized("org_config.write")
          const { org_id } = principal
          const origins = [...new Set(allowed_origins)]
          return yield* atomically(
            Effect.gen(function* () {
              // Creates the row of an organization without settings, so that two first requests conflict on it.
              yield* sql`
                INSERT INTO feedback_settings (org_id, revision, allowed_origins)
                VALUES (${org_id}, 0, '{}')
                ON CONFLICT (org_id) DO NOTHING
              `
              const [row] = yield* sql<{ readonly revision: number }>`
                UPDATE feedback_settings
                SET allowed_origins = ${textArray(origins)}::text[], revision = revision + 1
                WHERE org_id = ${org_id}
                  ${replaced === undefined ? sql.literal("") : sql`AND revision = ${replaced}`}
                RETURNING revision
              `
              if (row === undefined) {
                const { revision } = yield* read(org_id)
                return yield* new FeedbackSettingsChanged({
                  detail:
                    "The settings were changed by another request. Re-read them and send the change with their `revision`.",
                  current_revision: revision
                })
              }
              yield* audit.record(principal, "feedback_settings.replaced", org_id, {
                revision: row.revision,
                allowed_origins: origins
              })
              return { allowed_origins: origins, revision: row.revision }
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
