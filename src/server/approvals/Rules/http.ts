import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { Rules } from "../Rules.ts"
import { RuleSuggestions } from "../RuleSuggestions.ts"
import { RuleTests } from "../RuleTests.ts"
import { ShadowRules } from "../ShadowRules.ts"

/** The handlers of `/v1/approval-rules`. */
export const RulesHttp = HttpApiBuilder.group(
  Api,
  "approval_rules",
  Effect.fnUntraced(function* (handlers) {
    const rules = yield* Rules
    const tests = yield* RuleTests
    const suggestions = yield* RuleSuggestions
    const shadow = yield* ShadowRules
    return handlers.handleAll({
      list: () => rules.list,
      replace: ({ payload }) => rules.replace(payload),
      test: ({ payload }) => tests.test(payload),
      suggestions: ({ query }) => suggestions.suggest(query),
      shadow: () => shadow.get,
      replace_shadow: ({ payload }) => shadow.replace(payload),
      remove_shadow: () => shadow.remove,
      promote_shadow: ({ payload }) => shadow.promote(payload),
      shadow_differences: ({ query }) => shadow.differences(query)
    })
  })
)
