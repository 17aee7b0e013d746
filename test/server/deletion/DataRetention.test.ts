import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type RunId, type SessionId, StepId, type TraceId, uuidTimePrefix } from "../../../src/domain/Ids.ts"
import { runOnce } from "../../../src/server/deletion/DataRetention.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { runOnce as eraseSpansOnce } from "../../../src/server/telemetry/eraseSpans.ts"
import { Spans } from "../../../src/server/telemetry/Spans.ts"
import { completed, inputsOf } from "../../support/deletion.ts"
import { eventually } from "../../support/eventually.ts"
import { createDesk, tagOf } from "../../support/feedback.ts"
import { startCollector } from "../../support/otlp/collector.ts"
import { storedRequests } from "../../support/otlp/storedRequests.ts"
import { pointersOf, service } from "../../support/service.ts"

/** Makes a run, its feedback or a session of the past look as old as this many days. */
const age = Effect.fnUntraced(function* (days: number) {
  const sql = yield* SqlClient.SqlClient
  const then = DateTime.subtract(yield* (yield* StoreClock).now, { days })
  const at = DateTime.toDateUtc(then)
  /** The id with its time replaced. */
  const aged = (id: string): string => {
    const [prefix = "", digits = ""] = id.split("_")
    return `${prefix}_${uuidTimePrefix(then)}${digits.slice(12)}`
  }
  return {
    run: Effect.fnUntraced(function* (trace_id: TraceId) {
      const [row] = yield* sql<{
        readonly run_id: RunId
      }>`SELECT run_id FROM runs WHERE trace_id = ${trace_id}`
      const run_id = aged(row?.run_id ?? assert.fail("no run"))
      yield* sql`UPDATE runs SET run_id = ${run_id}, created_at = ${at} WHERE trace_id = ${trace_id}`
      yield* sql`UPDATE feedback SET run_id = ${run_id} WHERE trace_id = ${trace_id}`
    }),
    feedback: Effect.fnUntraced(function* (id: string) {
      yield* sql`UPDATE feedback SET feedback_id = ${aged(id)}, created_at = ${at} WHERE feedback_id = ${id}`
      yield* sql`UPDATE dataset_examples SET source_feedback_id = ${aged(id)} WHERE source_feedback_id = ${id}`
    }),
    session: Effect.fnUntraced(function* (id: string) {
      const session_id = aged(id)
      yield* sql`UPDATE agent_sessions SET session_id = ${session_id}, created_at = ${at} WHERE session_id = ${id}`
      for (const table of ["session_events", "governed_steps", "approvals"]) {
        yield* sql`UPDATE ${sql(table)} SET session_id = ${session_id} WHERE session_id = ${id}`
      }
      return session_id
    }),
    events: (session_id: string) =>
      sql`UPDATE session_events SET occurred_at = ${at} WHERE session_id = ${session_id}`
  }
})

