import { assert, layer } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import type { NewGrant } from "../../../../src/api/Grants.ts"
import { StepId } from "../../../../src/domain/Ids.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { layerTwoReplicas, SecondReplica } from "../../../support/twoReplicas.ts"

/** An agent and a reviewer with a client for each replica, and a session whose steps wait for a person. */
const team = Effect.fnUntraced(function* (organization: string) {
  const first = yield* Countersign
  const second = yield* Effect.provideContext(Countersign, yield* SecondReplica)
  const agentKey = yield* first.key({ preset: "runtime" }, organization)
  const reviewerKey = yield* first.key({ preset: "reviewer" }, organization)
  const agents = [yield* first.clientWith(agentKey), yield* second.clientWith(agentKey)] as const
  const reviewers = [yield* first.clientWith(reviewerKey), yield* second.clientWith(reviewerKey)] as const
  const { session_id } = yield* agents[0].sessions.create({})
  const submit = (replica: 0 | 1, step: string) =>
    agents[replica].sessions.step({
      params: { id: session_id },
      payload: { step_id: StepId.make(step), tool: "payments.pay", action_class: "write", arguments: step }
    })
  /** Submits a step through the first replica, and approves it with a grant through the second. */
  const grantFor = Effect.fnUntraced(function* (grant: NewGrant) {
    const { approval_id } = yield* submit(0, "first")
    const { grant: made } = yield* reviewers[1].approvals.decide({
      params: { id: approval_id ?? assert.fail("the step waits") },
      payload: { decision: "approve", grant }
    })
    return made ?? assert.fail("a grant was made")
  })
  return { grantFor, reviewers, submit }
})

layer(layerTwoReplicas, { excludeTestServices: true, timeout: "60 seconds" })(
  "Grants › two replicas",
  (it) => {
    it.effect(
      "of concurrent steps through both replicas, exactly as many are allowed as the grant counts",
      () =>
        Effect.gen(function* () {
          const { grantFor, reviewers, submit } = yield* team("count")
          const grant = yield* grantFor({ scope: "tool", max_uses: 5 })
          // Each step twice, as a client does that repeats a request through another replica.
          const requests = Array.from({ length: 32 }, (_, index) => ({
            replica: index % 2 === 0 ? (0 as const) : (1 as const),
            step: `step ${Math.floor(index / 2)}`
          }))
          const answers = yield* Effect.forEach(requests, ({ replica, step }) => submit(replica, step), {
            concurrency: 8
          })
          const allowed = new Set(
            answers.flatMap(({ decision, grant_id, step_id }) =>
              decision === "allow" && grant_id === grant.grant_id ? [step_id] : []
            )
          )
          assert.strictEqual(allowed.size, 5)
          for (const { decision, step_id } of answers)
            assert.strictEqual(decision, allowed.has(step_id) ? "allow" : "pending", step_id)
          const used = yield* reviewers[0].grants.get({ params: { id: grant.grant_id } })
          assert.deepInclude(used, { uses: 5, status: "used_up" })
        })
    )

    it.effect("a grant made or revoked through one replica holds for the next step of the other", () =>
      Effect.gen(function* () {
        const { grantFor, reviewers, submit } = yield* team("revoked")
        const { grant_id } = yield* grantFor({ scope: "tool" })
        assert.strictEqual((yield* submit(0, "1")).decision, "allow")
        assert.strictEqual((yield* submit(1, "2")).decision, "allow")
        yield* reviewers[1].grants.revoke({ params: { id: grant_id } })
        assert.strictEqual((yield* submit(0, "3")).decision, "pending")
        assert.strictEqual((yield* submit(1, "4")).decision, "pending")
      })
    )

    it.effect("of steps that race with the revocation, those allowed are those counted", () =>
      Effect.gen(function* () {
        const { grantFor, reviewers, submit } = yield* team("race")
        const { grant_id } = yield* grantFor({ scope: "tool" })
        const first = yield* Deferred.make<void>()
        const steps = Array.from({ length: 40 }, (_, index) =>
          Effect.tap(submit(index % 2 === 0 ? 0 : 1, `step ${index}`), () =>
            Deferred.succeed(first, undefined)
          )
        )
        const revoke = Effect.andThen(
          Deferred.await(first),
          reviewers[1].grants.revoke({ params: { id: grant_id } })
        )
        const [answers, revoked] = yield* Effect.all([Effect.all(steps, { concurrency: 4 }), revoke], {
          concurrency: "unbounded"
        })
        const allowed = answers.filter(({ decision }) => decision === "allow").length
        assert.isAbove(allowed, 0)
        assert.isBelow(allowed, steps.length)
        assert.strictEqual(revoked.status, "revoked")
        assert.strictEqual(revoked.uses, allowed)
        const { uses } = yield* reviewers[0].grants.get({ params: { id: grant_id } })
        assert.strictEqual(uses, allowed)
      })
    )
  }
)
