import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect } from "effect"
import type { NewApprovalRule } from "../../../src/api/ApprovalRules.ts"
import { StepId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

/** Text that makes a step too large for a shared statement, so that it is decided in a transaction. */
const LARGE = "x".repeat(70_000)

layer(service(), { excludeTestServices: true })("Budgets", (it) => {
  const team = Effect.fnUntraced(function* (organization: string, rules: ReadonlyArray<NewApprovalRule>) {
    const countersign = yield* Countersign
    const admin = yield* countersign.client({ preset: "admin" }, organization)
    yield* admin.approvalRules.replace({ payload: { rules } })
    const agent = yield* countersign.client({ preset: "runtime" }, organization)
    const { session_id } = yield* agent.sessions.create({})
    let number = 0
    const submit = (args?: object, over: object = {}) =>
      agent.sessions.step({
        params: { id: session_id },
        payload: {
          step_id: StepId.make(`step ${++number}`),
          tool: "pay",
          action_class: "write",
          ...(args === undefined ? {} : { arguments: { ...args } }),
          ...over
        }
      })
    return { admin, agent, session_id, submit }
  })

  for (const [path, extra] of [
    ["in shared statements", {}],
    ["in transactions", { note: LARGE }]
  ] as const) {
    it.effect(`${path}, a rule allows a number of steps, and the reason of the next names the figures`, () =>
      Effect.gen(function* () {
        const { submit } = yield* team(`count ${path}`, [
          { tool: "pay", effect: "allow", budget: { per: "session", window_seconds: 3600, count: 3 } }
        ])
        for (const _ of Arr.range(1, 3)) {
          const { decision, reason } = yield* submit({ ...extra })
          assert.strictEqual(decision, "allow", reason)
        }
        const { decision, reason } = yield* submit({ ...extra })
        assert.strictEqual(decision, "pending")
        assert.strictEqual(
          reason,
          "No rule matches; a person must approve (rule 1 does not allow it: its budget per session in 1 hour is used up: 3 of 3 steps)"
        )
      })
    )
  }
})
