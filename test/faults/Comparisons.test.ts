import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { Client } from "../../src/client/Client.ts"
import * as ApiKeyFormat from "../../src/domain/identity/ApiKeyFormat.ts"
import { pairedDifference } from "../../src/domain/tasks/wilsonInterval.ts"
import { type ModelQuestion, startModelServer } from "../support/model.ts"
import { TestDatabase } from "../support/postgres.ts"
import { spawnCli } from "../support/process.ts"
import { sortingExamples, sortingTask } from "../support/tasks.ts"

const EXAMPLES = 100

/** Examples per batch. After a crash the answered examples of an unfinished batch are answered again. */
const BATCH_SIZE = 32

const numberOf = ({ text }: ModelQuestion): number => Number(text.slice(1))

/** The candidate is wrong about every tenth example, the live release about every other. */
const isRight = (asked: ModelQuestion): boolean =>
  numberOf(asked) % (asked.instructions === "Candidate." ? 10 : 2) !== 0

/** The tokens of an example: different for each, so that an example counted twice, or not at all, shows in the sum. */
const tokensFor = (number: number): number => number * number + 1

const numbers = Array.from({ length: EXAMPLES }, (_, number) => number)
const tokens = numbers.reduce((sum, number) => sum + tokensFor(number), 0)

layer(TestDatabase.layerSql, { excludeTestServices: true })("Comparisons", (it) => {
  it.effect(
    "a comparison survives a killed and a stopped service, and counts each example once",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { url } = yield* TestDatabase
        const { key } = yield* ApiKeyFormat.generateApiKey
        const environment = {
          PORT: "0",
          DATABASE_URL: Redacted.value(url),
          COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64"),
          COUNTERSIGN_ADMIN_KEY: Redacted.value(key),
          COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8"
        }
        const start = Effect.gen(function* () {
          const service = yield* spawnCli(["serve"], environment)
          const out = yield* service.waitForStdout(/is ready[^]+address +http:\S+\n/)
          const address = /address +(http:\S+)/.exec(out)?.[1] ?? assert.fail(out)
          const client = yield* Effect.provide(Client, Client.layer({ url: address, key, retries: 0 }))
          return { service, client }
        })
        const model = yield* startModelServer((asked) => ({
          answer: { category: isRight(asked) ? "other" : "billing" },
          input_tokens: tokensFor(numberOf(asked)),
          output_tokens: 1
        }))

        const first = yield* start
        const task = yield* first.client.tasks.create({
          payload: {
            ...sortingTask,
            instructions: "Live.",
            provider: {
              kind: "openai",
              base_url: model.url,
              model: "small",
              price: { input_per_million: 1_000_000, output_per_million: 0 }
            }
          }
        })
        const params = { id: task.id }
        const [one, ...others] = sortingExamples(...numbers.map((number) => [`m${number}`, "other"] as const))
        yield* first.client.datasets.create({ params, payload: { examples: [one!, ...others] } })

        // Enough for one batch, which is recorded, and for a part of the next.
        model.silentAfter(2 * BATCH_SIZE + 20)
        const { comparison } = yield* first.client.comparisons.create({
          params,
          payload: { candidate: { instructions: "Candidate." } }
        })
        const request = { params: { id: comparison.id }, query: { limit: 100 } }
        yield* model.silent
        yield* first.service.kill("SIGKILL")
        yield* first.service.ended
        const [lease] = yield* sql`
          SELECT lease_until > now() AS is_valid FROM comparisons WHERE comparison_id = ${comparison.id}
        `
        assert.deepStrictEqual(lease, { is_valid: true })
        // Expires the lease of the killed service, which would take fifteen seconds.
        yield* sql`UPDATE comparisons SET lease_until = now() WHERE comparison_id = ${comparison.id}`

        model.silentAfter(2 * BATCH_SIZE + 20)
        const second = yield* start
        const recorded = yield* second.client.comparisons.get(request)
        assert.deepInclude(recorded.comparison, { status: "running", compared: BATCH_SIZE })
        assert.lengthOf(recorded.results, BATCH_SIZE)
        yield* model.silent
        yield* second.service.kill("SIGTERM")
        assert.strictEqual((yield* second.service.ended).code, 0)
        // A graceful shutdown releases the lease, so that the next owner does not wait for it to expire.
        const [released] = yield* sql`
          SELECT lease_until <= now() AS is_expired FROM comparisons WHERE comparison_id = ${comparison.id}
        `
        assert.deepStrictEqual(released, { is_expired: true })

        model.silentAfter(Number.POSITIVE_INFINITY)
        const third = yield* start
        const { comparison: done, results } = yield* Effect.repeat(
          Effect.delay(third.client.comparisons.get(request), "50 millis"),
          { until: ({ comparison: { status } }) => status === "completed" }
        )
        assert.strictEqual(done.compared, EXAMPLES)
        assert.lengthOf(new Set(results.map(({ example_id }) => example_id)), EXAMPLES)
        assert.isNotNull(done.finished_at)
        const { candidate, difference, fields, live } = done.summary
        assert.deepInclude(candidate, { agreed: 90, agreement: 0.9, failed: 0, output_tokens: EXAMPLES })
        assert.deepInclude(live, { agreed: 50, agreement: 0.5, failed: 0, output_tokens: EXAMPLES })
        for (const side of [candidate, live]) {
          assert.strictEqual(side.input_tokens, tokens)
          assert.strictEqual(side.cost, tokens)
        }
        assert.deepStrictEqual(fields, [{ field: "category", compared: EXAMPLES, candidate: 90, live: 50 }])
        assert.deepStrictEqual(difference, pairedDifference({ both: 50, first: 40, second: 0, neither: 10 }))

        // Recorded examples are not answered again; others at most once more for each of the two ends.
        const times = new Map<string, number>()
        for (const { instructions, text } of model.asked) {
          const name = `${instructions} ${JSON.stringify({ text })}`
          times.set(name, (times.get(name) ?? 0) + 1)
        }
        assert.lengthOf([...times.keys()], 2 * EXAMPLES)
        for (const { input } of recorded.results) {
          for (const side of ["Candidate.", "Live."]) {
            assert.strictEqual(times.get(`${side} ${JSON.stringify(input)}`), 1)
          }
        }
        assert.isAtMost(model.asked.length, 2 * (EXAMPLES + 2 * BATCH_SIZE))
      }).pipe(Effect.scoped),
    300_000
  )
})
