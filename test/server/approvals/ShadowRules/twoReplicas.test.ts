import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { StepId } from "../../../../src/domain/Ids.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { layerTwoReplicas, SecondReplica } from "../../../support/twoReplicas.ts"

layer(layerTwoReplicas, { excludeTestServices: true })("ShadowRules › two replicas", (it) => {
  it.effect("each step is compared with the newest shadow rules, whichever replica stored them", () =>
    Effect.gen(function* () {
      const first = yield* Countersign
      const second = yield* Effect.provideContext(Countersign, yield* SecondReplica)
      const key = yield* first.key({}, "replicas")
      const [here, there] = [yield* first.clientWith(key), yield* second.clientWith(key)]
      const { session_id } = yield* here.sessions.create({})
      const ask = (client: typeof here, step_id: string) =>
        client.sessions.step({
          params: { id: session_id },
          payload: { step_id: StepId.make(step_id), tool: "pay", action_class: "write" }
        })
      // Both cache that there are none.
      yield* ask(here, "here 0")
      yield* ask(there, "there 0")
      const effects = ["allow", "require_approval", "reject", "allow", null, "reject"] as const
      for (const [index, effect] of effects.entries()) {
        const round = index + 1
        const writer = index % 2 === 0 ? here : there
        yield* effect === null
          ? writer.approvalRules.removeShadow({})
          : writer.approvalRules.replaceShadow({ payload: { rules: [{ effect }] } })
        yield* ask(here, `here ${round}`)
        yield* ask(there, `there ${round}`)
        const expected = effect === null || effect === "require_approval" ? 0 : 2
        for (const reader of [here, there]) {
          const { differences, revision } = yield* reader.approvalRules.listShadowDifferences({ query: {} })
          assert.strictEqual(revision, round)
          assert.deepStrictEqual(
            differences.map(({ shadow, step_id }) => [String(step_id), shadow.effect]).toSorted(),
            expected === 0
              ? []
              : [
                  [`here ${round}`, effect],
                  [`there ${round}`, effect]
                ]
          )
        }
      }
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly steps: number }>`
        SELECT count(*)::int AS steps
        FROM governed_steps
        WHERE session_id = ${session_id}
          AND shadow_effect IS NOT NULL
      `
      assert.strictEqual(rows[0]?.steps, 8)
    })
  )

  it.effect("no step between a change of the shadow rules and its end is compared with another list", () =>
    Effect.gen(function* () {
      const first = yield* Countersign
      const second = yield* Effect.provideContext(Countersign, yield* SecondReplica)
      const key = yield* first.key({}, "concurrent")
      const clients = [yield* first.clientWith(key), yield* second.clientWith(key)] as const
      const sessions = yield* Effect.forEach(clients, (client) => client.sessions.create({}))
      const sql = yield* SqlClient.SqlClient
      const effects = ["allow", "reject"] as const
      const writes = Effect.forEach(
        Array.from({ length: 12 }, (_, index) => index),
        (index) =>
          clients[index % 2 === 0 ? 0 : 1].approvalRules.replaceShadow({
            payload: { rules: [{ effect: index % 2 === 0 ? "allow" : "reject" }] }
          })
      )
      const asks = Effect.forEach(
        clients,
        (client, which) =>
          Effect.forEach(Array.from({ length: 40 }), (_, index) =>
            client.sessions.step({
              params: { id: sessions[which]?.session_id ?? assert.fail("a session each") },
              payload: { step_id: StepId.make(`${index}`), tool: "pay", action_class: "write" }
            })
          ),
        { concurrency: 2 }
      )
      yield* Effect.all([writes, asks], { concurrency: 2 })
      // The list of an odd revision allows, that of an even one rejects.
      const rows = yield* sql<{ readonly effect: string | null; readonly revision: number | null }>`
        SELECT shadow_effect AS effect, shadow_revision::int AS revision
        FROM governed_steps
        WHERE session_id = ANY (${sessions.map(({ session_id }) => session_id)}::text[])
      `
      assert.lengthOf(rows, 80)
      for (const { effect, revision } of rows)
        if (revision !== null) assert.strictEqual(effect, effects[(revision - 1) % 2])
    })
  )
})
