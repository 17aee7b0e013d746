import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { NewRun } from "../../../src/api/Tasks.ts"
import type { RunFilter } from "../../../src/api/Runs.ts"
import { OrgId, type RunId, type TaskId } from "../../../src/domain/Ids.ts"
import type { ClientCalls } from "../../../src/client/Client.ts"
import { StoredUsage } from "../../../src/server/identity/StoredUsage.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { deleteExpiredRuns } from "../../../src/server/tasks/deleteExpired.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { orgIdOf } from "../../support/deletion.ts"
import { tagOf } from "../../support/feedback.ts"
import { pointersOf, send, service } from "../../support/service.ts"
import { createSortingTask, createTeamClients, sortingTask } from "../../support/tasks.ts"

const answer = { category: "other" }

/** Creates a task without runs, and functions that log and list its runs. */
const createDesk = Effect.fnUntraced(function* (organization: string) {
  const { admin, reviewer, runtime } = yield* createTeamClients(organization)
  const { dataset, params, task } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
  const log = (text: string, more: Omit<NewRun, "input"> = { answer }) =>
    runtime.tasks.run({ params, payload: { input: { text }, ...more } })
  return { admin, reviewer, runtime, dataset, params, task, log, list: listOf(reviewer, task.id) }
})

/** Lists all pages of a task's runs, and returns the texts of their inputs. */
const listOf = (client: ClientCalls, task_id: TaskId) =>
  Effect.fnUntraced(function* (query: RunFilter & { readonly limit?: number } = {}) {
    const texts: Array<unknown> = []
    let cursor: RunId | null = null
    do {
      const page: { readonly runs: ReadonlyArray<{ readonly input: object }>; next_cursor: RunId | null } =
        yield* client.runs.list({
          params: { id: task_id },
          query: { ...query, ...(cursor === null ? {} : { cursor }) }
        })
      texts.push(...page.runs.map(({ input }) => Reflect.get(input, "text")))
      cursor = page.next_cursor
    } while (cursor !== null)
    return texts
  })

