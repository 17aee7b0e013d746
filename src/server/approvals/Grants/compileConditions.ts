import { Effect } from "effect"
import {
  conditionsOfGrant,
  type GrantConditions,
  rulesOfGrant
} from "../../../domain/approvals/grantAllows.ts"
import type { RuleCondition } from "../../../domain/approvals/RuleCondition.ts"
import { compileInTurns } from "../Rules/compileInTurns.ts"

/** Compiles the conditions of a grant in turns at the event loop. */
export const compileConditions = (when: ReadonlyArray<RuleCondition>): Effect.Effect<GrantConditions> =>
  Effect.map(compileInTurns(rulesOfGrant(when)), conditionsOfGrant)
