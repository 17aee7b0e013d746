import { Effect } from "effect"
import type { EffectCalls } from "../../client/Call.ts"
import type { CountersignClient } from "../../client/connect.ts"
import { printStep } from "../print.ts"
import { DemoFailed, during } from "./DemoFailed.ts"

/** The vouchers, in cents: the first and the third fit into the budget, the second would exceed it, and so would the fourth. */
const vouchers = [
  { amount_cents: 4_010, expected: "allow" },
  { amount_cents: 6_000, expected: "pending" },
  { amount_cents: 5_990, expected: "allow" },
  { amount_cents: 1, expected: "pending" }
] as const

/** Plays a budget that is used up: an agent sends vouchers for 100 euros a day, and a person is asked about more. Fails unless exactly these are allowed. */
export const playBudget = Effect.fnUntraced(function* (admin: EffectCalls, agent: CountersignClient) {
  yield* admin.approvalRules
    .replace({
      payload: {
        rules: [
          {
            tool: "vouchers.send",
            effect: "allow",
            budget: {
              per: "key",
              window_seconds: 86_400,
              sum: { pointer: "/amount_cents", at_most: 10_000 }
            }
          }
        ]
      }
    })
    .pipe(during("writing the rule with a budget"))
  const decided = yield* Effect.tryPromise(async () => {
    const { session_id } = await agent.sessions.create()
    const lines: Array<{ readonly decision: string; readonly text: string }> = []
    for (const [index, { amount_cents }] of vouchers.entries()) {
      const { decision, reason } = await agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: `voucher-${index + 1}`,
          tool: "vouchers.send",
          action_class: "write",
          arguments: { amount_cents }
        }
      })
      lines.push({ decision, text: `${amount_cents}: ${decision}, ${reason}` })
    }
    return lines
  }).pipe(during("sending vouchers"))
  yield* printStep(
    "A rule allows vouchers of 100 euros a day, and a person is asked about more",
    ...decided.map(({ text }) => text)
  )
  const isExpected = vouchers.every(({ expected }, index) => decided[index]?.decision === expected)
  if (!isExpected) return yield* new DemoFailed({ message: "the budget was not kept, or not used up" })
})
