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
  "approvalRules",
  Effect.fnUntraced(function* (handlers) {
    const rules = yield* Rules
    const tests = yield* RuleTests
    const suggestions = yield* RuleSuggestions
    const shadow = yield* ShadowRules
    return handlers.handleAll({
      get: () => rules.list,
      replace: ({ payload }) => rules.replace(payload),
      test: ({ payload }) => tests.test(payload),
      suggest: ({ query }) => suggestions.suggest(query),
      getShadow: () => shadow.get,
      replaceShadow: ({ payload }) => shadow.replace(payload),
      removeShadow: () => shadow.remove,
      promoteShadow: ({ payload }) => shadow.promote(payload),
      listShadowDifferences: ({ query }) => shadow.differences(query)
    })
  })
)
