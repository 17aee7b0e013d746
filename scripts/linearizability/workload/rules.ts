import type { NewApprovalRule } from "../../../src/client/connect/index.ts"
import { type RulesCall, rulesAnswer, type RulesState } from "../models/rulesModel.ts"
import type { Recorder } from "../record.ts"
import { budgetRules } from "./budgets.ts"
import { sleep, type World } from "./World.ts"

/** A tool of the agents, and what the rules say to it. */
export interface Tool {
  readonly tool: string
  readonly rule: "allow" | "reject" | "require_approval"
  /** `expiring_seconds` of the rule; null means a quarter of the window. */
  readonly expiringSeconds: number | null
}

const ruleOf: ReadonlyArray<NewApprovalRule> = [
  { tool: "read", effect: "allow" },
  { tool: "drop", effect: "reject" },
  { tool: "pay", effect: "require_approval", review_seconds: 3_600 },
  { tool: "wire", effect: "require_approval", review_seconds: 3_600, quorum: [{ count: 2 }] },
  // Windows end while the session is in use.
  { tool: "note", effect: "require_approval", review_seconds: 1, expiring_seconds: 0 },
  {
    tool: "page",
    effect: "require_approval",
    review_seconds: 1,
    escalation_seconds: 1,
    timeout_action: "allow"
  }
]

export const tools: ReadonlyArray<Tool> = ruleOf.map(({ effect, expiring_seconds, tool = "*" }) => ({
  tool,
  rule: effect,
  expiringSeconds: expiring_seconds ?? null
}))

/** The rules of all tools, and one that matches none, whose name marks the list. */
export const markedRules = (mark: string): ReadonlyArray<NewApprovalRule> => [
  ...ruleOf,
  ...budgetRules,
  { tool: `${MARK}${mark}`, effect: "reject" }
]

const MARK = "mark "

/** The state that a list of rules shows. */
export const rulesState = (list: {
  readonly revision: number
  readonly rules: ReadonlyArray<{ readonly tool: string }>
}): RulesState => ({
  revision: list.revision,
  mark: list.rules.at(-1)?.tool.slice(MARK.length) ?? ""
})

/** The longest pause of an administrator between two changes of the rules. */
const PAUSE_MILLIS = 400

/** Reads and replaces the rules until the run is over: some replacements know the current revision, others an old one. */
export const changeRules = async (
  world: World,
  name: string,
  recorder: Recorder<RulesCall>
): Promise<void> => {
  let known: RulesState | undefined
  for (let change = 1; !world.isOver(); change++) {
    if (known === undefined || world.random() < 0.4) {
      await recorder.call(name, { kind: "get" }, async () => {
        known = rulesState(await world.clientOf(world.people.admin).approvalRules.get())
        return rulesAnswer(known)
      })
    } else {
      const { revision } = known
      const mark = `${name}.${change}`
      await recorder.call(name, { kind: "replace", revision, mark }, async () => {
        const replaced = await world
          .clientOf(world.people.admin)
          .approvalRules.replace({ payload: { rules: markedRules(mark), revision } })
        known = rulesState(replaced)
        return rulesAnswer(known)
      })
    }
    await sleep(world.random() * PAUSE_MILLIS)
  }
}
