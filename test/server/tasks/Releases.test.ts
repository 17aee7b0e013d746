import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { NewComparison } from "../../../src/api/Comparisons.ts"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { startScriptedServer } from "../../support/scripted.ts"
import { pointersOf, service } from "../../support/service.ts"
import { createSortingTask, createTeamClients } from "../../support/tasks.ts"
import type { TaskId } from "../../../src/domain/Ids.ts"
import type { ReleaseChanges } from "../../../src/domain/tasks/ReleaseChanges.ts"

/** Compares a candidate with the live release over a dataset of one example, and waits until the comparison is completed. */
const compare = Effect.fnUntraced(function* (
  admin: ClientCalls,
  params: { readonly id: TaskId },
  payload: NewComparison
) {
  const { comparison } = yield* admin.comparisons.create({
    params,
    payload: { hold_out: { kind: "none" }, ...payload }
  })
  yield* Effect.repeat(admin.comparisons.get({ params: { id: comparison.id }, query: {} }), {
    until: ({ comparison: { status } }) => status === "completed"
  })
  return comparison.id
})

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Releases",
  (it) => {
    it.effect("releases of a task are numbered from 1 in their order, also when people release at once", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("numbers")
        const { params, task } = yield* createSortingTask(admin, ["a", "other"])
        const ids = yield* Effect.forEach(["One.", "Two.", "Three."], (instructions) =>
          compare(admin, params, { candidate: { instructions } })
        )
        yield* Effect.forEach(
          ids,
          (comparison_id) =>
            admin.releases.create({ params, payload: { comparison_id, force: true, reason: "Test" } }),
          { concurrency: "unbounded" }
        )
        yield* admin.releases.create({ params, payload: { release_id: task.live_release_id } })
        const { releases } = yield* admin.releases.list({ params, query: {} })
        assert.sameMembers(
          releases.map(({ number }) => number),
          [1, 2, 3, 4, 5]
        )
        assert.strictEqual(releases.find(({ id }) => id === task.live_release_id)?.number, 1)
        assert.strictEqual(
          releases.find(({ restored_release_id }) => restored_release_id !== null)?.number,
          5
        )
        // Another task counts for itself.
        const other = yield* createSortingTask(admin, ["a", "other"])
        const [first] = (yield* admin.releases.list({ params: other.params, query: {} })).releases
        assert.strictEqual(first?.number, 1)
      })
    )

    it.effect("a candidate is released only over the release that it was compared with", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("stale")
        const { params, task } = yield* createSortingTask(admin, ["a", "other"])
        const one = yield* compare(admin, params, { candidate: { instructions: "One." } })
        const two = yield* compare(admin, params, { candidate: { instructions: "Two." } })
        const release = (
          comparison_id: typeof one,
          force?: { readonly force: true; readonly reason: string }
        ) => admin.releases.create({ params, payload: { comparison_id, ...force } })
        const live = yield* release(two)
        const refused = yield* Effect.flip(release(one))
        assert.strictEqual(refused._tag, "LIVE_RELEASE_CHANGED")
        assert.strictEqual(
          refused._tag === "LIVE_RELEASE_CHANGED" ? refused.current_release_id : undefined,
          live.id
        )
        assert.strictEqual((yield* admin.tasks.get({ params })).live_release_id, live.id)
        // Repeating the release that is live already changes nothing, so it is not refused.
        assert.strictEqual((yield* release(two)).id, live.id)

        // After a rollback the content that it was compared with is live again.
        yield* admin.releases.create({ params, payload: { release_id: task.live_release_id } })
        assert.strictEqual((yield* release(one)).instructions, "One.")

        const forced = yield* release(two, {
          force: true,
          reason: "One was a mistake; password: hunter2-hunter2"
        })
        assert.strictEqual(forced.instructions, "Two.")
        const { entries } = yield* admin.auditLog.list({ query: { target_id: forced.id } })
        assert.deepStrictEqual(
          entries.map(({ detail }) => detail),
          [
            {
              task_id: task.id,
              comparison_id: two,
              force: true,
              reason: "One was a mistake; password: [REDACTED]"
            }
          ]
        )
      })
    )

    it.effect(
      "a candidate that agrees with fewer examples than the live release is refused without force",
      () =>
        Effect.gen(function* () {
          const { admin } = yield* createTeamClients("lost")
          const { dataset, params } = yield* createSortingTask(admin, ["a", "other"])
          const { dataset_id: first } = { dataset_id: dataset.id }
          yield* admin.datasets.create({
            params,
            payload: {
              base_dataset_id: first,
              examples: [{ input: { text: "a" }, answer: { category: "billing" } }]
            }
          })
          const better = yield* compare(admin, params, {})
          yield* admin.releases.create({ params, payload: { comparison_id: better } })
          const worse = yield* compare(admin, params, { candidate: { dataset_id: first } })
          const refused = yield* Effect.flip(
            admin.releases.create({ params, payload: { comparison_id: worse } })
          )
          assert.strictEqual(refused._tag, "CANDIDATE_LOST")
          assert.propertyVal(
            refused,
            "detail",
            "The candidate agreed with 0 examples, the live release with 1."
          )
          const forced = yield* admin.releases.create({
            params,
            payload: { comparison_id: worse, force: true, reason: "For a demonstration." }
          })
          assert.strictEqual(forced.dataset_id, first)
        })
    )

    it.effect(
      "a candidate without any answer is refused without force, although the live release has none either",
      () =>
        Effect.gen(function* () {
          const { admin } = yield* createTeamClients("silent")
          const { params } = yield* createSortingTask(admin, ["a", "other"])
          const server = yield* startScriptedServer([{ status: 401, body: {} }])
          const provider = { kind: "openai", base_url: server.url, model: "small" } as const
          const silent = yield* compare(admin, params, { candidate: { provider } })
          yield* admin.releases.create({
            params,
            payload: { comparison_id: silent, force: true, reason: "For the next step." }
          })
          const again = yield* compare(admin, params, { candidate: { provider } })
          const refused = yield* Effect.flip(
            admin.releases.create({ params, payload: { comparison_id: again } })
          )
          assert.strictEqual(refused._tag, "CANDIDATE_LOST")
          assert.propertyVal(refused, "detail", "The candidate has no answer for any of the examples.")
        })
    )

    it.effect("the changes of a release are shown line by line and setting by setting", () =>
      Effect.gen(function* () {
        const { admin, reviewer } = yield* createTeamClients("changes")
        const { dataset, params, task } = yield* createSortingTask(admin, ["a", "other"])
        const provider = { kind: "examples", min_score: 0.5 } as const
        const comparison_id = yield* compare(admin, params, {
          candidate: { instructions: "Sort the message.\nBe brief about {{input.text}}.", provider }
        })
        const release = yield* admin.releases.create({
          params,
          payload: { comparison_id, force: true, reason: "For the changes." }
        })
        const expected: ReleaseChanges = {
          release_id: release.id,
          since: task.live_release_id,
          instructions: [
            { op: "same", text: "Sort the message." },
            { op: "added", text: "Be brief about {{input.text}}." }
          ],
          provider: [{ setting: "/min_score", before: 0, after: 0.5 }],
          dataset: { before: dataset.id, after: dataset.id }
        }
        const id = { id: release.id }
        assert.deepStrictEqual(yield* reviewer.releases.getChanges({ params: id, query: {} }), expected)
        const query = { since: task.live_release_id }
        assert.deepStrictEqual(yield* reviewer.releases.getChanges({ params: id, query }), expected)
        // The other way round, and a first release, of which everything is new.
        const back = yield* reviewer.releases.getChanges({
          params: { id: task.live_release_id },
          query: { since: release.id }
        })
        assert.deepStrictEqual(back.instructions.at(-1)?.op, "removed")
        const first = yield* reviewer.releases.getChanges({ params: { id: task.live_release_id }, query: {} })
        assert.isNull(first.since)
        assert.deepStrictEqual(first.instructions, [{ op: "added", text: "Sort the message." }])
        assert.includeDeepMembers(
          [...first.provider],
          [{ setting: "/model", before: null, after: "nearest" }]
        )

        const other = yield* createSortingTask(admin, ["a", "other"])
        const stranger = yield* createTeamClients("changes of others")
        for (const refused of [
          reviewer.releases.getChanges({ params: id, query: { since: other.task.live_release_id } }),
          stranger.admin.releases.getChanges({ params: id, query: {} })
        ]) {
          assert.strictEqual((yield* Effect.flip(refused))._tag, "NOT_FOUND")
        }
      })
    )

    it.effect("force without a reason is refused, naming the reason", () =>
      Effect.gen(function* () {
        const { admin } = yield* createTeamClients("no reason")
        const { params } = yield* createSortingTask(admin, ["a", "other"])
        const id = yield* compare(admin, params, {})
        const refused = yield* Effect.flip(
          admin.releases.create({ params, payload: { comparison_id: id, force: true } })
        )
        assert.strictEqual(refused._tag, "INVALID_REQUEST")
        assert.include(pointersOf(refused), "#/reason")
      })
    )
  }
)
