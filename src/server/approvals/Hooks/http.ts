import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { DEFAULT_HOOK_WAIT_SECONDS } from "../../../api/Hooks.ts"
import { readHookInput } from "../../../domain/hooks/HookInput.ts"
import { Hooks } from "../Hooks.ts"

/** The handlers of `/v1/hooks`. */
export const HooksHttp = HttpApiBuilder.group(
  Api,
  "hooks",
  Effect.fnUntraced(function* (handlers) {
    const hooks = yield* Hooks
    return handlers.handleAll({
      claudeCode: ({ payload, query }) =>
        hooks.answer(readHookInput("claude-code", payload), {
          waitSeconds: query.wait_seconds ?? DEFAULT_HOOK_WAIT_SECONDS,
          defer: query.defer === "true"
        })
    })
  })
)
