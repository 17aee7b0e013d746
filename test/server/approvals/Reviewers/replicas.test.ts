import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { StepId } from "../../../../src/domain/Ids.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { eventually, waitForBlockedStatements } from "../../../support/eventually.ts"
import { awaitAnswers, byAmount, providerEnvironment, reviewerTeam } from "../../../support/reviewers.ts"
import { layerTwoReplicasWith, SecondReplica } from "../../../support/twoReplicas.ts"

layer(layerTwoReplicasWith(providerEnvironment), { excludeTestServices: true, timeout: "60 seconds" })(
  "Reviewer models › two replicas",
  (it) => {
    it.effect("ask once about each step, whichever replica it was submitted to", () =>
      Effect.gen(function* () {
        const { countersign, model, params } = yield* reviewerTeam("once")
        const second = yield* Effect.provideContext(Countersign, yield* SecondReplica)
        const key = yield* countersign.key({ preset: "runtime" }, "once")
        const agents = [yield* countersign.clientWith(key), yield* second.clientWith(key)] as const
        const { session_id } = yield* agents[0].sessions.create({})
        const steps = Array.from({ length: 40 }, (_, index) => index)
        yield* Effect.forEach(
          steps,
          (index) =>
            agents[index % 2 === 0 ? 0 : 1].sessions.step({
              params: { id: session_id },
              payload: {
                step_id: StepId.make(`step ${index}`),
                tool: "payments.refund",
                action_class: "write",
                arguments: { amount: index }
              }
            }),
          { concurrency: 8 }
        )
        yield* awaitAnswers(params.task_id, steps.length)
        // Looked at again as long as other approvals could have been committed late.
        const sql = yield* SqlClient.SqlClient
        const passed = sql<{ readonly is_passed: boolean }>`
          SELECT last_approval_id > (SELECT max(approval_id) FROM approvals WHERE session_id = ${session_id}) AS is_passed
          FROM reviewers
          WHERE task_id = ${params.task_id}
        `
        yield* eventually(passed, ([row]) => row?.is_passed === true)
        assert.sameMembers(
          model.seen.map(({ step }) => JSON.stringify(step.arguments)),
          steps.map((amount) => JSON.stringify({ amount }))
        )
        const [used] = yield* sql<{ readonly used_calls: number }>`
          SELECT used_calls FROM reviewers WHERE task_id = ${params.task_id}
        `
        assert.strictEqual(used?.used_calls, steps.length)
      })
    )

    it.effect("keep every member of concurrent changes", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* reviewerTeam("changes")
        const sql = yield* SqlClient.SqlClient
        const changes = [{ tools: ["refunds.*"] }, { daily_calls: 7 }, { daily_tokens: 70 }]
        const updating = yield* sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT 1 FROM reviewers WHERE task_id = ${params.task_id} FOR NO KEY UPDATE`
            const update = Effect.forEach(changes, (payload) => admin.reviewers.update({ params, payload }), {
              concurrency: "unbounded"
            })
            const fiber = yield* Effect.forkDetach(update)
            yield* waitForBlockedStatements(changes.length)
            return fiber
          })
        )
        yield* Fiber.join(updating)
        const { reviewer } = yield* admin.reviewers.get({ params })
        assert.deepInclude(reviewer, { tools: ["refunds.*"], daily_calls: 7, daily_tokens: 70 })
      })
    )

    it.effect("a step whose replica was killed while it asked is asked about again, and answered once", () =>
      Effect.gen(function* () {
        const { model, params, submit } = yield* reviewerTeam("killed", (step, count) =>
          count === 1 ? "never" : byAmount(step)
        )
        const id = yield* submit({ amount: 1 })
        yield* Effect.promise(() => model.arrived(1))
        const sql = yield* SqlClient.SqlClient
        const answers = sql<{ readonly approval_id: string }>`
          SELECT approval_id FROM reviewer_answers WHERE task_id = ${params.task_id}
        `
        assert.deepStrictEqual(yield* answers, [])
        // As a killed replica leaves it: the lease is not renewed and expires.
        yield* sql`UPDATE reviewers SET lease_until = now() - interval '1 second' WHERE task_id = ${params.task_id}`
        yield* awaitAnswers(params.task_id, 1)
        assert.lengthOf(model.seen, 2)
        assert.deepStrictEqual(yield* answers, [{ approval_id: id }])
        // The replica that was taken for killed notices that it has lost the lease.
        const [row] = yield* eventually(
          sql<{ readonly lease_epoch: number; readonly used_calls: number }>`
            SELECT lease_epoch, used_calls FROM reviewers WHERE task_id = ${params.task_id}
          `,
          ([found]) => (found?.used_calls ?? 0) >= 2
        )
        assert.isAtLeast(row?.lease_epoch ?? 0, 2)
      })
    )
  }
)
