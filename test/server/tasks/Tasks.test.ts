import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Countersign } from "../../../src/testing/index.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { exponentialSchema } from "../../support/schemas.ts"
import { sortingExamples, sortingTask, createSortingTask, createTeamClients } from "../../support/tasks.ts"

const openai = (more: object = {}) => ({
  kind: "openai" as const,
  base_url: "http://127.0.0.1:8009/v1/",
  model: "small",
  ...more
})

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Tasks",
  (it) => {
    it.effect("a task is created with a first release that is live, and can be read and listed", () =>
      Effect.gen(function* () {
        const { admin, reviewer } = yield* createTeamClients("made")
        const { warnings, ...task } = yield* admin.tasks.create({ payload: sortingTask })
        assert.deepStrictEqual(warnings, [])
        assert.deepInclude(task, {
          name: "sort messages",
          provider: { kind: "examples", model: "nearest", min_score: 0 },
          dataset_id: null
        })
        assert.strictEqual(task.created_by.name, "Ada")
        assert.deepStrictEqual(yield* reviewer.tasks.get({ params: { id: task.id } }), task)
        const { tasks } = yield* reviewer.tasks.list()
        assert.deepStrictEqual(tasks, [task])
        const { releases } = yield* reviewer.releases.list({ params: { id: task.id } })
        assert.deepStrictEqual(
          releases.map(({ comparison_id, dataset_id, id }) => ({ comparison_id, dataset_id, id })),
          [{ id: task.live_release_id, comparison_id: null, dataset_id: null }]
        )
      })
    )

    it.effect("a page of tasks ends at 256 KiB of schemas and instructions", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("large tasks")
        const made: Array<string> = []
        for (let count = 0; count < 4; count++) {
          const task = yield* admin.tasks.create({
            payload: { ...sortingTask, instructions: "x".repeat(100_000) }
          })
          made.unshift(task.id)
        }
        const one = yield* admin.tasks.list()
        assert.lengthOf(one.tasks, 2)
        const two = yield* admin.tasks.list({
          query: { cursor: one.next_cursor ?? assert.fail("no cursor") }
        })
        assert.deepStrictEqual(
          [...one.tasks, ...two.tasks].map(({ id }) => String(id)),
          made
        )
        assert.isNull(two.next_cursor)
      })
    )

    it.effect("another organization gets 404 for a task and everything that belongs to it", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("ours")
        const { admin: otherOrg } = yield* createTeamClients("theirs")
        const { params, dataset } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
        const calls: ReadonlyArray<Effect.Effect<unknown, { readonly _tag: string }>> = [
          otherOrg.tasks.get({ params }),
          otherOrg.tasks.update({ params, payload: { name: "mine" } }),
          otherOrg.tasks.run({ params, payload: { input: { text: "x" } } }),
          otherOrg.datasets.list({ params }),
          otherOrg.datasets.get({ params: { id: dataset.id } }),
          otherOrg.datasets.listExamples({ params: { id: dataset.id } }),
          otherOrg.datasets.export({ params: { id: dataset.id } }),
          otherOrg.comparisons.list({ params }),
          otherOrg.comparisons.create({ params, payload: {} }),
          otherOrg.releases.list({ params })
        ]
        const refused = yield* Effect.forEach(calls, (call) =>
          Effect.map(Effect.flip(call), ({ _tag }) => _tag)
        )
        assert.deepStrictEqual(new Set(refused), new Set(["NOT_FOUND"]))
        assert.deepStrictEqual((yield* otherOrg.tasks.list()).tasks, [])
      })
    )

    it.effect(
      "keywords without effect are named when a task is created, and when its schemas are updated",
      () =>
        Effect.gen(function* () {
          const { admin } = yield* createTeamClients("warned")
          const mail = { type: "object", properties: { mail: { type: "string", format: "email" } } }
          const places = ({ warnings }: { readonly warnings: ReadonlyArray<{ readonly pointer: string }> }) =>
            warnings.map(({ pointer }) => pointer)
          const created = yield* admin.tasks.create({
            payload: { ...sortingTask, input_schema: mail, answer_schema: { ...mail, nullable: true } }
          })
          assert.deepStrictEqual(places(created), [
            "#/input_schema/properties/mail/format",
            "#/answer_schema/properties/mail/format",
            "#/answer_schema/nullable"
          ])
          const params = { id: created.id }
          const renamed = yield* admin.tasks.update({ params, payload: { name: "renamed" } })
          assert.deepStrictEqual(places(renamed), [])
          const updated = yield* admin.tasks.update({ params, payload: { answer_schema: mail } })
          assert.deepStrictEqual(places(updated), ["#/answer_schema/properties/mail/format"])
        })
    )

    it.effect("a schema whose top level refers to an object, as Pydantic writes it, is used for runs", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("referred")
        const answer_schema = {
          $defs: {
            Order: {
              type: "object",
              properties: { total: { type: "number", multipleOf: 0.01 } },
              required: ["total"]
            }
          },
          $ref: "#/$defs/Order"
        }
        const { id } = yield* admin.tasks.create({ payload: { ...sortingTask, answer_schema } })
        const params = { id: id }
        const input = { text: "a" }
        const { answer } = yield* admin.tasks.run({ params, payload: { input, answer: { total: 19.99 } } })
        assert.deepStrictEqual(answer, { total: 19.99 })
        const refused = yield* Effect.flip(
          admin.tasks.run({ params, payload: { input, answer: { total: 19.991 } } })
        )
        assert.strictEqual(refused._tag, "INVALID_INPUT")
      })
    )

    it.effect("a schema that is not valid JSON Schema is refused with the pointer of the fault", () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const key = yield* countersign.key({}, "shapes")
        const refused = yield* send("/v1/tasks", {
          key,
          method: "POST",
          body: JSON.stringify({
            ...sortingTask,
            answer_schema: { type: "object", properties: { category: { type: "word" } } }
          })
        })
        assert.strictEqual(refused.status, 422)
        assert.strictEqual(refused.body["code"], "INVALID_SCHEMA")
        assert.match(refused.errors[0]?.pointer ?? "", /^#\/answer_schema\/properties\/category/)
      })
    )

    it.effect("examples that take too much work to validate together are refused", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("costly schemas")
        const costly = yield* admin.tasks.create({
          payload: { ...sortingTask, input_schema: exponentialSchema(13) }
        })
        const example = { input: {}, answer: { category: "other" } }
        const params = { id: costly.id }
        const refused = yield* Effect.flip(
          admin.datasets.create({
            params,
            payload: { examples: [example, ...Array.from({ length: 2_000 }, () => example)] }
          })
        )
        assert.strictEqual(refused._tag, "INVALID_INPUT")
        yield* admin.datasets.create({ params, payload: { examples: [example] } })
      })
    )

    it.effect(
      "the working copy can always change, and the schemas only before the first run or dataset",
      () =>
        Effect.gen(function* () {
          const { admin, runtime } = yield* createTeamClients("changes")
          const task = yield* admin.tasks.create({ payload: sortingTask })
          const params = { id: task.id }
          const wider = { ...sortingTask.answer_schema, additionalProperties: true }
          const changed = yield* admin.tasks.update({
            params,
            payload: { name: "sort", instructions: "Sort it.", answer_schema: wider }
          })
          assert.deepInclude(changed, { name: "sort", instructions: "Sort it.", answer_schema: wider })
          yield* runtime.tasks.run({
            params,
            payload: { input: { text: "a" }, answer: { category: "other" } }
          })
          const refused = yield* Effect.flip(
            admin.tasks.update({ params, payload: { answer_schema: sortingTask.answer_schema } })
          )
          assert.strictEqual(refused._tag, "TASK_IN_USE")
          yield* admin.tasks.update({ params, payload: { answer_schema: wider, name: "same schema" } })
          const backwards = Object.fromEntries(Object.entries(wider).toReversed())
          const same = yield* admin.tasks.update({ params, payload: { answer_schema: backwards } })
          assert.strictEqual(JSON.stringify(same.answer_schema), JSON.stringify(wider))

          const withDataset = yield* createSortingTask(admin, ["a", "other"])
          const alsoRefused = yield* Effect.flip(
            admin.tasks.update({ params: withDataset.params, payload: { answer_schema: wider } })
          )
          assert.strictEqual(alsoRefused._tag, "TASK_IN_USE")
        })
    )

    it.effect("a provider's key is stored sealed and never returned", () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const key = yield* countersign.key({}, "sealed")
        const created = yield* send("/v1/tasks", {
          key,
          method: "POST",
          body: JSON.stringify({ ...sortingTask, provider: openai({ api_key: "sk-very-secret" }) })
        })
        assert.strictEqual(created.status, 201)
        assert.strictEqual(created.body["provider_key_set"], true)
        assert.deepInclude(created.body["provider"], { base_url: "http://127.0.0.1:8009/v1", model: "small" })
        const read = yield* send(`/v1/tasks/${String(created.body["id"])}`, { key })
        const releases = yield* send(`/v1/tasks/${String(created.body["id"])}/releases`, { key })
        assert.notInclude(JSON.stringify([created.body, read.body, releases.body]), "sk-very-secret")
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{ readonly dump: string }>`
          SELECT (SELECT json_agg(t)::text FROM tasks t) || (SELECT json_agg(r)::text FROM releases r)
            || (SELECT string_agg(encode(api_key, 'escape'), ' ') FROM provider_keys) AS dump
        `
        assert.notInclude(row?.dump, "sk-very-secret")
      })
    )

    it.effect("a provider's headers are stored sealed, kept, replaced and removed, and never returned", () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const key = yield* countersign.key({}, "sealed headers")
        const change = (id: string, provider: object) =>
          send(`/v1/tasks/${id}`, { key, method: "PATCH", body: JSON.stringify({ provider }) })
        const created = yield* send("/v1/tasks", {
          key,
          method: "POST",
          body: JSON.stringify({
            ...sortingTask,
            provider: openai({ headers: { "X-Gateway": "very-secret" } })
          })
        })
        assert.strictEqual(created.status, 201)
        assert.deepInclude(created.body, { provider_key_set: false, provider_headers_set: true })
        const id = String(created.body["id"])
        const kept = yield* change(id, openai({ model: "large", api_key: "sk-very-secret" }))
        assert.deepInclude(kept.body, { provider_key_set: true, provider_headers_set: true })
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{ readonly dump: string }>`
          SELECT json_agg(t)::text || (
            SELECT string_agg(encode(headers, 'escape'), ' ') FROM provider_keys WHERE provider_keys.task_id = ${id}
          ) AS dump
          FROM tasks t
          WHERE t.task_id = ${id}
        `
        assert.notInclude(`${row?.dump}${JSON.stringify([created.body, kept.body])}`, "very-secret")
        const removed = yield* change(id, openai({ headers: {} }))
        assert.deepInclude(removed.body, { provider_key_set: true, provider_headers_set: false })
      })
    )

    it.effect("headers that the service sends itself, or that no client may set, are refused by name", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("headers")
        const names = [
          "Authorization",
          "x-api-key",
          "API-Key",
          "Host",
          "cookie",
          "traceparent",
          "Content-Type",
          "accept"
        ]
        for (const name of names) {
          const headers = { [name]: Redacted.make("very-secret"), "x-title": Redacted.make("fine") }
          const refused = yield* Effect.flip(
            admin.tasks.create({ payload: { ...sortingTask, provider: openai({ headers }) } })
          )
          assert.strictEqual(refused._tag, "INVALID_HEADERS", name)
          assert.deepStrictEqual(pointersOf(refused), [`#/provider/headers/${name}`])
          assert.notInclude(JSON.stringify(refused), "very-secret")
        }
        const many = Object.fromEntries(
          Array.from({ length: 11 }, (_, index) => [`x-${index}`, Redacted.make("a")])
        )
        const refused = yield* Effect.flip(
          admin.tasks.create({ payload: { ...sortingTask, provider: openai({ headers: many }) } })
        )
        assert.strictEqual(refused._tag, "INVALID_HEADERS")
      })
    )

    it.effect("a candidate with other headers than the task has for the base URL is refused", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("candidate headers")
        const headers = (value: string) => ({ "x-gateway": Redacted.make(value) })
        const task = yield* admin.tasks.create({
          payload: { ...sortingTask, provider: openai({ headers: headers("one") }) }
        })
        const params = { id: task.id }
        const [example] = sortingExamples(["a", "other"])
        yield* admin.datasets.create({ params, payload: { examples: [example!] } })
        const compare = (value: string) =>
          admin.comparisons.create({
            params,
            payload: { candidate: { provider: openai({ headers: headers(value) }) } }
          })
        const refused = yield* Effect.flip(compare("two"))
        assert.strictEqual(refused._tag, "PROVIDER_KEY_EXISTS")
        assert.deepStrictEqual(pointersOf(refused), ["#/candidate/provider/headers"])
        const { comparison } = yield* compare("one")
        yield* admin.comparisons.cancel({ params: { id: comparison.id } })
      })
    )

    it.effect("instructions with a variable that no input has are refused, also those of a candidate", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("variables")
        const refuse = (instructions: string) =>
          Effect.flip(admin.tasks.create({ payload: { ...sortingTask, instructions } }))
        const refused = yield* refuse("Sort {{input.subject}}.")
        assert.strictEqual(refused._tag, "INVALID_INSTRUCTIONS")
        assert.deepStrictEqual(pointersOf(refused), ["#/instructions"])
        const { params } = yield* createSortingTask(admin, ["a", "other"])
        yield* admin.tasks.update({ params, payload: { instructions: "Sort {{input.text}}." } })
        const updated = yield* Effect.flip(
          admin.tasks.update({ params, payload: { instructions: "Sort {{input.subject}}." } })
        )
        assert.strictEqual(updated._tag, "INVALID_INSTRUCTIONS")
        const compared = yield* Effect.flip(
          admin.comparisons.create({ params, payload: { candidate: { instructions: "{{input.subject}}" } } })
        )
        assert.strictEqual(compared._tag, "INVALID_INSTRUCTIONS")
        assert.deepStrictEqual(pointersOf(compared), ["#/candidate/instructions"])
        // A new schema must have the variables of the instructions too.
        const other = yield* admin.tasks.create({
          payload: { ...sortingTask, instructions: "Sort {{input.text}}." }
        })
        const narrowed = yield* Effect.flip(
          admin.tasks.update({
            params: { id: other.id },
            payload: {
              input_schema: { type: "object", properties: { body: {} }, additionalProperties: false }
            }
          })
        )
        assert.strictEqual(narrowed._tag, "INVALID_INSTRUCTIONS")
        assert.deepStrictEqual(pointersOf(narrowed), ["#/input_schema"])
      })
    )

    it.effect("a provider URL that the egress rules do not allow is refused", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("egress")
        for (const base_url of [
          "http://10.0.0.1/v1",
          "http://169.254.169.254/latest",
          "https://127.1/v1",
          "https://models.example.com/v1#here",
          "ftp://x"
        ]) {
          const refused = yield* Effect.flip(
            admin.tasks.create({ payload: { ...sortingTask, provider: openai({ base_url }) } })
          )
          assert.strictEqual(refused._tag, "INVALID_URL", base_url)
        }
      })
    )

    it.effect("a base URL of 2,000 bytes can have a key, and a longer one is refused", () =>
      Effect.gen(function* () {
        const { key: issue } = yield* Countersign
        const key = yield* issue({}, "long base URLs")
        const task = (path: string) => {
          const provider = openai({ base_url: `http://127.0.0.1:8009/${path}`, api_key: "sk-secret" })
          return send("/v1/tasks", {
            key,
            method: "POST",
            body: JSON.stringify({ ...sortingTask, provider })
          })
        }
        // Without repetitions, because PostgreSQL compresses repetitive values.
        const varied = (length: number, first: number) =>
          Array.from({ length }, (_, index) => String.fromCodePoint(first + ((index * 7_919) % 9_973))).join(
            ""
          )
        const wide = yield* task(varied(1_500, 0x4e00))
        assert.strictEqual(wide.status, 400)
        assert.strictEqual(wide.errors[0]?.pointer, "#/provider/base_url")
        assert.strictEqual((yield* task(varied(659, 0x4e00))).status, 201)
      })
    )

    it.effect("a key belongs to one base URL and is not used for another", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("one key, one server")
        const task = yield* admin.tasks.create({
          payload: { ...sortingTask, provider: openai({ api_key: Redacted.make("sk-secret") }) }
        })
        const params = { id: task.id }
        const moved = yield* admin.tasks.update({
          params,
          payload: { provider: openai({ base_url: "http://127.0.0.2:8009/v1" }) }
        })
        assert.isFalse(moved.provider_key_set)
        const back = yield* admin.tasks.update({ params, payload: { provider: openai({ model: "large" }) } })
        assert.isTrue(back.provider_key_set)
      })
    )

    it.effect("an organization has at most 10,000 tasks", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin } = yield* createTeamClients("many")
        const task = yield* admin.tasks.create({ payload: sortingTask })
        yield* sql`
          INSERT INTO tasks
          SELECT org_id, 'tsk_' || md5(n::text), name, instructions, input_schema, answer_schema, input_schema_digest, answer_schema_digest,
            provider, revision, live_release_id, dataset_id, dataset_version, first_run_at, created_at, created_by_id,
            created_by_name
          FROM tasks, generate_series(1, 9998) AS n
          WHERE task_id = ${task.id}
        `
        yield* admin.tasks.create({ payload: sortingTask })
        const refused = yield* Effect.flip(admin.tasks.create({ payload: sortingTask }))
        assert.strictEqual(refused._tag, "LIMIT_REACHED")
      })
    )
  }
)
