import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { randomBytes } from "node:crypto"
import type { NewRun } from "../../../../src/api/Tasks.ts"
import { generateTraceId, KeyId, OrgId, ReleaseId, TaskId } from "../../../../src/domain/Ids.ts"
import { SecretBox } from "../../../../src/server/secrets/SecretBox.ts"
import { makeRunIdempotency } from "../../../../src/server/tasks/Runs/runIdempotency.ts"
import { processTime } from "../../../support/delivery.ts"
import { waitForBlockedStatements } from "../../../support/eventually.ts"
import { TestDatabase } from "../../../support/postgres.ts"

const secretBox = Layer.orDie(
  SecretBox.layer({ masterKeys: [Redacted.make(randomBytes(32).toString("base64"))] })
)

layer(Layer.merge(TestDatabase.layerSql, secretBox), { excludeTestServices: true })(
  "makeRunIdempotency",
  (it) => {
    it.effect("a run that fails after its key was taken over does not release the key", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const runOnce = makeRunIdempotency(sql, yield* SecretBox, processTime)
        const org_id = yield* OrgId.generate
        yield* sql`INSERT INTO organizations (org_id, name, created_at) VALUES (${org_id}, ${org_id}, now())`
        const actor = { id: yield* KeyId.generate, name: "key" }
        const run = {
          principal: { org_id, actor, scopes: new Set<never>(), groups: [], keyMakers: [], makers: [] },
          key: "order-4711",
          task_id: yield* TaskId.generate,
          request: { input: { text: "a" } }
        }
        const claims = sql`SELECT 1 FROM idempotency_keys WHERE org_id = ${org_id} AND key = ${run.key}`
        const failing = (meanwhile: Effect.Effect<unknown, unknown>) =>
          Effect.exit(runOnce(run, () => Effect.andThen(meanwhile, Effect.fail("no answer"))))
        yield* failing(Effect.void)
        assert.lengthOf(yield* claims, 0)
        // Another process takes the key over, because the run takes longer than any run may.
        yield* failing(sql`UPDATE idempotency_keys SET created_at = created_at + interval '151 seconds'`)
        assert.lengthOf(yield* claims, 1)
      })
    )

    it.effect("a run whose caller disconnects while its key is claimed does not keep the key", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const runOnce = makeRunIdempotency(sql, yield* SecretBox, processTime)
        const org_id = yield* OrgId.generate
        yield* sql`INSERT INTO organizations (org_id, name, created_at) VALUES (${org_id}, ${org_id}, now())`
        const actor = { id: yield* KeyId.generate, name: "key" }
        const run = {
          principal: { org_id, actor, scopes: new Set<never>(), groups: [], keyMakers: [], makers: [] },
          key: "order-4714",
          task_id: yield* TaskId.generate,
          request: { input: { text: "a" } }
        }
        const locked = yield* Deferred.make<void>()
        const running = yield* Deferred.await(locked).pipe(
          Effect.andThen(runOnce(run, () => Effect.die("The run begins"))),
          Effect.forkChild
        )
        const lock = sql`LOCK TABLE idempotency_keys IN SHARE MODE`
        yield* sql.withTransaction(
          Effect.gen(function* () {
            // Claims of keys wait.
            yield* lock
            yield* Deferred.succeed(locked, undefined)
            yield* waitForBlockedStatements(1)
            running.interruptUnsafe()
          })
        )
        yield* Fiber.await(running)
        // Waits for the statement, if it goes on without the run.
        yield* sql.withTransaction(lock)
        assert.isEmpty(yield* sql`SELECT 1 FROM idempotency_keys WHERE org_id = ${org_id}`)
      })
    )

    it.effect("a key belongs to one request of one API key", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const runOnce = makeRunIdempotency(sql, yield* SecretBox, processTime)
        const org_id = yield* OrgId.generate
        yield* sql`INSERT INTO organizations (org_id, name, created_at) VALUES (${org_id}, ${org_id}, now())`
        const ada = { id: yield* KeyId.generate, name: "Ada" }
        const grace = { id: yield* KeyId.generate, name: "Grace" }
        const task_id = yield* TaskId.generate
        const first = { input: { text: "a" }, canary_key: "user-1" }
        const response = {
          trace_id: yield* generateTraceId,
          task_id,
          release_id: yield* ReleaseId.generate,
          dataset_id: null,
          answer: { total: 1 },
          examples: [],
          usage: { input_tokens: 0, output_tokens: 0 },
          created_at: yield* processTime.now
        }
        const send = (actor: typeof ada, request: NewRun, other?: TaskId) =>
          runOnce(
            {
              principal: { org_id, actor, scopes: new Set<never>(), groups: [], keyMakers: [], makers: [] },
              key: "order-4713",
              task_id: other ?? task_id,
              request
            },
            Effect.fnUntraced(function* (saveResponse) {
              yield* sql`${yield* saveResponse(response)}`
              return response
            }, Effect.orDie)
          )
        yield* send(ada, first)
        assert.deepStrictEqual(yield* send(ada, first), response)
        const refused = [
          yield* Effect.flip(send(grace, first)),
          yield* Effect.flip(send(ada, { ...first, input: { text: "b" } })),
          yield* Effect.flip(send(ada, { ...first, canary_key: "user-2" })),
          yield* Effect.flip(send(ada, { input: first.input })),
          yield* Effect.flip(send(ada, first, yield* TaskId.generate))
        ]
        assert.deepStrictEqual(
          refused.map(({ _tag }) => _tag),
          refused.map(() => "IDEMPOTENCY_KEY_REUSED")
        )
      })
    )

    it.effect("a run that ends after its key was taken over does not store its response under the key", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const runOnce = makeRunIdempotency(sql, yield* SecretBox, processTime)
        const org_id = yield* OrgId.generate
        yield* sql`INSERT INTO organizations (org_id, name, created_at) VALUES (${org_id}, ${org_id}, now())`
        const task_id = yield* TaskId.generate
        const run = {
          principal: {
            org_id,
            actor: { id: yield* KeyId.generate, name: "key" },
            scopes: new Set<never>(),
            groups: [],
            keyMakers: [],
            makers: []
          },
          key: "order-4712",
          task_id,
          request: { input: { text: "a" } }
        }
        const response = {
          trace_id: yield* generateTraceId,
          task_id,
          release_id: yield* ReleaseId.generate,
          dataset_id: null,
          answer: { total: 1 },
          examples: [],
          usage: { input_tokens: 0, output_tokens: 0 },
          created_at: yield* processTime.now
        }
        const ending = (meanwhile: Effect.Effect<unknown, SqlError.SqlError>) =>
          runOnce(run, (saveResponse) =>
            Effect.gen(function* () {
              yield* meanwhile
              yield* sql`${yield* saveResponse(response)}`
              return response
            })
          )
        yield* ending(sql`UPDATE idempotency_keys SET created_at = created_at + interval '151 seconds'`)
        const claims = sql`SELECT answer FROM idempotency_keys WHERE org_id = ${org_id} AND key = ${run.key}`
        assert.deepStrictEqual(yield* claims, [{ answer: null }])
      })
    )
  }
)
