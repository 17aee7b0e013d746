import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { RedactionRules } from "../domain/redaction/RedactionRules.ts"
import { Authentication, requires } from "./Authorization.ts"
import { CredentialFree, RequestBody } from "./Middleware.ts"
import { InsufficientScope, RedactionSettingsChanged } from "./Problems.ts"

const { exceptions, patterns, personal_data, redact_runs } = RedactionRules.fields

export const RedactionSettings = Schema.Struct({
  ...RedactionRules.fields,
  revision: Schema.Int.annotateKey({
    description: "Revision of the settings. It increases with every change; 0 before the first."
  })
}).annotate({
  identifier: "RedactionSettings",
  description: "The organization's own redaction rules, besides its credentials and recognizable secrets."
})
export type RedactionSettings = typeof RedactionSettings.Type

export const ReplaceRedactionSettings = Schema.Struct({
  patterns: Schema.optionalKey(patterns),
  exceptions: Schema.optionalKey(exceptions),
  personal_data: Schema.optionalKey(personal_data),
  redact_runs: Schema.optionalKey(redact_runs),
  revision: Schema.optionalKey(Schema.Int).annotateKey({
    description:
      "The revision that is to be replaced. If it is no longer current, the request fails. Absent: any."
  })
}).annotate({
  identifier: "ReplaceRedactionSettings",
  description: "The complete settings. A list that is absent becomes empty, and `redact_runs` false."
})
export type ReplaceRedactionSettings = typeof ReplaceRedactionSettings.Type

export const PreviewRedaction = Schema.Struct({
  value: Schema.Json.annotateKey({
    description:
      "The text or JSON value to search. Member names matter: a value under `password` is more likely a secret."
  }),
  settings: Schema.optionalKey(
    Schema.Struct({
      patterns: Schema.optionalKey(patterns),
      exceptions: Schema.optionalKey(exceptions),
      personal_data: Schema.optionalKey(personal_data)
    })
  ).annotateKey({
    description: "Settings to try instead of the organization's. A list that is absent is empty."
  })
}).annotate({ identifier: "PreviewRedaction", description: "A value to redact, and settings to try." })
export type PreviewRedaction = typeof PreviewRedaction.Type

export const RedactionPreview = Schema.Struct({
  value: Schema.Json.annotateKey({ description: "The redacted value." }),
  count: Schema.Int.annotateKey({ description: "Number of fields from which something was removed." }),
  pointers: Schema.Array(Schema.String).annotateKey({
    description: "JSON Pointers of these fields in the request, such as `#/value`; the first 20."
  })
}).annotate({ identifier: "RedactionPreview", description: "What redaction would remove from a value." })
export type RedactionPreview = typeof RedactionPreview.Type

export class RedactionSettingsApi extends HttpApiGroup.make("redactionSettings")
  .add(
    HttpApiEndpoint.get("get", "/", { success: RedactionSettings })
      .middleware(requires("org_config.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getRedactionSettings",
          summary: "Get the redaction settings",
          description:
            "Returns the organization's patterns, exceptions, kinds of personal data, and whether runs are redacted."
        })
      ),
    HttpApiEndpoint.put("replace", "/", {
      payload: ReplaceRedactionSettings,
      success: RedactionSettings,
      error: [InsufficientScope, RedactionSettingsChanged]
    })
      .middleware(CredentialFree)
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "replaceRedactionSettings",
          summary: "Replace the redaction settings",
          description:
            "Replaces all lists. The settings apply from the next request on; stored texts do not change. A pattern that cannot be matched in linear time, matches an empty text or is too large is rejected with 400 and its pointer. Settings that redact less than before need the scopes that read the content: `runs.read`, `feedback.read`, `sessions.read` and `approvals.read`. With `revision`, fails with 409 `REDACTION_SETTINGS_CHANGED` if the settings changed since."
        })
      ),
    HttpApiEndpoint.post("preview", "/preview", {
      payload: PreviewRedaction,
      success: RedactionPreview
    })
      .middleware(requires("org_config.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "previewRedaction",
          summary: "Try redaction on a value",
          description:
            "Returns a value as the organization's credentials, recognizable secrets and the settings would redact it. Nothing is stored. With `settings`, tries these before you replace the stored ones."
        })
      )
  )
  .prefix("/v1/redaction-settings")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Redaction settings",
      description:
        "Patterns and exceptions of the organization, and personal data, for the redaction of corrections, review notes, comments and exported content."
    })
  ) {}
