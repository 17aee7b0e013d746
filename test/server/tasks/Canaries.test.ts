import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ClientCalls } from "../../../src/client/Client.ts"
import type { ReleaseId, TaskId } from "../../../src/domain/Ids.ts"
import { eventually } from "../../support/eventually.ts"
import { pointersOf, service } from "../../support/service.ts"
import { createSortingTask, createTeamClients, sortingExamples } from "../../support/tasks.ts"

/** A task whose next release answers "billing" instead of "other", and the comparison of that candidate. */
const comparedTask = Effect.fnUntraced(function* (organization: string) {
  const { admin, reviewer, runtime } = yield* createTeamClients(organization)
  const { dataset, params, task } = yield* createSortingTask(admin, ["a message", "other"])
  const [fixed] = sortingExamples(["a message", "billing"])
  const next = yield* admin.datasets.create({
    params,
    payload: { base_dataset_id: dataset.id, examples: [fixed!] }
  })
  const comparison_id = yield* compare(admin, params)
  const ask = (canary_key: string) =>
    runtime.tasks.run({ params, payload: { input: { text: "a message" }, canary_key } })
  return { admin, reviewer, runtime, params, task, next, comparison_id, ask }
})

const compare = Effect.fnUntraced(function* (
  admin: ClientCalls,
  params: { readonly id: TaskId },
  instructions = "Sort it."
) {
  const { comparison } = yield* admin.comparisons.create({
    params,
    payload: { candidate: { instructions }, hold_out: { kind: "none" } }
  })
  yield* eventually(
    admin.comparisons.get({ params: { id: comparison.id }, query: {} }),
    (found) => found.comparison.status === "completed"
  )
  return comparison.id
})

const keys = Array.from({ length: 200 }, (_, n) => `customer ${n}`)

