import { assert, layer } from "@effect/vitest"
import { Array as Arr, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import type { NewApprovalRule } from "../../../../src/api/ApprovalRules.ts"
import { StepId } from "../../../../src/domain/Ids.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import { layerTwoReplicas, SecondReplica } from "../../../support/twoReplicas.ts"

/** Steps that are submitted at once. */
const STEPS = 64

/** Races of each test: in the first one the counters do not exist, and later ones begin with what the former used. */
const ROUNDS = 3

layer(layerTwoReplicas, { excludeTestServices: true, timeout: "60 seconds" })(
  "BudgetCounters › two replicas",
  (it) => {
    /** An agent with a client for each replica, and sessions whose steps are allowed within the budgets, and rejected beyond them. */
    const team = Effect.fnUntraced(function* (
      organization: string,
      budgets: NonNullable<NewApprovalRule["budgets"]>
    ) {
      const second = yield* SecondReplica
      const replicas = [yield* Countersign, yield* Effect.provideContext(Countersign, second)] as const
      const admin = yield* replicas[0].client({ preset: "admin" }, organization)
      yield* admin.approvalRules.replace({
        payload: {
          rules: [
            { tool: "pay", effect: "allow", budgets },
            { tool: "pay", effect: "reject" }
          ]
        }
      })
      const key = yield* replicas[0].key({ preset: "runtime" }, organization)
      const agents = [yield* replicas[0].clientWith(key), yield* replicas[1].clientWith(key)] as const
      const sessions = yield* Effect.all(Arr.makeBy(8, () => agents[0].sessions.create({})))
      /** Submits a step by one of the replicas, in one of the sessions. */
      const submit = (index: number, step_id: string, amount: number) =>
        agents[index % 2 === 0 ? 0 : 1].sessions.step({
          params: { id: sessions[(index >> 1) % sessions.length]?.session_id ?? assert.fail("a session") },
          payload: {
            step_id: StepId.make(step_id),
            tool: "pay",
            action_class: "write",
            arguments: { amount }
          }
        })
      return { submit }
    })

    const race = <E, R>(requests: ReadonlyArray<Effect.Effect<{ readonly decision: string }, E, R>>) =>
      Effect.map(
        Effect.all(requests, { concurrency: "unbounded" }),
        (answers) => answers.filter(({ decision }) => decision === "allow").length
      )

    it.effect("of 64 steps at once, as many are allowed as the count of the budget, and none later", () =>
      Effect.gen(function* () {
        const { submit } = yield* team("count", [{ per: "organization", window_seconds: 3600, count: 20 }])
        const allowed: Array<number> = []
        for (const round of Arr.range(1, ROUNDS))
          allowed.push(yield* race(Arr.makeBy(STEPS, (index) => submit(index, `${round} ${index}`, 1))))
        assert.deepStrictEqual(allowed, [20, 0, 0])
      })
    )

    it.effect("replicas that take turns with one counter count the steps of each other", () =>
      Effect.gen(function* () {
        const { submit } = yield* team("turns", [{ per: "organization", window_seconds: 3600, count: 5 }])
        const decisions = yield* Effect.forEach(Arr.range(0, 7), (index) =>
          Effect.map(submit(index, `step ${index}`, 1), ({ decision }) => decision)
        )
        assert.deepStrictEqual(decisions, [
          ...Arr.makeBy(5, () => "allow" as const),
          ...Arr.makeBy(3, () => "reject" as const)
        ])
      })
    )

    it.effect("a step whose new counter another transaction creates first is counted after it", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { submit } = yield* team("created twice", [
          { per: "organization", window_seconds: 3600, count: 2 }
        ])
        yield* submit(0, "first replica", 1)
        // As retention does. The second replica has not cached the counter.
        const [counter] = yield* sql<{ readonly org_id: string; readonly counter: string }>`
          DELETE FROM budget_counters
          WHERE org_id = (SELECT org_id FROM organizations WHERE name = 'created twice')
          RETURNING org_id, counter
        `
        if (counter === undefined) return assert.fail("the step was counted")
        const created = yield* Deferred.make<void>()
        const creation = yield* Effect.forkChild(
          sql.withTransaction(
            Effect.gen(function* () {
              yield* sql`
                INSERT INTO budget_counters (org_id, counter, version, entries, expires_at)
                VALUES (
                  ${counter.org_id}, ${counter.counter}, 1,
                  json_build_array(json_build_array((extract(epoch FROM now()) * 1000)::bigint, 1)),
                  now() + interval '1 hour'
                )
              `
              yield* Deferred.succeed(created, undefined)
              yield* waitForBlockedStatements(1)
            })
          )
        )
        yield* Deferred.await(created)
        assert.strictEqual((yield* submit(1, "second replica", 1)).decision, "allow")
        yield* Fiber.join(creation)
        assert.strictEqual((yield* submit(1, "beyond the budget", 1)).decision, "reject")
      })
    )

    it.effect("three budgets at once each keep their bound, by decimal sums", () =>
      Effect.gen(function* () {
        const { submit } = yield* team("sum", [
          { per: "organization", window_seconds: 3600, sum: { pointer: "/amount", at_most: 2.3 } },
          { per: "key", window_seconds: 3600, count: 60 },
          { per: "session", window_seconds: 3600, count: 4 }
        ])
        const allowed: Array<number> = []
        for (const round of Arr.range(1, ROUNDS))
          allowed.push(yield* race(Arr.makeBy(STEPS, (index) => submit(index, `${round} ${index}`, 0.1))))
        assert.strictEqual(
          allowed.reduce((total, count) => total + count, 0),
          23
        )
      })
    )

    it.effect("a step that is submitted 64 times at once is counted once", () =>
      Effect.gen(function* () {
        const { submit } = yield* team("repeated", [{ per: "organization", window_seconds: 3600, count: 2 }])
        const same = Arr.makeBy(STEPS, (index) => submit(index & 1, "same", 1))
        assert.strictEqual(yield* race(same), STEPS)
        assert.strictEqual((yield* submit(0, "second", 1)).decision, "allow")
        assert.strictEqual((yield* submit(1, "third", 1)).decision, "reject")
      })
    )
  }
)
