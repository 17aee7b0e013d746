import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Authorized } from "../../../src/api/Authorization.ts"
import { MAX_CONCURRENT_TRIES, type PlaygroundRequest } from "../../../src/api/console/Playground.ts"
import { ReleaseId, type TaskId } from "../../../src/domain/Ids.ts"
import type { Principal } from "../../../src/domain/identity/Principal.ts"
import { ApiKeys } from "../../../src/server/identity/ApiKeys.ts"
import { Playground } from "../../../src/server/tasks/Playground.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { eventually } from "../../support/eventually.ts"
import { startModelServer } from "../../support/model.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { pointersOf, service } from "../../support/service.ts"
import { createSortingTask, createTeamClients, sortingTask } from "../../support/tasks.ts"

const environment = { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" }

const principalOf = Effect.fnUntraced(function* (organization: string, input: object = {}) {
  const { key } = yield* Countersign
  return yield* (yield* ApiKeys).verify(yield* key(input, organization))
})

const answerAs = Effect.fnUntraced(function* (
  principal: Principal,
  task_id: TaskId,
  request: PlaygroundRequest
) {
  const playground = yield* Playground
  return yield* Effect.provideService(
    playground.answer(task_id, request),
    Authorized("tasks.write"),
    principal
  )
})

layer(service({ environment }), { excludeTestServices: true, timeout: "60 seconds" })("Playground", (it) => {
  it.effect(
    "a release, the working copy and other dataset versions answer one input, and no run is logged",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("versions")
        const { dataset, params, task } = yield* createSortingTask(admin, ["where is it", "shipping"])
        const second = yield* admin.datasets.create({
          params,
          payload: {
            base_dataset_id: dataset.id,
            examples: [{ input: { text: "where is it" }, answer: { category: "billing" } }]
          }
        })
        const principal = yield* principalOf("versions")
        const input = { text: "where is it" }
        const live = yield* answerAs(principal, task.id, { input, release_id: task.live_release_id })
        assert.deepInclude(live, { answer: { category: "shipping" }, failure: null, dataset_version: 1 })
        assert.deepStrictEqual(
          live.examples.map(({ content, score }) => [score, content]),
          [[1, { input, answer: { category: "shipping" } }]]
        )
        const draft = yield* answerAs(principal, task.id, { input })
        assert.deepInclude(draft, { answer: { category: "billing" }, dataset_version: 2 })
        const other = yield* answerAs(principal, task.id, {
          input,
          release_id: task.live_release_id,
          dataset_id: second.id
        })
        assert.deepInclude(other, { answer: { category: "billing" }, dataset_version: 2 })
        const without = yield* answerAs(principal, task.id, { input, dataset_id: null })
        assert.isNull(without.answer)
        assert.include(without.failure, "has no dataset")
        assert.lengthOf((yield* admin.runs.list({ params, query: {} })).runs, 0)
      }).pipe(Effect.orDie)
  )

  it.effect("a model's prompt, tokens and cost are returned; what its server says in a failure is not", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("model")
      const model = yield* startModelServer(() => ({
        answer: { category: "billing" },
        input_tokens: 1_000,
        output_tokens: 10
      }))
      const task = yield* admin.tasks.create({
        payload: {
          ...sortingTask,
          provider: {
            kind: "openai",
            base_url: model.url,
            model: "small",
            price: { input_per_million: 2, output_per_million: 10 }
          }
        }
      })
      const principal = yield* principalOf("model")
      const found = yield* answerAs(principal, task.id, { input: { text: "hello" } })
      assert.deepInclude(found, {
        answer: { category: "billing" },
        calls: 1,
        usage: { input_tokens: 1_000, output_tokens: 10 },
        cost: 0.0021
      })
      assert.deepStrictEqual(
        found.prompt?.map(({ role }) => role),
        ["system", "user"]
      )
      assert.include(found.prompt?.[0]?.text, "Sort the message.")
      // The prompt may contain examples.
      const narrow = yield* principalOf("model", { scopes: ["tasks.write"] })
      assert.isNull((yield* answerAs(narrow, task.id, { input: { text: "hello" } })).prompt)

      const broken = yield* startScriptedServer([{ status: 401, text: "no such account: acct-4711" }])
      yield* admin.tasks.update({
        params: { id: task.id },
        payload: { provider: { kind: "openai", base_url: `${broken.url}/v1`, model: "small" } }
      })
      const failed = yield* answerAs(principal, task.id, { input: { text: "hello" } })
      assert.isNull(failed.answer)
      assert.isNotNull(failed.failure)
      assert.notInclude(JSON.stringify(failed), "acct-4711")
    }).pipe(Effect.orDie)
  )

  it.effect("an invalid input, and releases and versions of another task or organization are refused", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("refused")
      const { task } = yield* createSortingTask(admin, ["a", "other"])
      const another = yield* createSortingTask(admin, ["b", "other"])
      const principal = yield* principalOf("refused")
      const refusal = (request: PlaygroundRequest, as = principal) =>
        Effect.map(Effect.flip(answerAs(as, task.id, request)), (problem) => [
          problem._tag,
          ...pointersOf(problem)
        ])
      assert.deepStrictEqual(yield* refusal({ input: { text: 1 } }), ["INVALID_INPUT", "#/input/text"])
      const input = { text: "a" }
      const ofAnother = another.task.live_release_id
      assert.deepStrictEqual(yield* refusal({ input, release_id: ofAnother }), ["NOT_FOUND", "#/release_id"])
      const unknown = ReleaseId.make(`rel_${"0".repeat(32)}`)
      assert.deepStrictEqual(yield* refusal({ input, release_id: unknown }), ["NOT_FOUND", "#/release_id"])
      assert.deepStrictEqual(yield* refusal({ input, dataset_id: another.dataset.id }), [
        "NOT_FOUND",
        "#/dataset_id"
      ])
      const stranger = yield* principalOf("stranger")
      assert.deepStrictEqual((yield* refusal({ input }, stranger))[0], "NOT_FOUND")
    }).pipe(Effect.orDie)
  )

  it.effect("an organization tries only a few inputs at a time, and another is not held up", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("slots")
      const model = yield* startModelServer(() => ({
        answer: { category: "other" },
        input_tokens: 1,
        output_tokens: 1
      }))
      model.silentAfter(0)
      const task = yield* admin.tasks.create({
        payload: { ...sortingTask, provider: { kind: "openai", base_url: model.url, model: "small" } }
      })
      const principal = yield* principalOf("slots")
      const input = { text: "a" }
      const waiting = yield* Effect.forEach(Array.from({ length: MAX_CONCURRENT_TRIES }), () =>
        Effect.forkChild(answerAs(principal, task.id, { input }))
      )
      yield* eventually(
        Effect.sync(() => model.asked.length),
        (count) => count === MAX_CONCURRENT_TRIES
      )
      const refused = yield* Effect.flip(answerAs(principal, task.id, { input }))
      assert.strictEqual(refused._tag, "RATE_LIMITED")
      const other = yield* createTeamClients("free")
      const free = yield* createSortingTask(other.admin, ["a", "other"])
      const answered = yield* answerAs(yield* principalOf("free"), free.task.id, { input })
      assert.isNotNull(answered.answer)
      yield* Fiber.interruptAll(waiting)
      const next = yield* Effect.forkChild(answerAs(principal, task.id, { input }))
      yield* eventually(
        Effect.sync(() => model.asked.length),
        (count) => count === MAX_CONCURRENT_TRIES + 1
      )
      yield* Fiber.interrupt(next)
    }).pipe(Effect.orDie)
  )
})