layer(service(), { excludeTestServices: true })("Retention of data", (it) => {
  it.effect("settings are validated, replaced by revision, and audited", () =>
    Effect.gen(function* () {
      const { admin, reviewer } = yield* createDesk("retention settings")
      assert.deepStrictEqual(yield* admin.retentionSettings.get(), {
        run_days: null,
        feedback_days: null,
        session_days: null,
        revision: 0
      })
      const stored = yield* admin.retentionSettings.replace({ payload: { run_days: 30, revision: 0 } })
      assert.deepStrictEqual(stored, { run_days: 30, feedback_days: null, session_days: null, revision: 1 })
      const conflict = yield* Effect.flip(
        admin.retentionSettings.replace({ payload: { run_days: 60, revision: 0 } })
      )
      assert.deepInclude(conflict, { _tag: "RETENTION_SETTINGS_CHANGED", current_revision: 1 })
      for (const run_days of [0, 1.5, 3_651]) {
        const invalid = yield* Effect.flip(admin.retentionSettings.replace({ payload: { run_days } }))
        assert.deepStrictEqual(pointersOf(invalid), ["#/run_days"])
      }
      assert.strictEqual(
        yield* tagOf(reviewer.retentionSettings.replace({ payload: {} })),
        "INSUFFICIENT_SCOPE"
      )
      const { entries } = yield* admin.auditLog.list({ query: { action: "retention_settings.replaced" } })
      assert.deepStrictEqual(
        entries.map(({ detail }) => detail),
        [stored]
      )
      yield* admin.retentionSettings.replace({ payload: {} })
    })
  )

  it.effect("the spans of expired runs are removed from the batches that can be replayed", () =>
    Effect.gen(function* () {
      const { admin, run } = yield* createDesk("expired spans")
      const collector = yield* startCollector({ status: 400 })
      const { id } = yield* admin.telemetryDestinations.create({
        payload: { url: `${collector.url}/v1/traces`, content: true }
      })
      const expired = yield* run("narwhal")
      yield* run("beluga")
      yield* Effect.flatMap(Spans, ({ flush }) => flush)
      yield* eventually(
        admin.telemetryDestinations.listDeliveries({ params: { id } }),
        ({ deliveries }) => deliveries.length > 0 && deliveries.every(({ status }) => status === "failed")
      )
      assert.include(yield* storedRequests, "narwhal")
      yield* (yield* age(40)).run(expired)
      yield* admin.retentionSettings.replace({ payload: { run_days: 30 } })
      yield* runOnce()
      yield* eventually(Effect.andThen(eraseSpansOnce(), storedRequests), (text) => !text.includes("narwhal"))
      assert.include(yield* storedRequests, "beluga")
    }).pipe(Effect.scoped)
  )

  it.effect("expired runs and feedback are deleted; staged corrections, examples and counts stay", () =>
    Effect.gen(function* () {
      const { admin, correct, integration, params, run, stage } = yield* createDesk("expired runs")
      const other = yield* createDesk("no retention")
      const old = yield* age(40)
      const plain = yield* run("expired")
      const recent = yield* run("recent")
      const staged = yield* run("expired and staged")
      const pending = yield* run("expired and pending")
      const promoted = yield* run("expired and promoted")
      const foreign = yield* other.run("expired elsewhere")
      yield* integration.feedback.create({ payload: { inference_log_id: plain, score: 1 } })
      const promotedFeedback = yield* correct(promoted, { category: "billing" })
      yield* stage(promotedFeedback.id)
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
      const stagedFeedback = yield* correct(staged, { category: "billing" })
      yield* stage(stagedFeedback.id)
      yield* correct(pending, { category: "billing" })
      for (const trace_id of [plain, staged, pending, promoted, foreign]) yield* old.run(trace_id)
      const sum = Effect.map(admin.feedback.getQuality({ params, query: {} }), ({ releases }) =>
        releases.reduce((total, { negative, positive }) => total + negative + positive, 0)
      )
      assert.strictEqual(yield* sum, 4)

      yield* admin.retentionSettings.replace({ payload: { run_days: 30 } })
      const { removed } = yield* runOnce()
      assert.deepStrictEqual(removed, { runs: 3, feedback: 3, sessions: 0 })
      for (const trace_id of [plain, pending, promoted]) {
        assert.strictEqual(yield* tagOf(admin.runs.get({ params: { id: trace_id } })), "NOT_FOUND")
      }
      for (const trace_id of [recent, staged]) yield* admin.runs.get({ params: { id: trace_id } })
      yield* other.admin.runs.get({ params: { id: foreign } })
      yield* admin.feedback.get({ params: { id: stagedFeedback.id } })
      assert.include(yield* inputsOf(admin, dataset.id), "expired and promoted")
      assert.strictEqual(yield* sum, 4, "the counts stay")
      assert.deepStrictEqual((yield* runOnce()).removed, { runs: 0, feedback: 0, sessions: 0 })

      // No longer staged, so it goes with the next run.
      yield* admin.feedback.unstage({ params: { id: stagedFeedback.id } })
      assert.deepStrictEqual((yield* runOnce()).removed, { runs: 1, feedback: 1, sessions: 0 })
      yield* admin.retentionSettings.replace({ payload: {} })
    })
  )

  it.effect("an organization whose records cannot be deleted does not stop the others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const old = yield* age(40)
      const broken = yield* createDesk("broken retention")
      const other = yield* createDesk("working retention")
      const runs = [yield* broken.run("kept"), yield* other.run("deleted")] as const
      for (const trace_id of runs) yield* old.run(trace_id)
      for (const { admin } of [broken, other]) {
        yield* admin.retentionSettings.replace({ payload: { run_days: 30 } })
      }
      yield* sql`
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'damaged page'; END $$
      `
      yield* sql`
        CREATE TRIGGER refuse BEFORE DELETE ON runs FOR EACH ROW
        WHEN (OLD.trace_id = ${sql.literal(`'${runs[0]}'`)}) EXECUTE FUNCTION refuse()
      `
      const run = yield* runOnce()
      assert.deepStrictEqual(run, {
        removed: { runs: 1, feedback: 0, sessions: 0 },
        more: true,
        isFailed: true
      })
      yield* sql`DROP TRIGGER refuse ON runs`
      assert.deepStrictEqual(yield* runOnce(), {
        removed: { runs: 1, feedback: 0, sessions: 0 },
        more: false,
        isFailed: false
      })
      for (const { admin } of [broken, other]) yield* admin.retentionSettings.replace({ payload: {} })
    })
  )

  it.effect(
    "feedback can expire before its run, and an erasure still finds the example of its correction",
    () =>
      Effect.gen(function* () {
        const { admin, correct, params, stage } = yield* createDesk("expired feedback")
        const old = yield* age(20)
        const { trace_id } = yield* admin.tasks.run({
          params,
          payload: {
            input: { text: "of a person" },
            answer: { category: "other" },
            metadata: { customer: "c-1", plan: "gold" }
          }
        })
        const { id } = yield* correct(trace_id, { category: "billing" })
        yield* stage(id)
        const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
          params,
          query: {}
        })
        const { dataset } = yield* admin.feedback.promote({
          params,
          payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
        })
        yield* old.feedback(id)
        yield* old.run(trace_id)

        yield* admin.retentionSettings.replace({ payload: { feedback_days: 10 } })
        assert.deepStrictEqual((yield* runOnce()).removed, { runs: 0, feedback: 1, sessions: 0 })
        yield* admin.runs.get({ params: { id: trace_id } })
        yield* admin.retentionSettings.replace({ payload: { run_days: 10 } })
        assert.deepStrictEqual((yield* runOnce()).removed, { runs: 1, feedback: 0, sessions: 0 })
        yield* admin.retentionSettings.replace({ payload: {} })
        assert.include(yield* inputsOf(admin, dataset.id), "of a person")

        const erasure = yield* admin.deletions.erase({
          payload: { metadata_key: "customer", metadata_value: "c-1" }
        })
        const { deleted } = yield* completed(admin, erasure.id)
        assert.deepStrictEqual(deleted, { runs: 0, feedback: 0, examples: 1, sessions: 0 })
        assert.notInclude(yield* inputsOf(admin, dataset.id), "of a person")
      })
  )

  it.effect("recent feedback and staged corrections stay when feedback expires", () =>
    Effect.gen(function* () {
      const { admin, correct, run, stage } = yield* createDesk("expired and recent feedback")
      const old = yield* age(20)
      const recent = yield* correct(yield* run("recent"), { category: "billing" })
      const expired = yield* correct(yield* run("expired"), { category: "billing" })
      const trace_id = yield* run("expired and staged")
      yield* stage((yield* correct(trace_id, { category: "billing" })).id)
      const { feedback } = yield* admin.feedback.list({ query: { status: "staged" } })
      for (const { id } of [expired, ...feedback]) yield* old.feedback(id)
      yield* admin.retentionSettings.replace({ payload: { feedback_days: 10 } })
      assert.deepStrictEqual((yield* runOnce()).removed, { runs: 0, feedback: 1, sessions: 0 })
      yield* admin.retentionSettings.replace({ payload: {} })
      const left = yield* admin.feedback.list({ query: {} })
      assert.deepStrictEqual(
        left.feedback.map(({ id, inference_log_id }) => [id === recent.id, inference_log_id === trace_id]),
        [
          [true, false],
          [false, true]
        ]
      )
    })
  )

  it.effect("an example whose feedback has expired is still erased with its end user", () =>
    Effect.gen(function* () {
      const { admin, dataset: first, integration, params, run, stage } = yield* createDesk("expired end user")
      const old = yield* age(20)
      const end_user_id = "customer-4711"
      const { id } = yield* integration.feedback.create({
        payload: {
          inference_log_id: yield* run("of an end user"),
          score: -1,
          correction: { category: "billing" },
          end_user_id
        }
      })
      yield* stage(id)
      const { feedback_revision } = yield* admin.feedback.previewPromotion({ params, query: {} })
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id: first.id, expected_feedback_revision: feedback_revision }
      })
      yield* old.feedback(id)
      yield* admin.retentionSettings.replace({ payload: { feedback_days: 10 } })
      assert.deepStrictEqual((yield* runOnce()).removed, { runs: 0, feedback: 1, sessions: 0 })
      yield* admin.retentionSettings.replace({ payload: {} })
      assert.include(yield* inputsOf(admin, dataset.id), "of an end user")

      const erasure = yield* admin.deletions.erase({ payload: { end_user_id } })
      const { deleted } = yield* completed(admin, erasure.id)
      assert.deepStrictEqual(deleted, { runs: 0, feedback: 0, examples: 1, sessions: 0 })
      assert.notInclude(yield* inputsOf(admin, dataset.id), "of an end user")
    })
  )

  it.effect(
    "one run deletes several transactions' worth of each kind, and says if expired records are left",
    () =>
      Effect.gen(function* () {
        const { admin, params, run } = yield* createDesk("many expired")
        const sql = yield* SqlClient.SqlClient
        const recent = yield* run("recent")
        const at = DateTime.subtract(yield* (yield* StoreClock).now, { days: 40 })
        const created_at = DateTime.toDateUtc(at)
        // A transaction deletes 200 runs or 1,000 records of feedback, and one run makes 20 transactions of a kind.
        yield* sql`
        INSERT INTO runs (
          org_id, trace_id, run_id, task_id, release_id, source, status, input, metadata, provider_calls, created_at,
          created_by_id, created_by_name, bytes
        )
        SELECT
          org_id, md5('many' || n), ${`run_${uuidTimePrefix(at)}`} || substr(md5(n::text), 13), task_id, release_id, source,
          status, input, metadata, 0, ${created_at}, created_by_id, created_by_name, bytes
        FROM runs, generate_series(1, 4001) AS n
        WHERE trace_id = ${recent}
      `
        yield* sql`
        INSERT INTO feedback (
          org_id, feedback_id, task_id, trace_id, run_id, score, bytes, status, created_at, created_by_id, created_by_name, author
        )
        SELECT
          org_id, ${`fbk_${uuidTimePrefix(at)}`} || substr(md5(n::text), 13), task_id, trace_id, run_id, 1, 0, 'recorded',
          ${created_at}, created_by_id, created_by_name, 'author_' || n
        FROM runs, generate_series(1, 1001) AS n
        WHERE trace_id = ${recent}
      `
        yield* admin.retentionSettings.replace({ payload: { feedback_days: 10 } })
        assert.deepStrictEqual(yield* runOnce(), {
          removed: { runs: 0, feedback: 1_001, sessions: 0 },
          more: false,
          isFailed: false
        })
        yield* admin.retentionSettings.replace({ payload: { run_days: 30 } })
        assert.deepStrictEqual(yield* runOnce(), {
          removed: { runs: 4_000, feedback: 0, sessions: 0 },
          more: true,
          isFailed: false
        })
        assert.deepStrictEqual(yield* runOnce(), {
          removed: { runs: 1, feedback: 0, sessions: 0 },
          more: false,
          isFailed: false
        })
        const { runs } = yield* admin.runs.list({ params, query: {} })
        assert.deepStrictEqual(
          runs.map(({ trace_id }) => trace_id),
          [recent]
        )
        yield* admin.retentionSettings.replace({ payload: {} })
      })
  )

  it.effect("a session expires with its last event, unless an approval of it is pending", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin } = yield* createDesk("expired sessions")
      const old = yield* age(40)
      const open = Effect.map(admin.sessions.create({ payload: {} }), ({ session_id }) => session_id)
      const step = (id: SessionId) =>
        admin.sessions.step({
          params: { id },
          payload: { step_id: StepId.make("one"), tool: "pay", action_class: "write" }
        })
      const idle = yield* open
      const waiting = yield* open
      const active = yield* open
      const closed = yield* open
      yield* step(waiting)
      yield* step(active)
      yield* admin.sessions.close({ params: { id: active } })
      yield* step(closed)
      yield* admin.sessions.close({ params: { id: closed } })
      const aged = yield* Effect.forEach([idle, waiting, active, closed], old.session)
      yield* old.events(aged[1] ?? "")
      yield* old.events(aged[3] ?? "")
      yield* sql`UPDATE agent_sessions SET closed_at = created_at WHERE session_id = ${aged[3] ?? ""}`

      yield* admin.retentionSettings.replace({ payload: { session_days: 30 } })
      assert.deepStrictEqual((yield* runOnce()).removed, { runs: 0, feedback: 0, sessions: 2 })
      const { sessions } = yield* admin.sessions.list({ query: {} })
      assert.sameMembers(
        sessions.map(({ session_id }): string => session_id),
        [aged[1] ?? "", aged[2] ?? ""]
      )
      const [left] = yield* sql`
        SELECT
          (SELECT count(*)::int FROM session_events WHERE session_id = ${aged[3] ?? ""}) AS events,
          (SELECT count(*)::int FROM governed_steps WHERE session_id = ${aged[3] ?? ""}) AS steps,
          (SELECT count(*)::int FROM approvals WHERE session_id = ${aged[3] ?? ""}) AS approvals
      `
      assert.deepStrictEqual(left, { events: 0, steps: 0, approvals: 0 })
      yield* admin.retentionSettings.replace({ payload: {} })
    })
  )
})
