import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { ComparisonRuns } from "../../../../src/server/tasks/ComparisonRuns.ts"
import { Providers } from "../../../../src/server/tasks/Providers.ts"
import { service } from "../../../support/service.ts"
import { createSortingTask, createTeamClients } from "../../../support/tasks.ts"

let calls = 0

let defect: unknown = new Error("broken")

/** Model providers with a defect. */
const broken = Layer.succeed(
  Providers,
  Providers.of({
    answer: () =>
      Effect.suspend(() => {
        calls++
        return Effect.die(defect)
      })
  })
)

/** Makes the fourth attempt of a comparison fail. Returns the attempts that count, and the seconds until the next one. */
const failFourthAttempt = Effect.fnUntraced(function* (organization: string) {
  const { admin } = yield* createTeamClients(organization)
  const { params } = yield* createSortingTask(admin, ["a", "other"])
  const { comparison } = yield* admin.comparisons.create({ params, payload: {} })
  const sql = yield* SqlClient.SqlClient
  const runs = yield* ComparisonRuns
  const read = Effect.map(
    sql<{ readonly attempts: number; readonly seconds: number }>`
      SELECT attempts, EXTRACT(epoch FROM lease_until - now())::float8 AS seconds
      FROM comparisons
      WHERE comparison_id = ${comparison.id}
    `,
    ([row]) => row
  )
  const attempt = Effect.gen(function* () {
    // A new epoch fences a worker whose attempt fails only now.
    yield* sql`
      UPDATE comparisons
      SET attempts = 3, lease_until = NULL, lease_epoch = lease_epoch + 1
      WHERE comparison_id = ${comparison.id}
    `
    yield* Effect.exit(runs.runOnce)
    return yield* read
  })
  // Longer than a lease, which a worker has that claims the comparison before the test does.
  return yield* Effect.repeat(attempt, { until: (row) => (row?.seconds ?? 0) > 20, times: 100 })
})

layer(service({ replace: broken }), { excludeTestServices: true })("the attempts of a comparison", (it) => {
  it.effect("a comparison whose attempts all fail ends as failed, and its candidate cannot be released", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("failing")
      const { params } = yield* createSortingTask(admin, ["a", "other"])
      const { comparison } = yield* admin.comparisons.create({ params, payload: {} })
      const sql = yield* SqlClient.SqlClient
      const runs = yield* ComparisonRuns
      const get = Effect.map(
        admin.comparisons.get({ params: { id: comparison.id } }),
        (detail) => detail.comparison
      )
      // Ends the pause before the next attempt, which this test or a worker makes.
      const attempt = Effect.gen(function* () {
        yield* sql`UPDATE comparisons SET lease_until = NULL WHERE comparison_id = ${comparison.id}`
        yield* Effect.exit(runs.runOnce)
        return yield* get
      })
      const failed = yield* Effect.repeat(attempt, { until: ({ status }) => status !== "running", times: 50 })
      assert.strictEqual(failed.status, "failed")
      assert.match(failed.failure ?? "", /^Internal errors interrupted/)
      assert.isNotNull(failed.finished_at)
      assert.strictEqual(failed.compared, 0)
      // Each attempt calls at most both sides for the one example.
      assert.isAtMost(calls, 16)
      const refused = yield* Effect.flip(
        admin.releases.create({ params, payload: { comparison_id: comparison.id } })
      )
      assert.strictEqual(refused._tag, "COMPARISON_UNFINISHED")
      assert.isTrue(Option.isNone(yield* runs.runOnce))
    })
  )

  it.effect("after a failed attempt the next one waits, longer each time", () =>
    Effect.gen(function* () {
      const waiting = yield* failFourthAttempt("waiting")
      assert.strictEqual(waiting?.attempts, 4)
      assert.isAtMost(waiting?.seconds ?? 0, 40)
    })
  )

  it.effect("an attempt that a database outage ends does not count, and the next one waits as well", () =>
    Effect.gen(function* () {
      defect = new SqlError.SqlError({
        reason: new SqlError.ConnectionError({ cause: "away" })
      })
      const waiting = yield* failFourthAttempt("outage")
      assert.strictEqual(waiting?.attempts, 3)
      assert.isAtMost(waiting?.seconds ?? 0, 40)
    })
  )
})
