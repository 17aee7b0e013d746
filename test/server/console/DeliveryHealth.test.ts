import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../src/api/Authorization.ts"
import { HEALTH_HOURS } from "../../../src/api/Console.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { DeliveryHealth } from "../../../src/server/console/DeliveryHealth.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { service } from "../../support/service.ts"

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("DeliveryHealth", (it) => {
  it.effect("attempts are aggregated by hour, including empty hours, for the own organization only", () =>
    Effect.gen(function* () {
      const { key } = yield* Countersign
      const keys = yield* ApiKeys
      const health = yield* DeliveryHealth
      const sql = yield* SqlClient.SqlClient
      const mine = yield* keys.verify(yield* key({}, "health"))
      const other = yield* keys.verify(yield* key({}, "elsewhere"))
      // Nine fast attempts, a slow one and a failed one in this hour, and one from four days ago.
      yield* sql`
        INSERT INTO delivery_attempts (org_id, destination_id, delivery_id, attempt, started_at, duration_ms, status, error)
        SELECT ${mine.org_id}, 'nep_1', 'ndl_' || n, 1,
          CASE WHEN n = 12 THEN now() - interval '4 days' ELSE date_trunc('hour', now()) END,
          CASE WHEN n = 10 THEN 900 ELSE 20 END, 200, CASE WHEN n = 11 THEN 'answered 500' END
        FROM generate_series(1, 12) AS n
      `
      const of = (principal: typeof mine) =>
        Effect.provideService(health.hourly("nep_1"), Authorized("org_config.read"), principal)
      const buckets = yield* of(mine)
      assert.strictEqual(buckets.length, HEALTH_HOURS)
      // In the hour before, if the next one has begun since.
      const [filled, ...others] = buckets.filter((bucket) => bucket.delivered + bucket.failed > 0)
      assert.lengthOf(others, 0)
      assert.isAtLeast(buckets.indexOf(filled!), HEALTH_HOURS - 2)
      const { delivered, failed, median_ms, slow_ms } = filled!
      assert.deepStrictEqual([delivered, failed, median_ms, slow_ms], [10, 1, 20, 900])
      const foreign = yield* of(other)
      assert.isTrue(foreign.every((bucket) => bucket.delivered === 0 && bucket.median_ms === null))
    }).pipe(Effect.orDie)
  )
})