layer(service(), { excludeTestServices: true })("Canaries", (it) => {
  it.effect("a canary answers its share of the keys, always the same ones, until it is stopped", () =>
    Effect.gen(function* () {
      const { admin, ask, comparison_id, next, params, task } = yield* comparedTask("share")
      const canary = yield* admin.canaries.start({ params, payload: { comparison_id, share: 0.3 } })
      assert.deepInclude(canary, { share: 0.3, difference: null })
      assert.deepInclude(canary.release, { comparison_id, dataset_id: next.id, instructions: "Sort it." })
      assert.strictEqual((yield* admin.tasks.get({ params })).live_release_id, task.live_release_id)

      const answered = yield* Effect.forEach(
        keys,
        (key) => Effect.map(ask(key), (run) => [key, run] as const),
        { concurrency: 8 }
      )
      const byCanary = answered.flatMap(([key, run]) => (run.release_id === canary.release.id ? [key] : []))
      // 60 are expected, with a standard deviation of 6.5.
      assert.isAbove(byCanary.length, 25)
      assert.isBelow(byCanary.length, 95)
      for (const [key, run] of answered) {
        const expected = byCanary.includes(key) ? ["billing", next.id] : ["other", run.dataset_id]
        assert.deepStrictEqual([run.answer["category"], run.dataset_id], expected)
      }
      const again = yield* Effect.forEach(byCanary.slice(0, 10), ask)
      assert.isTrue(again.every((run) => run.release_id === canary.release.id))

      // A larger share keeps those that it has answered.
      const wider = yield* admin.canaries.start({ params, payload: { comparison_id, share: 0.6 } })
      assert.strictEqual(wider.release.id, canary.release.id)
      const kept = yield* Effect.forEach(byCanary, ask, { concurrency: 8 })
      assert.isTrue(kept.every((run) => run.release_id === canary.release.id))

      yield* admin.canaries.stop({ params })
      const after = yield* Effect.forEach(byCanary.slice(0, 20), ask)
      assert.isTrue(after.every((run) => run.release_id === task.live_release_id))
      const none = yield* Effect.flip(admin.canaries.get({ params }))
      assert.strictEqual(none._tag, "NOT_FOUND")
      const { entries } = yield* admin.auditLog.list({ query: { target_id: canary.release.id } })
      assert.deepStrictEqual(
        entries.map(({ action }) => action),
        ["canary.stopped", "canary.changed", "canary.started"]
      )

      // Another canary answers other keys: not always the same customers try what is new.
      const another = yield* admin.canaries.start({ params, payload: { comparison_id, share: 0.3 } })
      const tried = yield* Effect.forEach(keys, ask, { concurrency: 8 })
      const byAnother = keys.filter((_, n) => tried[n]?.release_id === another.release.id)
      assert.isAbove(byAnother.length, 25)
      assert.notDeepEqual(byAnother, byCanary)
    })
  )

  it.effect(
    "the changes of a release are since the one that was live before, not since a stopped canary",
    () =>
      Effect.gen(function* () {
        const { admin, comparison_id, params, reviewer, task } = yield* comparedTask("changes")
        const changesOf = (id: ReleaseId) => reviewer.releases.getChanges({ params: { id }, query: {} })
        const stopped = yield* admin.canaries.start({ params, payload: { comparison_id, share: 0.5 } })
        const running = yield* changesOf(stopped.release.id)
        assert.strictEqual(running.since, task.live_release_id)
        yield* admin.canaries.stop({ params })

        const live = yield* admin.releases.create({ params, payload: { comparison_id } })
        assert.notStrictEqual(live.id, stopped.release.id)
        const changes = yield* changesOf(live.id)
        assert.strictEqual(changes.since, task.live_release_id)
        assert.include(
          changes.instructions.map(({ op }) => op),
          "added"
        )

        // Also of a canary that becomes live, and of a rollback that ends a canary.
        const next = yield* compare(admin, params, "Sort it again.")
        const { release } = yield* admin.canaries.start({
          params,
          payload: { comparison_id: next, share: 0.5 }
        })
        yield* admin.releases.create({ params, payload: { release_id: release.id } })
        assert.strictEqual((yield* changesOf(release.id)).since, live.id)
        const last = yield* compare(admin, params, "Sort it well.")
        yield* admin.canaries.start({ params, payload: { comparison_id: last, share: 0.5 } })
        const back = yield* admin.releases.create({ params, payload: { release_id: live.id } })
        assert.strictEqual((yield* changesOf(back.id)).since, release.id)
        assert.isNull((yield* changesOf(task.live_release_id)).since)
      })
  )

  it.effect(
    "runs of a session without a key stay with one release, and logged answers with the live one",
    () =>
      Effect.gen(function* () {
        const { admin, comparison_id, params, runtime, task } = yield* comparedTask("sessions")
        yield* admin.canaries.start({ params, payload: { comparison_id, share: 0.5 } })
        // So many that one release alone answers all of them once in eight million times.
        const releases = yield* Effect.forEach(Array.from({ length: 24 }), () =>
          Effect.gen(function* () {
            const { session_id } = yield* runtime.sessions.create({ payload: {} })
            const run = runtime.tasks.run({ params, payload: { input: { text: "a message" }, session_id } })
            const used = new Set((yield* Effect.replicateEffect(run, 3)).map(({ release_id }) => release_id))
            assert.strictEqual(used.size, 1)
            return [...used][0]
          })
        )
        assert.strictEqual(new Set(releases).size, 2)
        const logged = yield* Effect.forEach(keys.slice(0, 20), (canary_key) =>
          runtime.tasks.run({
            params,
            payload: { input: { text: "a message" }, answer: { category: "other" }, canary_key }
          })
        )
        assert.isTrue(logged.every(({ release_id }) => release_id === task.live_release_id))
      })
  )

  it.effect("feedback is counted for each arm with its interval, and the canary can be promoted", () =>
    Effect.gen(function* () {
      const { admin, ask, comparison_id, params, reviewer, task } = yield* comparedTask("arms")
      const started = yield* admin.canaries.start({ params, payload: { comparison_id, share: 0.5 } })
      const runs = yield* Effect.forEach(keys.slice(0, 60), ask, { concurrency: 8 })
      yield* Effect.forEach(
        runs,
        (run) =>
          reviewer.feedback.create({
            payload: { inference_log_id: run.trace_id, score: run.answer["category"] === "billing" ? 1 : -1 }
          }),
        { concurrency: 8 }
      )
      const count = runs.filter(({ release_id }) => release_id === started.release.id).length
      const canary = yield* admin.canaries.get({ params })
      assert.deepInclude(canary.canary, { release_id: started.release.id, positive: count, negative: 0 })
      assert.deepInclude(canary.live, {
        release_id: task.live_release_id,
        positive: 0,
        negative: 60 - count,
        score_mean: -1
      })
      assert.strictEqual(canary.canary.positive_share?.value, 1)
      assert.strictEqual(canary.difference?.value, 1)
      assert.isAbove(canary.difference?.low ?? 0, 0.5)

      // Feedback of the days before is not compared.
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE feedback_counts SET day = day - 1 WHERE release_id = ${task.live_release_id}`
      const later = yield* admin.canaries.get({ params })
      assert.deepInclude(later.live, { negative: 0, score_mean: null })
      assert.strictEqual(later.canary.positive, count)

      const live = yield* admin.releases.create({ params, payload: { release_id: started.release.id } })
      assert.deepInclude(live, { id: started.release.id, comparison_id, restored_release_id: null })
      assert.deepInclude(yield* admin.tasks.get({ params }), {
        live_release_id: started.release.id,
        instructions: "Sort it."
      })
      assert.strictEqual((yield* Effect.flip(admin.canaries.get({ params })))._tag, "NOT_FOUND")
      const all = yield* Effect.forEach(keys.slice(0, 20), ask)
      assert.isTrue(all.every(({ release_id }) => release_id === started.release.id))
    })
  )

  it.effect(
    "a candidate that cannot be released cannot be a canary, and a new live release ends the canary",
    () =>
      Effect.gen(function* () {
        const { admin, comparison_id, params, task } = yield* comparedTask("refused")
        const other = yield* compare(admin, params, "Another.")
        yield* admin.canaries.start({ params, payload: { comparison_id: other, share: 0.1 } })
        yield* admin.releases.create({ params, payload: { comparison_id } })
        assert.strictEqual((yield* Effect.flip(admin.canaries.get({ params })))._tag, "NOT_FOUND")
        const stale = yield* Effect.flip(
          admin.canaries.start({ params, payload: { comparison_id: other, share: 0.1 } })
        )
        assert.strictEqual(stale._tag, "LIVE_RELEASE_CHANGED")
        const forced = yield* admin.canaries.start({
          params,
          payload: { comparison_id: other, share: 0.1, force: true, reason: "A trial." }
        })
        assert.strictEqual(forced.release.instructions, "Another.")
        const foreign = yield* createSortingTask(admin, ["b", "other"])
        const refused = yield* Effect.flip(
          admin.canaries.start({ params: foreign.params, payload: { comparison_id, share: 0.1 } })
        )
        assert.deepStrictEqual(pointersOf(refused), ["#/comparison_id"])
        const whole = yield* Effect.flip(
          admin.canaries.start({ params, payload: { comparison_id: other, share: 1 } })
        )
        assert.deepStrictEqual(pointersOf(whole), ["#/share"])
        assert.notStrictEqual((yield* admin.tasks.get({ params })).live_release_id, task.live_release_id)
      })
  )

  it.effect("a canary that is promoted by its comparison keeps its id, and so its feedback", () =>
    Effect.gen(function* () {
      const { admin, comparison_id, params } = yield* comparedTask("promoted")
      const { release } = yield* admin.canaries.start({ params, payload: { comparison_id, share: 0.5 } })
      const live = yield* admin.releases.create({ params, payload: { comparison_id } })
      assert.deepStrictEqual(live, release)
      assert.strictEqual((yield* admin.tasks.get({ params })).live_release_id, release.id)
    })
  )

  it.effect("the dataset version of a canary cannot be deleted while it answers", () =>
    Effect.gen(function* () {
      const { admin, comparison_id, next, params } = yield* comparedTask("its dataset")
      yield* admin.canaries.start({ params, payload: { comparison_id, share: 0.1 } })
      const [more] = sortingExamples(["another message", "other"])
      yield* admin.datasets.create({ params, payload: { base_dataset_id: next.id, examples: [more!] } })
      const remove = admin.datasets.remove({ params: { id: next.id } })
      const refused = yield* Effect.flip(remove)
      assert.strictEqual(refused._tag, "DATASET_IN_USE")
      assert.propertyVal(refused, "detail", "The canary uses this version. Promote or stop the canary first.")
      yield* admin.canaries.stop({ params })
      yield* remove
    })
  )
})
