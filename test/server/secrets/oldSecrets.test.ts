import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { Countersign } from "../../../src/testing/index.ts"
import { cli } from "../../support/cli.ts"
import { cloneDatabase } from "../../support/postgres.ts"
import { send } from "../../support/service.ts"

const newKey = () => randomBytes(32).toString("base64")

describe("the metric of secrets under older master keys", () => {
  it.live("counts the secrets that a rotation has yet to reseal", () =>
    Effect.gen(function* () {
      const databaseUrl = yield* cloneDatabase
      const first = newKey()
      const second = newKey()
      const token = "a-token-of-sixteen-and-more"
      const withRing = <A, E>(ring: string, use: Effect.Effect<A, E, Countersign>) =>
        use.pipe(
          Effect.provide(
            Countersign.layer({
              databaseUrl,
              environment: { COUNTERSIGN_MASTER_KEY: ring, COUNTERSIGN_METRICS_TOKEN: token }
            }),
            { local: true }
          ),
          Effect.scoped
        )
      const old = Effect.map(send("/metrics", { key: token }), ({ body }) =>
        Number(/^countersign_secrets_under_old_keys (\d+)$/mu.exec(String(body["text"]))?.[1])
      )
      yield* withRing(
        first,
        Effect.gen(function* () {
          const admin = yield* (yield* Countersign).client()
          yield* admin.notificationEndpoints.create({ payload: { url: "http://127.0.0.1:9/" } })
          assert.strictEqual(yield* old, 0)
        })
      )
      // The URL and the signing secret of the endpoint.
      assert.strictEqual(yield* withRing(`${second},${first}`, old), 2)
      const { err, ok } = yield* cli(["keys", "rotate-master"], {
        DATABASE_URL: Redacted.value(databaseUrl),
        COUNTERSIGN_MASTER_KEY: `${second},${first}`
      })
      assert.isTrue(ok, err)
      assert.strictEqual(yield* withRing(`${second},${first}`, old), 0)
    }).pipe(Effect.scoped)
  )
})
