import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { SessionId } from "../../../src/domain/Ids.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { send, service } from "../../support/service.ts"
import { sortingExamples, sortingTask, createSortingTask, createTeamClients } from "../../support/tasks.ts"

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Runs",
  (it) => {
    it.effect("a run is answered by the live release and logged before the response", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const countersign = yield* Countersign
        const { admin } = yield* createTeamClients("answers")
        const { dataset, params, task } = yield* createSortingTask(
          admin,
          ["where is my parcel", "shipping"],
          ["my invoice is wrong", "billing"]
        )
        const key = yield* countersign.key({ preset: "runtime", name: "agent" }, "answers")
        const answered = yield* send(`/v1/tasks/${task.id}/run`, {
          key,
          method: "POST",
          headers: { traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" },
          body: JSON.stringify({ input: { text: "Where is the parcel?" }, metadata: { ticket: 4711 } })
        })
        assert.strictEqual(answered.status, 200)
        assert.deepInclude(answered.body, {
          task_id: task.id,
          release_id: task.live_release_id,
          dataset_id: dataset.id,
          answer: { category: "shipping" },
          usage: { input_tokens: 0, output_tokens: 0 }
        })
        assert.match(String(answered.body["trace_id"]), /^[0-9a-f]{32}$/)
        assert.strictEqual(answered.headers.get("x-svc-trace-id"), answered.body["trace_id"])
        const rows = yield* sql`
        SELECT status, source, input, answer, metadata, provider, caller_traceparent, created_by_name
        FROM runs
        WHERE trace_id = ${String(answered.body["trace_id"])}
      `
        assert.deepStrictEqual(rows, [
          {
            status: "succeeded",
            source: "provider",
            input: { text: "Where is the parcel?" },
            answer: { category: "shipping" },
            metadata: { ticket: 4711 },
            provider: "examples",
            caller_traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            created_by_name: "agent"
          }
        ])
        const again = yield* admin.tasks.run({ params, payload: { input: { text: "Where is the parcel?" } } })
        assert.deepStrictEqual(again.answer, { category: "shipping" })
        assert.notStrictEqual(again.trace_id, answered.body["trace_id"])
      })
    )

    it.effect("a run with an answer in the request is logged with that answer", () =>
      Effect.gen(function* () {
        const { admin, runtime } = yield* createTeamClients("logged")
        const task = yield* admin.tasks.create({ payload: sortingTask })
        const params = { id: task.id }
        const run = yield* runtime.tasks.run({
          params,
          payload: { input: { text: "a" }, answer: { category: "other", confidence: 0.5 } }
        })
        assert.deepStrictEqual(run.answer, { category: "other", confidence: 0.5 })
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql`SELECT source, status FROM runs WHERE trace_id = ${run.trace_id}`
        assert.deepStrictEqual(rows, [{ source: "logged", status: "succeeded" }])
      })
    )

    it.effect(
      "an input or a supplied answer that does not match its schema is refused, and each field is named",
      () =>
        Effect.gen(function* () {
          const countersign = yield* Countersign
          const { admin } = yield* createTeamClients("misfits")
          const { task } = yield* createSortingTask(admin, ["a", "other"])
          const key = yield* countersign.key({ preset: "runtime" }, "misfits")
          const run = (body: unknown) =>
            send(`/v1/tasks/${task.id}/run`, { key, method: "POST", body: JSON.stringify(body) })
          const input = yield* run({ input: { txt: "a" } })
          assert.strictEqual(input.status, 422)
          assert.strictEqual(input.body["code"], "INVALID_INPUT")
          assert.sameMembers(
            input.errors.map(({ pointer }) => pointer),
            ["#/input/text", "#/input/txt"]
          )
          const answer = yield* run({ input: { text: "a" }, answer: { category: "sales" } })
          assert.strictEqual(answer.body["code"], "INVALID_INPUT")
          assert.deepStrictEqual(
            answer.errors.map(({ pointer }) => pointer),
            ["#/answer/category"]
          )
          const none = yield* run({ input: "text" })
          assert.strictEqual(none.status, 400)
          // A member name that is an API key is redacted in the problem.
          const secret = Redacted.value(key)
          for (const [body, code, pointer] of [
            [`{"input":{"text":"a","${secret}":1}}`, "INVALID_INPUT", "#/input/%5BREDACTED%5D"],
            [`{"input":{"${secret}":1,"${secret}":2}}`, "INVALID_REQUEST", "#/input/%5BREDACTED%5D"]
          ] as const) {
            const refused = yield* send(`/v1/tasks/${task.id}/run`, { key, method: "POST", body })
            assert.strictEqual(refused.body["code"], code)
            assert.strictEqual(refused.errors[0]?.pointer, pointer)
            assert.notInclude(JSON.stringify(refused.body), secret)
          }
        })
    )

    it.effect(
      "a run of a task without examples is logged as failed, and the response is 409 with its trace id",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const countersign = yield* Countersign
          const { admin } = yield* createTeamClients("no dataset")
          const task = yield* admin.tasks.create({ payload: sortingTask })
          const key = yield* countersign.key({ preset: "runtime" }, "no dataset")
          const failed = yield* send(`/v1/tasks/${task.id}/run`, {
            key,
            method: "POST",
            body: JSON.stringify({ input: { text: "a" } })
          })
          assert.strictEqual(failed.status, 409)
          assert.strictEqual(failed.body["code"], "NO_EXAMPLE")
          const trace_id = failed.headers.get("x-svc-trace-id")
          assert.strictEqual(failed.body["trace_id"], trace_id)
          const rows = yield* sql`SELECT status, answer, failure FROM runs WHERE trace_id = ${trace_id}`
          assert.deepStrictEqual(rows, [
            {
              status: "failed",
              answer: null,
              failure: "The release has no dataset. Create the task's first dataset version."
            }
          ])
        })
    )

    it.effect("a run whose dataset version is deleted before it is read fails with the reason", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin } = yield* createTeamClients("version deleted meanwhile")
        const { dataset, params } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
        const run = admin.tasks.run({ params, payload: { input: { text: "hello" } } })
        const model = yield* startScriptedServer([])
        // What a run sees that read its release before the version was deleted.
        yield* sql`DELETE FROM datasets WHERE dataset_id = ${dataset.id}`
        const reason = {
          _tag: "NO_EXAMPLE",
          detail: "The release's dataset version was deleted."
        } as const
        assert.deepInclude(yield* Effect.flip(run), reason)
        // A model gets its examples from the version.
        const provider = { kind: "openai", base_url: model.url, model: "small" } as const
        const task = yield* admin.tasks.create({ payload: { ...sortingTask, provider } })
        const own = { id: task.id }
        const [example] = sortingExamples(["where is my parcel", "shipping"])
        const version = yield* admin.datasets.create({ params: own, payload: { examples: [example!] } })
        yield* sql`DELETE FROM datasets WHERE dataset_id = ${version.id}`
        const asked = admin.tasks.run({ params: own, payload: { input: { text: "hello" } } })
        assert.deepInclude(yield* Effect.flip(asked), reason)
        assert.lengthOf(model.seen, 0)
      })
    )

    it.effect(
      "concurrent requests with one idempotency key make one run, and a different request is refused",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { admin, runtime } = yield* createTeamClients("once")
          const { params, task } = yield* createSortingTask(admin, ["a", "other"])
          const headers = { "idempotency-key": "order-4711" }
          const run = (text: string) => runtime.tasks.run({ params, headers, payload: { input: { text } } })
          const answers = yield* Effect.all([run("a"), run("a"), run("a"), run("a")], {
            concurrency: "unbounded"
          })
          assert.strictEqual(new Set(answers.map(({ trace_id }) => trace_id)).size, 1)
          assert.deepStrictEqual(yield* run("a"), answers[0])
          assert.strictEqual((yield* Effect.flip(run("b")))._tag, "IDEMPOTENCY_KEY_REUSED")
          const rows = yield* sql`SELECT 1 FROM runs WHERE task_id = ${task.id}`
          assert.lengthOf(rows, 1)
        })
    )

    it.effect("a failed run releases its idempotency key", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("released key")
        const task = yield* admin.tasks.create({ payload: sortingTask })
        const params = { id: task.id }
        const headers = { "idempotency-key": "order-4711" }
        const run = admin.tasks.run({ params, headers, payload: { input: { text: "a" } } })
        assert.strictEqual((yield* Effect.flip(run))._tag, "NO_EXAMPLE")
        const [example] = sortingExamples(["a", "billing"])
        yield* admin.datasets.create({ params, payload: { examples: [example!] } })
        assert.deepStrictEqual((yield* run).answer, { category: "billing" })
      })
    )

    it.effect(
      "a run whose caller disconnects is logged as failed with its usage, and releases its idempotency key",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const { admin } = yield* createTeamClients("gone")
          const completion = (content: string) => ({
            status: 200,
            body: { choices: [{ message: { content } }], usage: { prompt_tokens: 11, completion_tokens: 3 } }
          })
          // The caller disconnects while the model is asked to repair its first answer.
          const model = yield* startScriptedServer([
            completion("none"),
            "never",
            completion('{"category":"other"}')
          ])
          const provider = { kind: "openai", base_url: model.url, model: "small" } as const
          const task = yield* admin.tasks.create({ payload: { ...sortingTask, provider } })
          const disconnect = new AbortController()
          const run = {
            key: yield* (yield* Countersign).key({ preset: "runtime" }, "gone"),
            method: "POST",
            headers: { "idempotency-key": "order-4711" },
            body: JSON.stringify({ input: { text: "a" } })
          }
          const request = yield* Effect.forkChild(
            Effect.exit(send(`/v1/tasks/${task.id}/run`, { ...run, signal: disconnect.signal }))
          )
          yield* Effect.promise(() => model.arrived(2))
          disconnect.abort()
          yield* Fiber.join(request)
          const logged = yield* Effect.repeat(
            sql`
              SELECT status, answer, failure, input_tokens, output_tokens, provider_calls
              FROM runs
              WHERE task_id = ${task.id}
            `,
            { until: (rows) => rows.length > 0 }
          )
          assert.deepStrictEqual(logged, [
            {
              status: "failed",
              answer: null,
              failure: "The caller disconnected before the answer was ready.",
              input_tokens: 11,
              output_tokens: 3,
              provider_calls: 2
            }
          ])
          assert.strictEqual((yield* send(`/v1/tasks/${task.id}/run`, run)).status, 200)
        }).pipe(Effect.scoped)
    )

    it.effect("a run says whether its answer was read from damaged JSON", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("damaged")
        const reply = (content: string) => ({ status: 200, body: { choices: [{ message: { content } }] } })
        const model = yield* startScriptedServer([
          reply('{"category":"other",}'),
          reply('{"category":"other"}')
        ])
        const provider = { kind: "openai", base_url: model.url, model: "small" } as const
        const task = yield* admin.tasks.create({ payload: { ...sortingTask, provider } })
        for (const isRepaired of [true, false]) {
          const run = yield* admin.tasks.run({ params: { id: task.id }, payload: { input: { text: "a" } } })
          assert.deepStrictEqual(run.answer, { category: "other" })
          const logged = yield* admin.runs.get({ params: { id: run.trace_id } })
          assert.strictEqual(logged.answer_repaired, isRepaired)
          assert.strictEqual(logged.provider_calls, 1)
        }
      }).pipe(Effect.scoped)
    )

    it.effect("usage above the int4 range is capped, and the run is logged", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("tokens")
        const completion = (content: string) => ({
          status: 200,
          body: {
            choices: [{ message: { content } }],
            usage: { prompt_tokens: 2_147_483_647, completion_tokens: 2_147_483_647 }
          }
        })
        const model = yield* startScriptedServer([completion("none"), completion('{"category":"other"}')])
        const provider = { kind: "openai", base_url: model.url, model: "small" } as const
        const task = yield* admin.tasks.create({ payload: { ...sortingTask, provider } })
        const { usage } = yield* admin.tasks.run({
          params: { id: task.id },
          payload: { input: { text: "a" } }
        })
        assert.deepStrictEqual(usage, { input_tokens: 2_147_483_647, output_tokens: 2_147_483_647 })
      }).pipe(Effect.scoped)
    )

    it.effect("an input whose numbers are longer in the database than in the request can be read back", () =>
      Effect.gen(function* () {
        const { key: issue } = yield* Countersign
        const key = yield* issue({}, "long numbers")
        const { admin } = yield* createTeamClients("long numbers")
        const task = yield* admin.tasks.create({
          payload: { ...sortingTask, input_schema: { type: "object" } }
        })
        const numbers = Array.from({ length: 99_000 }, () => "1e20").join(",")
        const logged = yield* send(`/v1/tasks/${task.id}/run`, {
          key,
          method: "POST",
          body: `{"input":{"numbers":[${numbers}]},"answer":{"category":"other"}}`
        })
        const { id } = yield* admin.feedback.create({
          payload: { inference_log_id: String(logged.body["trace_id"]), score: 1 }
        })
        const { input } = yield* admin.feedback.get({ params: { id } })
        assert.strictEqual(JSON.stringify(input).length, '{"numbers":[]}'.length + 99_000 * 22 - 1)
      })
    )

    it.effect("an idempotency key that a crashed process left claimed is reclaimed after 150 seconds", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin } = yield* createTeamClients("abandoned key")
        const { params } = yield* createSortingTask(admin, ["a", "other"])
        const run = (key: string) =>
          admin.tasks.run({
            params,
            headers: { "idempotency-key": key },
            payload: { input: { text: "a" } }
          })
        for (const [key, age] of [
          ["in-progress", "140 seconds"],
          ["abandoned", "151 seconds"]
        ]) {
          yield* sql`
              INSERT INTO idempotency_keys (org_id, operation, key, fingerprint, created_at)
              SELECT org_id, 'tasks.run', ${key}, '', now() - ${age}::interval
              FROM organizations
              WHERE name = 'abandoned key'
            `
        }
        assert.strictEqual((yield* Effect.flip(run("in-progress")))._tag, "IDEMPOTENCY_KEY_REUSED")
        const { trace_id } = yield* run("abandoned")
        assert.strictEqual((yield* run("abandoned")).trace_id, trace_id)
      })
    )

    it.effect("a run with an unknown session is refused with 404", () =>
      Effect.gen(function* () {
        const { admin, runtime } = yield* createTeamClients("sessions")
        const { params } = yield* createSortingTask(admin, ["a", "other"])
        const session = yield* runtime.sessions.create()
        yield* runtime.tasks.run({
          params,
          payload: { input: { text: "a" }, session_id: session.session_id }
        })
        const refused = yield* Effect.flip(
          runtime.tasks.run({
            params,
            payload: { input: { text: "a" }, session_id: SessionId.make(`ses_${"0".repeat(32)}`) }
          })
        )
        assert.strictEqual(refused._tag, "NOT_FOUND")
      })
    )
  }
)
