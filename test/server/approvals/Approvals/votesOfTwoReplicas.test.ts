import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../../src/api/Authorization.ts"
import { KeyId, type OrgId, StepId } from "../../../../src/domain/Ids.ts"
import type { Principal } from "../../../../src/domain/identity/Principal.ts"
import { Approvals } from "../../../../src/server/approvals/Approvals.ts"
import { Rules } from "../../../../src/server/approvals/Rules.ts"
import { Sessions } from "../../../../src/server/approvals/Sessions.ts"
import { Steps } from "../../../../src/server/approvals/Steps.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { layerTwoReplicas, SecondReplica } from "../../../support/twoReplicas.ts"

layer(layerTwoReplicas, { excludeTestServices: true })("Approvals with a quorum › two replicas", (it) => {
  it.effect("a vote through another replica is kept by one that has cached the approval without it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* (yield* Countersign).key({}, "two replicas")
      const [organization] = yield* sql<{ readonly org_id: OrgId }>`
        SELECT org_id FROM organizations WHERE name = 'two replicas'
      `
      if (organization === undefined) return assert.fail("the key's organization exists")
      const person = (name: string): Effect.Effect<Principal> =>
        Effect.map(KeyId.generate, (id) => ({
          ...organization,
          actor: { id, name },
          scopes: new Set(),
          groups: [],
          keyMakers: [],
          makers: []
        }))
      const agent = yield* person("agent")
      const first = yield* Approvals
      const second = yield* Effect.provideContext(Approvals, yield* SecondReplica)

      yield* Effect.provideService(
        Effect.flatMap(Rules, ({ replace }) =>
          replace({ rules: [{ effect: "require_approval", quorum: [{ count: 3 }] }] })
        ),
        Authorized("rules.write"),
        agent
      )
      for (const step of ["1", "2", "3"]) {
        // The first replica writes the step, and caches its approval.
        const { approval_id } = yield* Effect.provideService(
          Effect.gen(function* () {
            const { session_id } = yield* (yield* Sessions).create({})
            return yield* (yield* Steps).check(session_id, {
              step_id: StepId.make(step),
              tool: "payments.pay",
              action_class: "write"
            })
          }),
          Authorized("sessions.write"),
          agent
        )
        if (approval_id === null) return assert.fail("the step waits")
        const vote = Effect.fnUntraced(function* (approvals: Approvals["Service"], name: string) {
          const decided = yield* Effect.provideService(
            approvals.decide(approval_id, { decision: "approve" }),
            Authorized("approvals.decide"),
            yield* person(name)
          )
          return [decided.status, ...decided.votes.map(({ voted_by }) => voted_by.name)]
        })
        assert.deepStrictEqual(yield* vote(second, "Ada"), ["pending", "Ada"])
        assert.deepStrictEqual(yield* vote(first, "Ben"), ["pending", "Ada", "Ben"])
        assert.deepStrictEqual(yield* vote(second, "Cy"), ["approved", "Ada", "Ben", "Cy"])
      }
    })
  )
})
