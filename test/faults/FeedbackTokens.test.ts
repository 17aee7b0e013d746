import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { Client } from "../../src/client/Client.ts"
import * as ApiKeyFormat from "../../src/domain/identity/ApiKeyFormat.ts"
import { TestDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"
import { createSortingTask } from "../support/tasks.ts"

/** Tokens that both processes use up at the same time. */
const TOKENS = 12

layer(TestDatabase.layerSql, { excludeTestServices: true })("FeedbackTokens › faults", (it) => {
  it.effect(
    "two processes that use the last use of a token at the same time store one feedback",
    () =>
      Effect.gen(function* () {
        const { url: databaseUrl } = yield* TestDatabase
        const { key } = yield* ApiKeyFormat.generateApiKey
        const environment = {
          PORT: "0",
          DATABASE_URL: Redacted.value(databaseUrl),
          COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
          COUNTERSIGN_ADMIN_KEY: Redacted.value(key),
          COUNTERSIGN_END_USER_FEEDBACK_PER_SECOND: "0"
        }
        const start = Effect.gen(function* () {
          const running = yield* spawnCli(["serve"], environment)
          const out = yield* running.waitForStdout(/is ready[^]*address +http:\S+\n/)
          return /address +(http:\S+)/.exec(out)?.[1] ?? assert.fail(out)
        })
        const urls = [yield* start, yield* start]
        const admin = yield* Effect.provide(Client, Client.layer({ url: urls[0] ?? "", key }))
        const { params } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
        const { trace_id } = yield* admin.tasks.run({
          params,
          payload: { input: { text: "where is my parcel" }, answer: { category: "other" } }
        })

        const post = (base: string, path: string, token: string, comment: string) =>
          Effect.promise(async () => {
            const response = await fetch(base + path, {
              method: "POST",
              headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
              body: JSON.stringify({ score: 1, comment })
            })
            await response.arrayBuffer()
            return response.status
          })
        for (let number = 0; number < TOKENS; number++) {
          const { token, url } = yield* admin.feedback.createToken({
            params: { id: trace_id },
            payload: { max_uses: 1 }
          })
          const { pathname } = new URL(url)
          const statuses = yield* Effect.forEach(
            [...urls, ...urls],
            (base, index) => post(base, pathname, token, `${number} from ${index}`),
            { concurrency: "unbounded" }
          )
          assert.deepStrictEqual(statuses.toSorted(), [204, 401, 401, 401])
        }
        const { feedback } = yield* admin.feedback.list({
          query: { inference_log_id: trace_id, has_comment: true }
        })
        assert.lengthOf(feedback, TOKENS)
      }),
    240_000
  )
})