layer(service(), { excludeTestServices: true })("RunLog", (it) => {
  it.effect("a run can be read with everything that was logged of it", () =>
    Effect.gen(function* () {
      const { dataset, log, reviewer, task } = yield* createDesk("read")
      const run = yield* log("where is it", { metadata: { customer: "acme" } })
      const found = yield* reviewer.runs.get({ params: { id: run.trace_id } })
      const { created_by, duration_ms, examples, ...rest } = found
      assert.deepStrictEqual(examples, run.examples)
      assert.lengthOf(examples, 1)
      assert.strictEqual(created_by.name, "runtime")
      assert.isAtLeast(duration_ms ?? assert.fail("a duration"), 0)
      assert.deepStrictEqual(rest, {
        trace_id: run.trace_id,
        task_id: task.id,
        input: { text: "where is it" },
        answer: { category: "shipping" },
        release_id: task.live_release_id,
        dataset_id: dataset.id,
        source: "provider",
        status: "succeeded",
        failure: null,
        provider: "examples",
        model: "nearest",
        usage: { input_tokens: 0, output_tokens: 0 },
        provider_calls: 0,
        answer_repaired: false,
        started_at: null,
        created_at: run.created_at,
        session_id: null,
        metadata: { customer: "acme" },
        awaits_review: false
      })
    })
  )

  it.effect("a logged answer is stored with the model call that its caller reports, and with no other", () =>
    Effect.gen(function* () {
      const { log, reviewer } = yield* createDesk("reported")
      const started_at = DateTime.makeUnsafe("2026-11-20T10:00:00.123Z")
      const reported = yield* log("one", {
        answer,
        answered_by: {
          provider: "anthropic",
          model: "a-model",
          usage: { input_tokens: 12, output_tokens: 3 },
          started_at,
          duration_ms: 812.5
        }
      })
      assert.deepStrictEqual(reported.usage, { input_tokens: 12, output_tokens: 3 })
      const found = yield* reviewer.runs.get({ params: { id: reported.trace_id } })
      assert.strictEqual(found.source, "logged")
      assert.strictEqual(found.provider, "anthropic")
      assert.strictEqual(found.model, "a-model")
      assert.deepStrictEqual(found.usage, { input_tokens: 12, output_tokens: 3 })
      assert.strictEqual(found.duration_ms, 812.5)
      assert.deepStrictEqual(found.started_at, started_at)

      const bare = yield* log("two")
      const silent = yield* reviewer.runs.get({ params: { id: bare.trace_id } })
      assert.deepStrictEqual(
        [silent.provider, silent.model, silent.usage, silent.duration_ms, silent.started_at],
        [null, null, null, null, null]
      )
    })
  )

  it.effect("a reported model call without an answer is refused, naming the member", () =>
    Effect.gen(function* () {
      const { params, runtime } = yield* createDesk("no answer")
      const problem = yield* Effect.flip(
        runtime.tasks.run({ params, payload: { input: { text: "a" }, answered_by: { model: "m" } } })
      )
      assert.strictEqual(problem._tag, "INVALID_REQUEST")
      assert.deepStrictEqual(pointersOf(problem), ["#/answered_by"])
    })
  )

  it.effect("the same idempotency key with another reported model is a different request", () =>
    Effect.gen(function* () {
      const { params } = yield* createDesk("keyed report")
      const key = yield* (yield* Countersign).key({ preset: "runtime" }, "keyed report")
      const post = (model: string) =>
        send(`/v1/tasks/${params.id}/run`, {
          key,
          method: "POST",
          headers: { "idempotency-key": "one" },
          body: JSON.stringify({ input: { text: "a" }, answer, answered_by: { model } })
        })
      assert.strictEqual((yield* post("first")).status, 200)
      assert.strictEqual((yield* post("first")).status, 200)
      assert.strictEqual((yield* post("second")).body["code"], "IDEMPOTENCY_KEY_REUSED")
    })
  )

  it.effect("runs are listed newest first, in pages", () =>
    Effect.gen(function* () {
      const { list, log, params, reviewer } = yield* createDesk("pages")
      for (const text of ["a", "b", "c", "d", "e"]) yield* log(text)
      assert.deepStrictEqual(yield* list(), ["e", "d", "c", "b", "a"])
      assert.deepStrictEqual(yield* list({ limit: 2 }), ["e", "d", "c", "b", "a"])
      const { next_cursor, runs } = yield* reviewer.runs.list({ params, query: { limit: 2 } })
      assert.lengthOf(runs, 2)
      assert.isNotNull(next_cursor)
    })
  )

  it.effect("a page of large runs ends at 256 KiB, and the pages together have every run", () =>
    Effect.gen(function* () {
      const { list, log, params, reviewer } = yield* createDesk("large")
      const texts = ["a", "b", "c", "d"].map((letter) => letter.repeat(150_000))
      for (const text of texts) yield* log(text)
      const { runs } = yield* reviewer.runs.list({ params, query: {} })
      assert.lengthOf(runs, 1)
      assert.deepStrictEqual(yield* list(), texts.toReversed())
    })
  )

  it.effect("each filter, and each pair of filters, returns the runs that match", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, list, log, params, task } = yield* createDesk("filters")
      yield* log("answered parcel", {})
      yield* log("scored", { answer, metadata: { customer: "acme", tries: 1 } })
      yield* log("Praised", { answer, metadata: { customer: "acme", tries: 2 } })
      yield* log("failed", { answer, metadata: { customer: "other" } })
      // The service fails a run only if its provider does.
      yield* sql`
        UPDATE runs
        SET status = 'failed', answer = NULL, failure = 'The provider timed out.', source = 'provider'
        WHERE task_id = ${task.id}
          AND input ->> 'text' = 'failed'
      `
      const { runs } = yield* admin.runs.list({ params, query: {} })
      const idOf = (text: string) =>
        runs.find(({ input }) => input["text"] === text)?.trace_id ?? assert.fail(text)
      const score = (text: string, value: 1 | -1) =>
        admin.feedback.create({ payload: { inference_log_id: idOf(text), score: value } })
      yield* score("scored", -1)
      yield* score("scored", -1)
      yield* score("Praised", 1)

      const matches: ReadonlyArray<readonly [RunFilter, ReadonlyArray<string>]> = [
        [{ status: "failed" }, ["failed"]],
        [{ status: "succeeded" }, ["Praised", "scored", "answered parcel"]],
        [{ source: "logged" }, ["Praised", "scored"]],
        [{ source: "provider" }, ["failed", "answered parcel"]],
        [{ release_id: task.live_release_id }, ["failed", "answered parcel"]],
        [{ score: -1 }, ["scored"]],
        [{ score: 1 }, ["Praised"]],
        [{ score: 0 }, []],
        [{ has_feedback: true }, ["Praised", "scored"]],
        [{ has_feedback: false }, ["failed", "answered parcel"]],
        [{ metadata: { customer: "acme" } }, ["Praised", "scored"]],
        [{ metadata: { tries: 2 } }, ["Praised"]],
        [{ metadata: { tries: "2" } }, []],
        [{ metadata: { customer: "acme", tries: 1 } }, ["scored"]],
        [{ text: "praised" }, ["Praised"]],
        [{ text: "TIMED OUT" }, ["failed"]],
        [{ awaits_review: true }, []],
        [{ awaits_review: false }, ["failed", "Praised", "scored", "answered parcel"]]
      ]
      for (const [filter, texts] of matches) {
        assert.deepStrictEqual(yield* list(filter), [...texts], JSON.stringify(filter))
        for (const [other, others] of matches.slice(matches.findIndex((match) => match[0] === filter))) {
          const both = { ...filter, ...other }
          // A pair of the same filter is the second one.
          if (Object.keys(both).length === 1) continue
          assert.deepStrictEqual(
            yield* list({ ...both, limit: 1 }),
            texts.filter((text) => others.includes(text)),
            JSON.stringify(both)
          )
        }
      }
    })
  )

  it.effect("a range of time returns the runs of that time exactly", () =>
    Effect.gen(function* () {
      const { list, log, params, reviewer } = yield* createDesk("time")
      for (const text of ["a", "b", "c"]) yield* log(text)
      const { runs } = yield* reviewer.runs.list({ params, query: {} })
      const [, second] = runs
      const at = second?.created_at ?? assert.fail("a run")
      const before = runs.filter(({ created_at }) => DateTime.isLessThan(created_at, at))
      const rest = runs.filter(({ created_at }) => DateTime.isGreaterThanOrEqualTo(created_at, at))
      const texts = (list: typeof runs) => list.map(({ input }) => input["text"])
      assert.deepStrictEqual(yield* list({ created_before: at }), [...texts(before)])
      assert.deepStrictEqual(yield* list({ created_after: at }), texts(rest))
      assert.deepStrictEqual(
        yield* list({ created_after: at, created_before: DateTime.add(at, { milliseconds: 1 }) }),
        texts(runs.filter(({ created_at }) => DateTime.Equivalence(created_at, at)))
      )
    })
  )

  it.effect("a rare match among thousands of runs is found by continuing through pages without one", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { list, log, params, reviewer, task } = yield* createDesk("rare")
      yield* log("the needle")
      yield* log("hay")
      yield* sql`
        INSERT INTO runs (
          org_id, trace_id, run_id, task_id, release_id, source, status, input, answer, metadata, provider_calls, created_at,
          created_by_id, created_by_name, bytes
        )
        SELECT
          org_id, md5(n::text), left(run_id, 17) || 'f' || lpad(to_hex(n), 18, '0'), task_id, release_id, source, status, input, answer,
          metadata, provider_calls, created_at, created_by_id, created_by_name, bytes
        FROM runs, generate_series(1, 4500) AS n
        WHERE task_id = ${task.id}
          AND input ->> 'text' = 'hay'
      `
      const first = yield* reviewer.runs.list({ params, query: { text: "needle" } })
      assert.lengthOf(first.runs, 0)
      assert.isNotNull(first.next_cursor)
      assert.deepStrictEqual(yield* list({ text: "needle" }), ["the needle"])
    })
  )

  it.effect("a share of runs waits for review until someone gives feedback or dismisses them", () =>
    Effect.gen(function* () {
      const { admin, list, log, params, reviewer, task } = yield* createDesk("review")
      yield* log("before")
      yield* admin.tasks.update({ params, payload: { review_share: 1 } })
      const judged = yield* log("judged")
      const dismissed = yield* log("dismissed")
      yield* log("my parcel", {})
      assert.deepStrictEqual(yield* list({ awaits_review: true }), ["my parcel", "dismissed", "judged"])

      yield* reviewer.feedback.create({ payload: { inference_log_id: judged.trace_id, score: 1 } })
      yield* reviewer.runs.dismiss({ params: { id: dismissed.trace_id } })
      yield* reviewer.runs.dismiss({ params: { id: dismissed.trace_id } })
      assert.deepStrictEqual(yield* list({ awaits_review: true }), ["my parcel"])
      const read = yield* reviewer.runs.get({ params: { id: dismissed.trace_id } })
      assert.isFalse(read.awaits_review)
      const { entries } = yield* admin.auditLog.list({ query: { target_id: dismissed.trace_id } })
      assert.deepStrictEqual(
        entries.map(({ action, detail }) => [action, detail["task_id"]]),
        [["run.review_dismissed", task.id]]
      )

      yield* admin.tasks.update({ params, payload: { review_share: 0 } })
      yield* log("after")
      assert.deepStrictEqual(yield* list({ awaits_review: true }), ["my parcel"])
      assert.strictEqual((yield* admin.tasks.get({ params })).review_share, 0)
    })
  )

  it.effect("about the given share of runs is sampled", () =>
    Effect.gen(function* () {
      const { admin, list, log, params } = yield* createDesk("share")
      yield* admin.tasks.update({ params, payload: { review_share: 0.5 } })
      yield* Effect.forEach(
        Array.from({ length: 200 }, (_, index) => `${index}`),
        (text) => log(text),
        { concurrency: 20 }
      )
      const { length } = yield* list({ awaits_review: true })
      // Outside of 60 to 140 once in 10^8 runs of this test.
      assert.isTrue(length >= 60 && length <= 140, `${length}`)
    })
  )

  it.effect("a deleted run leaves nothing in the indexes of metadata and reviews", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, log, params, task } = yield* createDesk("deleted")
      yield* admin.tasks.update({ params, payload: { review_share: 1 } })
      const { trace_id } = yield* log("deleted", { answer, metadata: { customer: "acme" } })
      yield* log("expired", { answer, metadata: { customer: "acme" } })
      yield* admin.runs.import({
        params,
        payload: {
          runs: [
            {
              id: "imported",
              input: { text: "imported" },
              answer,
              created_at: yield* DateTime.now,
              metadata: { customer: "acme" }
            }
          ]
        }
      })
      const count = sql<{ readonly members: number; readonly reviews: number }>`
        SELECT
          (SELECT count(*)::int FROM run_metadata WHERE task_id = ${task.id}) AS members,
          (SELECT count(*)::int FROM run_reviews WHERE task_id = ${task.id}) AS reviews
      `
      assert.deepStrictEqual(yield* count, [{ members: 3, reviews: 2 }])
      yield* admin.runs.remove({ params: { id: trace_id } })
      assert.deepStrictEqual(yield* count, [{ members: 2, reviews: 1 }])
      const org_id = OrgId.make(yield* orgIdOf("deleted"))
      const now = yield* DateTime.now
      const expiry = { org_id, now, cutoff: DateTime.add(now, { days: 1 }) }
      yield* transaction(deleteExpiredRuns(sql, yield* StoredUsage, expiry))
      assert.deepStrictEqual(yield* count, [{ members: 0, reviews: 0 }])
    })
  )

  it.effect("keys without the scope runs.read, such as an agent's, read no runs", () =>
    Effect.gen(function* () {
      const { log, params, runtime } = yield* createDesk("scope")
      const { trace_id } = yield* log("a")
      assert.strictEqual(yield* tagOf(runtime.runs.list({ params, query: {} })), "INSUFFICIENT_SCOPE")
      assert.strictEqual(yield* tagOf(runtime.runs.get({ params: { id: trace_id } })), "INSUFFICIENT_SCOPE")
    })
  )

  it.effect("faulty filters are refused, naming the parameter", () =>
    Effect.gen(function* () {
      const { params } = yield* createDesk("faulty")
      const key = yield* (yield* Countersign).key({}, "faulty")
      for (const [name, value] of [
        ["metadata", "{}"],
        ["metadata", "no JSON"],
        ["metadata", '{"a":{"b":1}}'],
        ["text", ""],
        ["score", "2"],
        ["status", "running"],
        ["created_after", "yesterday"]
      ] as const) {
        const { body, errors, status } = yield* send(
          `/v1/tasks/${params.id}/runs?${new URLSearchParams({ [name]: value }).toString()}`,
          { key }
        )
        assert.strictEqual(status, 400, `${name}=${value}`)
        assert.strictEqual(body["code"], "INVALID_REQUEST")
        assert.include(errors[0]?.pointer, name)
      }
      const { admin } = yield* createTeamClients("faulty")
      const task = yield* Effect.flip(admin.tasks.create({ payload: { ...sortingTask, review_share: 2 } }))
      assert.deepStrictEqual(pointersOf(task), ["#/review_share"])
    })
  )
})
