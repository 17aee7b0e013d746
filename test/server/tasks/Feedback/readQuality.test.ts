import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId } from "../../../../src/domain/Ids.ts"
import { countRows } from "../../../support/counts.ts"
import { orgIdOf } from "../../../support/deletion.ts"
import { createTeamClients, createSortingTask } from "../../../support/tasks.ts"
import { service } from "../../../support/service.ts"

layer(service(), { excludeTestServices: true })("Feedback › quality", (it) => {
  it.effect("feedback is counted by release and day, apart from that on logged answers", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin } = yield* createTeamClients("quality")
      const { params, task } = yield* createSortingTask(admin, ["a", "other"])
      const quality = (days?: number) =>
        admin.feedback.getQuality({ params, query: days === undefined ? {} : { days } })
      assert.deepStrictEqual(yield* quality(), { releases: [], days: [] })

      const run = (payload: { readonly answer?: { readonly category: string } } = {}) =>
        admin.tasks.run({ params, payload: { input: { text: "a" }, ...payload } })
      let users = 0
      const score = (inference_log_id: string, value: 1 | 0 | -1) =>
        admin.feedback.create({ payload: { inference_log_id, score: value, end_user_id: `user ${users++}` } })
      const first = yield* run()
      const logged = yield* run({ answer: { category: "other" } })
      yield* Effect.all(
        [
          ...[1, 1, 1, 0, -1].map((value) => score(first.trace_id, value === 1 ? 1 : value === 0 ? 0 : -1)),
          score(logged.trace_id, -1)
        ],
        { concurrency: "unbounded" }
      )
      const earlier = yield* score(first.trace_id, -1)
      // As if this one had been given two days before.
      yield* admin.feedback.remove({ params: { id: earlier.id } })
      yield* sql`
        INSERT INTO feedback (
          org_id, feedback_id, task_id, trace_id, run_id, release_id, score, bytes, status, created_at, created_by_id, created_by_name,
          author
        )
        SELECT
          org_id, ${earlier.id}, task_id, trace_id, run_id, release_id, 1, 0, 'recorded', now() - interval '2 days', 'key', 'a key', 'key'
        FROM runs
        WHERE trace_id = ${first.trace_id}
      `
      yield* countRows(OrgId.make(yield* orgIdOf("quality")))
      const today = DateTime.formatIsoDateUtc(earlier.created_at)
      const before = DateTime.formatIsoDateUtc(DateTime.subtract(earlier.created_at, { days: 2 }))
      const found = yield* quality()
      assert.sameDeepMembers(
        [...found.days],
        [
          {
            day: today,
            release_id: task.live_release_id,
            positive: 3,
            neutral: 1,
            negative: 1,
            score_mean: 0.4
          },
          { day: today, release_id: null, positive: 0, neutral: 0, negative: 1, score_mean: -1 },
          {
            day: before,
            release_id: task.live_release_id,
            positive: 1,
            neutral: 0,
            negative: 0,
            score_mean: 1
          }
        ]
      )
      const total = found.releases.find(({ release_id }) => release_id === task.live_release_id)
      assert.deepStrictEqual(
        [total?.positive, total?.neutral, total?.negative, total?.first_day, total?.last_day],
        [4, 1, 1, before, today]
      )
      assert.closeTo(total?.positive_share?.value ?? 0, 4 / 6, 1e-9)
      assert.isBelow(total?.positive_share?.low ?? 1, 4 / 6)
      assert.isTrue((yield* quality(2)).days.every(({ day }) => day === today))
    })
  )

  it.effect("the counts are those of the stored feedback, after concurrent requests and deletions", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("exact")
      const { params, task } = yield* createSortingTask(admin, ["a", "other"])
      const runs = yield* Effect.replicateEffect(
        admin.tasks.run({ params, payload: { input: { text: "a" } } }),
        3
      )
      const given = yield* Effect.forEach(
        Array.from({ length: 300 }, (_, index) => index),
        (index) =>
          admin.feedback.create({
            payload: {
              inference_log_id: runs[index % 3]?.trace_id ?? "",
              score: index % 2 === 0 ? 1 : -1,
              end_user_id: `user ${index}`
            }
          }),
        { concurrency: 40 }
      )
      const remove = (score: number) =>
        Effect.forEach(
          given.filter((one) => one.score === score),
          ({ id }) => admin.feedback.remove({ params: { id } }),
          { concurrency: 40, discard: true }
        )
      const counts = Effect.map(admin.feedback.getQuality({ params, query: {} }), ({ releases }) =>
        releases.map(({ negative, positive, release_id }) => [release_id, positive, negative])
      )
      assert.deepStrictEqual(yield* counts, [[task.live_release_id, 150, 150]])
      yield* remove(1)
      assert.deepStrictEqual(yield* counts, [[task.live_release_id, 0, 150]])
      yield* remove(-1)
      assert.deepStrictEqual(yield* counts, [])
    })
  )
})
