import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../../src/api/Authorization.ts"
import { type KeyId, type OrgId, type SessionId, StepId } from "../../../../src/domain/Ids.ts"
import type { Principal } from "../../../../src/domain/identity/Principal.ts"
import { Approvals } from "../../../../src/server/approvals/Approvals.ts"
import { Sessions } from "../../../../src/server/approvals/Sessions.ts"
import { Steps } from "../../../../src/server/approvals/Steps.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { layerTwoReplicas, SecondReplica } from "../../../support/twoReplicas.ts"

layer(layerTwoReplicas, { excludeTestServices: true })("Counter-proposals › two replicas", (it) => {
  it.effect("of steps that use a proposal at once through both replicas, one is allowed, each time", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { key } = yield* Countersign
      yield* key({ preset: "runtime", name: "agent" }, "two replicas")
      yield* key({ preset: "reviewer", name: "Ada" }, "two replicas")
      const people = yield* sql<{ readonly org_id: OrgId; readonly key_id: KeyId; readonly name: string }>`
        SELECT org_id, key_id, api_keys.name
        FROM api_keys
          JOIN organizations USING (org_id)
        WHERE organizations.name = 'two replicas'
      `
      const personNamed = (wanted: string): Principal => {
        const found = people.find(({ name }) => name === wanted) ?? assert.fail(`${wanted} has a key`)
        const { key_id: id, name, org_id } = found
        return { org_id, actor: { id, name }, scopes: new Set(), groups: [], keyMakers: [], makers: [] }
      }
      const agent = personNamed("agent")
      const ada = personNamed("Ada")
      const approvals = yield* Approvals
      const replicas = [yield* Steps, yield* Effect.provideContext(Steps, yield* SecondReplica)]
      const { session_id } = yield* Effect.provideService(
        Effect.flatMap(Sessions, ({ create }) => create({})),
        Authorized("sessions.write"),
        agent
      )
      const check = (steps: Steps["Service"], id: SessionId, step_id: string, amount: number) =>
        Effect.provideService(
          steps.check(id, {
            step_id: StepId.make(step_id),
            tool: "payments.refund",
            action_class: "write",
            arguments: { amount }
          }),
          Authorized("sessions.write"),
          agent
        )
      for (let round = 1; round <= 10; round++) {
        const [first] = replicas
        if (first === undefined) return assert.fail("there is a replica")
        const { approval_id } = yield* check(first, session_id, `refund ${round}`, 500)
        if (approval_id === null) return assert.fail("the step waits")
        // Steps that the replicas request while the proposal is made may come before it, and wait.
        const steps = replicas.flatMap((replica, number) =>
          [1, 2, 3].map((attempt) => check(replica, session_id, `${round}: ${number}.${attempt}`, round))
        )
        const propose = Effect.provideService(
          approvals.decide(approval_id, { decision: "reject", proposed_arguments: { amount: round } }),
          Authorized("approvals.decide"),
          ada
        )
        if (round % 2 === 0) yield* propose
        const [, ...answers] = yield* Effect.all([propose, ...steps], { concurrency: "unbounded" })
        const late = yield* Effect.forEach(replicas, (replica, number) =>
          check(replica, session_id, `${round}: late ${number}`, round)
        )
        const decisions = [...answers, ...late].map(({ decision }) => decision)
        assert.lengthOf(
          decisions.filter((decision) => decision === "allow"),
          1
        )
        const { proposal } = yield* Effect.provideService(
          approvals.get(approval_id),
          Authorized("approvals.read"),
          ada
        )
        const allowed = [...answers, ...late].find(({ decision }) => decision === "allow")
        assert.strictEqual(proposal?.used_by, allowed?.step_id)
      }
    })
  )
})
