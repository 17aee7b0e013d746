import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { RedactionSettings } from "../RedactionSettings.ts"

/** The handlers of `/v1/redaction-settings`. */
export const RedactionSettingsHttp = HttpApiBuilder.group(
  Api,
  "redactionSettings",
  Effect.fnUntraced(function* (handlers) {
    const settings = yield* RedactionSettings
    return handlers.handleAll({
      get: () => settings.get,
      replace: ({ payload }) => settings.replace(payload),
      preview: ({ payload }) => settings.preview(payload)
    })
  })
)
