import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { ClientCalls } from "../../../src/client/Client.ts"
import type { ComparisonId } from "../../../src/domain/Ids.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { sortingExamples, sortingTask, createSortingTask, createTeamClients } from "../../support/tasks.ts"

/** Polls until the comparison is completed. */
const awaitCompleted = (client: ClientCalls, id: ComparisonId) =>
  Effect.repeat(client.comparisons.get({ params: { id } }), {
    until: ({ comparison }) => comparison.status === "completed"
  })

/** Datasets of a single example cannot be compared without it. */
const hold_out = { kind: "none" } as const

const environment = service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } })

/** The response of a model that sorts every message as billing. */
const billing = {
  choices: [{ finish_reason: "stop", message: { role: "assistant", content: '{"category":"billing"}' } }],
  usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 }
}

layer(environment, { excludeTestServices: true })("Comparisons", (it) => {
  it.effect(
    "candidate and live release answer the newest dataset version, and the candidate can be released",
    () =>
      Effect.gen(function* () {
        const { admin, reviewer, runtime } = yield* createTeamClients("way through")
        const { dataset, params, task } = yield* createSortingTask(
          admin,
          ["where is my parcel", "shipping"],
          ["the invoice is wrong", "other"]
        )
        const ask = () =>
          Effect.map(
            runtime.tasks.run({ params, payload: { input: { text: "the invoice is wrong" } } }),
            ({ answer }) => answer
          )
        assert.deepStrictEqual(yield* ask(), { category: "other" })
        const [fixed] = sortingExamples(["the invoice is wrong", "billing"])
        const next = yield* admin.datasets.create({
          params,
          payload: { base_dataset_id: dataset.id, examples: [fixed!] }
        })
        assert.deepInclude(next, { version: 2, example_count: 2 })
        // Neither a new version nor a comparison changes the live release.
        assert.deepStrictEqual(yield* ask(), { category: "other" })
        const { comparison } = yield* admin.comparisons.create({ params, payload: { hold_out } })
        assert.deepInclude(comparison, {
          dataset_id: next.id,
          example_count: 2,
          live_release_id: task.live_release_id
        })
        const done = yield* awaitCompleted(reviewer, comparison.id)
        assert.strictEqual(done.comparison.compared, 2)
        assert.deepInclude(done.comparison.summary.candidate, { agreed: 2, agreement: 1, failed: 0 })
        assert.deepInclude(done.comparison.summary.live, { agreed: 1, agreement: 0.5, failed: 0 })
        assert.strictEqual(done.comparison.summary.difference.value, 0.5)
        assert.deepStrictEqual(done.comparison.summary.fields, [
          { field: "category", compared: 2, candidate: 2, live: 1 }
        ])
        const corrected = done.results.find(({ input }) => input?.["text"] === "the invoice is wrong")
        assert.deepStrictEqual(corrected?.expected, { category: "billing" })
        assert.deepInclude(corrected?.live, { agrees: false, disagreeing: ["category"] })
        assert.deepStrictEqual(yield* ask(), { category: "other" })

        const release = yield* admin.releases.create({ params, payload: { comparison_id: comparison.id } })
        assert.deepInclude(release, { comparison_id: comparison.id, dataset_id: next.id })
        assert.deepStrictEqual(yield* ask(), { category: "billing" })
        const again = yield* admin.releases.create({ params, payload: { comparison_id: comparison.id } })
        assert.strictEqual(again.id, release.id)
        // A candidate that uses an older version is compared over the newest version's examples.
        const older = yield* admin.comparisons.create({
          params,
          payload: { candidate: { dataset_id: dataset.id }, hold_out }
        })
        assert.strictEqual(older.comparison.candidate.dataset_id, dataset.id)
        assert.strictEqual(older.comparison.dataset_id, next.id)
        const { summary } = (yield* awaitCompleted(reviewer, older.comparison.id)).comparison
        assert.deepStrictEqual([summary.candidate.agreed, summary.live.agreed], [1, 2])
        const { releases } = yield* reviewer.releases.list({ params })
        assert.deepStrictEqual(
          releases.map(({ id }) => id),
          [release.id, task.live_release_id]
        )
        const listed = yield* reviewer.comparisons.list({ params })
        assert.deepStrictEqual(
          listed.comparisons.map(({ id }) => id),
          [older.comparison.id, comparison.id]
        )
      })
  )

  it.effect(
    "a comparison with another task's dataset, or a release of another task's comparison, is refused with 404",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("foreign")
        const mine = yield* createSortingTask(admin, ["a", "other"])
        const other = yield* createSortingTask(admin, ["b", "other"])
        const foreign = yield* Effect.flip(
          admin.comparisons.create({
            params: mine.params,
            payload: { candidate: { dataset_id: other.dataset.id } }
          })
        )
        assert.strictEqual(foreign._tag, "NOT_FOUND")
        const { comparison } = yield* admin.comparisons.create({
          params: other.params,
          payload: { hold_out }
        })
        yield* awaitCompleted(admin, comparison.id)
        const refused = yield* Effect.flip(
          admin.releases.create({ params: mine.params, payload: { comparison_id: comparison.id } })
        )
        assert.strictEqual(refused._tag, "NOT_FOUND")
        assert.deepStrictEqual(pointersOf(refused), ["#/comparison_id"])
      })
  )

  it.effect("a comparison whose replica crashed is found by the poll and completed", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("orphan")
      const { params } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
      const { comparison } = yield* admin.comparisons.create({ params, payload: { hold_out } })
      yield* awaitCompleted(admin, comparison.id)
      const sql = yield* SqlClient.SqlClient
      // As a killed replica leaves it: running, without progress, its lease expired.
      yield* transaction(
        Effect.andThen(
          sql`DELETE FROM comparison_results WHERE comparison_id = ${comparison.id}`,
          sql`
            UPDATE comparisons
            SET status = 'running', finished_at = NULL, compared = 0, last_example_id = NULL,
              lease_until = now() - interval '1 second'
            WHERE comparison_id = ${comparison.id}
          `
        )
      )
      const done = yield* awaitCompleted(admin, comparison.id)
      assert.lengthOf(done.results, 1)
    })
  )

  it.effect("the results of a comparison are read in pages", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("pages")
      const { params } = yield* createSortingTask(
        admin,
        ...Array.from({ length: 70 }, (_, n) => [`message ${n}`, "other"] as const)
      )
      const { comparison } = yield* admin.comparisons.create({ params, payload: { hold_out } })
      yield* awaitCompleted(admin, comparison.id)
      const first = yield* admin.comparisons.get({ params: { id: comparison.id }, query: { limit: 40 } })
      const second = yield* admin.comparisons.get({
        params: { id: comparison.id },
        query: { limit: 40, cursor: first.next_cursor! }
      })
      assert.lengthOf(first.results, 40)
      assert.lengthOf(second.results, 30)
      assert.isNull(second.next_cursor)
      assert.strictEqual(
        new Set([...first.results, ...second.results].map(({ example_id }) => example_id)).size,
        70
      )
    })
  )

  it.effect("a page of comparisons with long instructions holds fewer of them", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("long instructions")
      const { params } = yield* createSortingTask(admin, ["message", "other"])
      const candidate = { instructions: "a".repeat(100_000) }
      const create = Effect.map(
        admin.comparisons.create({ params, payload: { candidate, hold_out } }),
        ({ comparison }) => comparison.id
      )
      const ids = yield* Effect.replicateEffect(create, 5)
      const listed: Array<ReadonlyArray<string>> = []
      for (let cursor: ComparisonId | null | undefined; cursor !== null;) {
        const page = yield* admin.comparisons.list({ params, query: cursor === undefined ? {} : { cursor } })
        listed.push(page.comparisons.map(({ id }) => id))
        cursor = page.next_cursor
      }
      assert.deepStrictEqual(listed.flat(), ids.toReversed())
      assert.deepStrictEqual(
        listed.map(({ length }) => length),
        [2, 2, 1]
      )
    })
  )

  it.effect("a key without datasets.read gets the results of a comparison without their contents", () =>
    Effect.gen(function* () {
      const { admin, reviewer, runtime } = yield* createTeamClients("contents")
      const { params } = yield* createSortingTask(admin, ["the invoice is wrong", "other"])
      const verdict = { reason: "An invoice is billing, not other.", agrees: false }
      const model = yield* startScriptedServer([
        { status: 200, body: billing },
        {
          status: 200,
          body: { choices: [{ finish_reason: "stop", message: { content: JSON.stringify(verdict) } }] }
        }
      ])
      const provider = { kind: "openai", base_url: model.url, model: "small" } as const
      const { comparison } = yield* admin.comparisons.create({
        params,
        payload: { candidate: { provider }, judge: { provider }, hold_out }
      })
      const [shown] = (yield* awaitCompleted(reviewer, comparison.id)).results
      assert.deepInclude(shown, {
        input: { text: "the invoice is wrong" },
        expected: { category: "other" }
      })
      assert.deepStrictEqual(
        [shown?.candidate.answer, shown?.live.answer, shown?.candidate.verdict?.reason],
        [{ category: "billing" }, { category: "other" }, verdict.reason]
      )
      for (const query of [{}, { verdict: "regression" as const }]) {
        const read = yield* runtime.comparisons.get({ params: { id: comparison.id }, query })
        assert.notMatch(JSON.stringify(read), /invoice|billing/)
        const [hidden] = read.results
        assert.deepInclude(hidden, { example_id: shown!.example_id, input: null, expected: null })
        assert.deepStrictEqual(hidden?.live, { ...shown!.live, answer: null })
        assert.deepStrictEqual(hidden?.candidate, {
          ...shown!.candidate,
          answer: null,
          verdict: { agrees: false, reason: "", failure: null }
        })
      }
      const { comparisons } = yield* runtime.comparisons.list({ params })
      assert.notMatch(JSON.stringify(comparisons), /invoice|billing/)
    })
  )

  it.effect("any earlier release, including the first, can be made live again without a comparison", () =>
    Effect.gen(function* () {
      const { admin, reviewer, runtime } = yield* createTeamClients("way back")
      const { dataset, params, task } = yield* createSortingTask(admin, ["the invoice is wrong", "other"])
      const ask = Effect.map(
        runtime.tasks.run({ params, payload: { input: { text: "the invoice is wrong" } } }),
        ({ answer, release_id }) => [answer["category"], release_id]
      )
      const [fixed] = sortingExamples(["the invoice is wrong", "billing"])
      yield* admin.datasets.create({
        params,
        payload: { base_dataset_id: dataset.id, examples: [fixed!] }
      })
      const { comparison } = yield* admin.comparisons.create({
        params,
        payload: { candidate: { instructions: "Second." }, hold_out }
      })
      yield* awaitCompleted(admin, comparison.id)
      const second = yield* admin.releases.create({ params, payload: { comparison_id: comparison.id } })
      assert.deepStrictEqual(yield* ask, ["billing", second.id])

      const back = yield* admin.releases.create({ params, payload: { release_id: task.live_release_id } })
      assert.deepInclude(back, {
        instructions: task.instructions,
        dataset_id: dataset.id,
        comparison_id: null,
        restored_release_id: task.live_release_id
      })
      assert.deepStrictEqual(yield* ask, ["other", back.id])
      // A rollback does not change the working copy.
      assert.deepInclude(yield* admin.tasks.get({ params }), {
        live_release_id: back.id,
        instructions: "Second."
      })
      // Repeated, by either id, it returns the release that is already live.
      for (const release_id of [task.live_release_id, back.id]) {
        const again = yield* admin.releases.create({ params, payload: { release_id } })
        assert.strictEqual(again.id, back.id)
      }
      const forth = yield* admin.releases.create({ params, payload: { release_id: second.id } })
      assert.deepStrictEqual(yield* ask, ["billing", forth.id])
      const { releases } = yield* reviewer.releases.list({ params })
      assert.deepStrictEqual(
        releases.map(({ comparison_id, id, restored_release_id }) => [
          id,
          comparison_id,
          restored_release_id
        ]),
        [
          [forth.id, null, second.id],
          [back.id, null, task.live_release_id],
          [second.id, comparison.id, null],
          [task.live_release_id, null, null]
        ]
      )
    })
  )

  it.effect("a release names either a comparison or an earlier release of the task, and not both", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const { admin } = yield* createTeamClients("one of two")
      const { params, task } = yield* createSortingTask(admin, ["a", "other"])
      const other = yield* createSortingTask(admin, ["b", "other"])
      const foreign = yield* Effect.flip(
        admin.releases.create({ params, payload: { release_id: other.task.live_release_id } })
      )
      assert.strictEqual(foreign._tag, "NOT_FOUND")
      assert.deepStrictEqual(pointersOf(foreign), ["#/release_id"])
      const { comparison } = yield* admin.comparisons.create({ params, payload: { hold_out } })
      yield* awaitCompleted(admin, comparison.id)
      const key = yield* countersign.key({}, "one of two")
      for (const body of [{}, { comparison_id: comparison.id, release_id: task.live_release_id }]) {
        const refused = yield* send(`/v1/tasks/${task.id}/releases`, {
          key,
          method: "POST",
          body: JSON.stringify(body)
        })
        assert.deepStrictEqual([refused.status, refused.body["code"]], [400, "INVALID_REQUEST"])
      }
    })
  )

  it.effect(
    "a release updates the working copy only if it has not changed since the comparison was created",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("working copy")
        const { params } = yield* createSortingTask(admin, ["a", "other"])
        const { comparison } = yield* admin.comparisons.create({
          params,
          payload: { candidate: { instructions: "Second." }, hold_out }
        })
        yield* awaitCompleted(admin, comparison.id)
        // A new name and unchanged instructions and provider do not count as a change.
        const { instructions } = yield* admin.tasks.get({ params })
        yield* admin.tasks.update({
          params,
          payload: { name: "renamed", instructions, provider: { kind: "examples" } }
        })
        yield* admin.releases.create({ params, payload: { comparison_id: comparison.id } })
        assert.deepInclude(yield* admin.tasks.get({ params }), { name: "renamed", instructions: "Second." })

        const third = yield* admin.comparisons.create({
          params,
          payload: { candidate: { instructions: "Third." }, hold_out }
        })
        yield* admin.tasks.update({ params, payload: { instructions: "Fourth, a draft." } })
        yield* awaitCompleted(admin, third.comparison.id)
        yield* admin.releases.create({ params, payload: { comparison_id: third.comparison.id } })
        assert.strictEqual((yield* admin.tasks.get({ params })).instructions, "Fourth, a draft.")
      })
  )

  it.effect(
    "a comparison can add the first key for a base URL, and cannot replace a key that the live release may use",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("keys")
        const server = yield* startScriptedServer([{ status: 200, body: billing }])
        const model = (path: string, api_key: string) => ({
          kind: "openai" as const,
          base_url: `${server.url}/${path}`,
          model: "small",
          api_key: Redacted.make(api_key)
        })
        const { id } = yield* admin.tasks.create({
          payload: { ...sortingTask, provider: model("first", "sk-live") }
        })
        const params = { id: id }
        const [example] = sortingExamples(["the invoice is wrong", "billing"])
        yield* admin.datasets.create({ params, payload: { examples: [example!] } })
        const compare = (provider: ReturnType<typeof model>) =>
          admin.comparisons.create({ params, payload: { candidate: { provider } } })

        const refused = yield* Effect.flip(compare(model("first/", "sk-other")))
        assert.strictEqual(refused._tag, "PROVIDER_KEY_EXISTS")
        assert.deepStrictEqual(
          "errors" in refused ? refused.errors?.map(({ pointer }) => pointer) : undefined,
          ["#/candidate/provider/api_key"]
        )
        yield* admin.tasks.run({ params, payload: { input: { text: "the invoice is wrong" } } })
        assert.strictEqual(server.seen.at(-1)?.headers.authorization, "Bearer sk-live")

        const same = yield* compare(model("first/", "sk-live"))
        const first = yield* compare(model("second", "sk-second"))
        for (const { comparison } of [same, first]) {
          const { summary } = (yield* awaitCompleted(admin, comparison.id)).comparison
          assert.deepInclude(summary.candidate, { agreed: 1, failed: 0 })
        }
        const keys = server.seen.map(({ headers, url }) => [url.split("/")[1], headers.authorization])
        assert.sameDeepMembers(
          [...new Set(keys.map((pair) => pair.join(" ")))],
          ["first Bearer sk-live", "second Bearer sk-second"]
        )
      })
  )
})
