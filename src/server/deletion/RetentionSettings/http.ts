import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { RetentionSettings } from "../RetentionSettings.ts"

/** The handlers of `/v1/retention-settings`. */
export const RetentionSettingsHttp = HttpApiBuilder.group(
  Api,
  "retentionSettings",
  Effect.fnUntraced(function* (handlers) {
    const settings = yield* RetentionSettings
    return handlers.handleAll({
      get: () => settings.get,
      replace: ({ payload }) => settings.replace(payload)
    })
  })
)
