import { randomUUID } from "node:crypto"
import type { NewApprovalRule } from "../../../src/client/connect/index.ts"
import type { BudgetCall, BudgetLimits } from "../models/budgetModel.ts"
import { makeRecorder, type Recorder } from "../record.ts"
import { pick, untilAnswered, untilDefined, type World } from "./World.ts"

/** The history of the steps of one account. */
export interface BudgetHistory {
  readonly account: string
  readonly recorder: Recorder<BudgetCall>
}

export const budgetLimits: BudgetLimits = { count: 6, sum: 1_000 }

/** The rule of the tool has an id: one without would begin a new count with each replacement of the rules. */
export const budgetRules: ReadonlyArray<NewApprovalRule> = [
  {
    id: `rul_${"b".repeat(32)}`,
    tool: "spend",
    effect: "allow",
    when: [],
    quorum: [{ count: 1 }],
    budgets: [
      {
        per: "organization",
        window_seconds: 24 * 3_600,
        count: budgetLimits.count,
        sum: { pointer: "/amount", at_most: budgetLimits.sum / 100 },
        by: ["/account"]
      }
    ]
  },
  { tool: "spend", effect: "reject" }
]

const CLIENTS = 4

/** Steps of each client, with one that another client submits too. */
const STEPS = 5

/** Several agents in two sessions spend the budget of one account. */
export const runBudget = async (world: World): Promise<BudgetHistory> => {
  const account = randomUUID()
  const recorder = makeRecorder<BudgetCall>(world.counts)
  const { agent } = world.people
  const open = () => untilAnswered(async () => (await world.clientOf(agent).sessions.create({})).session_id)
  const sessions = [await open(), await open()]
  const amounts = new Map<string, number>()
  const spend = async (client: string, session: number, step: string) => {
    const amount = amounts.get(step) ?? pick(world.random, [50, 70, 110, 330])
    amounts.set(step, amount)
    const call = { step, amount }
    await untilDefined(() =>
      recorder.call(client, call, async () => {
        const { decision } = await world.clientOf(agent).sessions.step({
          params: { id: sessions[session] ?? "" },
          payload: {
            step_id: step,
            tool: "spend",
            action_class: "write",
            arguments: { account, amount: amount / 100 }
          }
        })
        return decision
      })
    )
  }
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, client) => {
      for (let step = 0; step < STEPS; step++) {
        const shared = step === STEPS - 1
        const session = client % sessions.length
        await spend(
          `client ${client}`,
          session,
          shared ? `shared by session ${session}` : `${client}.${step}`
        )
        await world.think()
      }
    })
  )
  return { account, recorder }
}
