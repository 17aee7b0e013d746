import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Authentication, requires } from "./Authorization.ts"
import { RequestBody } from "./Middleware.ts"
import { RetentionSettingsChanged } from "./Problems.ts"

/** The longest retention: ten years. */
const MAX_DAYS = 3_650

const Days = Schema.NullOr(
  Schema.Int.check(
    Schema.isBetween(
      { minimum: 1, maximum: MAX_DAYS },
      { expected: `a whole number from 1 to ${MAX_DAYS}, or null` }
    )
  )
)

export const RetentionSettings = Schema.Struct({
  run_days: Days.annotateKey({
    description: `Days after which a run is deleted, with the feedback on it: 1 to ${MAX_DAYS}. Null: runs are retained.`
  }),
  feedback_days: Days.annotateKey({
    description: `Days after which feedback is deleted: 1 to ${MAX_DAYS}. Null: as long as its run.`
  }),
  session_days: Days.annotateKey({
    description: `Days after the last event of an agent session until it is deleted, with its steps and approvals: 1 to ${MAX_DAYS}. Null: sessions are retained.`
  }),
  revision: Schema.Int.annotateKey({
    description: "Revision of the settings. It increases with every change; 0 before the first."
  })
}).annotate({
  identifier: "RetentionSettings",
  description: "How long the organization's runs, feedback and agent sessions are retained."
})
export type RetentionSettings = typeof RetentionSettings.Type

const { feedback_days, run_days, session_days } = RetentionSettings.fields

export const ReplaceRetentionSettings = Schema.Struct({
  run_days: Schema.optionalKey(run_days),
  feedback_days: Schema.optionalKey(feedback_days),
  session_days: Schema.optionalKey(session_days),
  revision: Schema.optionalKey(Schema.Int).annotateKey({
    description:
      "The revision that is to be replaced. If it is no longer current, the request fails. Absent: any."
  })
}).annotate({
  identifier: "ReplaceRetentionSettings",
  description: "The complete settings. An absent member becomes null: these records are retained."
})
export type ReplaceRetentionSettings = typeof ReplaceRetentionSettings.Type

export class RetentionSettingsApi extends HttpApiGroup.make("retentionSettings")
  .add(
    HttpApiEndpoint.get("get", "/", { success: RetentionSettings })
      .middleware(requires("org_config.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getRetentionSettings",
          summary: "Get the retention settings",
          description: "Returns how long runs, feedback and agent sessions are retained."
        })
      ),
    HttpApiEndpoint.put("replace", "/", {
      payload: ReplaceRetentionSettings,
      success: RetentionSettings,
      error: RetentionSettingsChanged
    })
      .middleware(requires("data.delete"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "replaceRetentionSettings",
          summary: "Replace the retention settings",
          description: [
            "Replaces the settings. A worker deletes what is older, within the hour and in small steps. It cannot be undone.",
            "Staged corrections stay, with their runs, until they are promoted, rejected or unstaged; pending ones do not. Examples of datasets stay. The counts of feedback by release and day stay.",
            "A session with a pending approval stays. With `revision`, fails with 409 `RETENTION_SETTINGS_CHANGED` if the settings changed since."
          ].join(" ")
        })
      )
  )
  .prefix("/v1/retention-settings")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Retention settings",
      description: "How long an organization's runs, feedback and agent sessions are retained."
    })
  ) {}
