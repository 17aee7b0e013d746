import { assert, layer } from "@effect/vitest"
import { DateTime, Deferred, Effect, Exit, Fiber, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { type DatasetId, OrgId, StepId } from "../../../src/domain/Ids.ts"
import { Deletions } from "../../../src/server/deletion/Deletions.ts"
import { StoredUsage } from "../../../src/server/identity/StoredUsage.ts"
import { StoreClock } from "../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Datasets } from "../../../src/server/tasks/Datasets.ts"
import { acquireDatasetLock } from "../../../src/server/tasks/Datasets/datasetLock.ts"
import { deleteExamplesOfVersion, eraseExamplesOfSubject } from "../../../src/server/tasks/deletionSteps.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { tokenize } from "../../../src/domain/tasks/tokenize.ts"
import { databaseAsText } from "../../support/databaseAsText.ts"
import { completed, inputsOf, orgIdOf, recomputedDigest, rowsOfTask } from "../../support/deletion.ts"
import { eventually } from "../../support/eventually.ts"
import { createDesk, tagOf } from "../../support/feedback.ts"
import { send, service } from "../../support/service.ts"
import { createSortingTask, sortingExamples } from "../../support/tasks.ts"

/** The counted size of what an organization stores. */
const sizeOf = (organization: string) =>
  Effect.gen(function* () {
    const { bytes } = yield* (yield* StoredUsage).read(OrgId.make(yield* orgIdOf(organization)))
    return bytes
  })

layer(service(), { excludeTestServices: true })("Deletions", (it) => {
  it.effect("a deleted task gets 404 at once with everything of it, and a worker deletes every row", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, run, stage, task } = yield* createDesk("delete a task")
      const other = yield* createSortingTask(admin, ["kept example", "other"])
      const keptRun = yield* admin.tasks.run({
        params: other.params,
        payload: { input: { text: "kept run" }, answer: { category: "other" }, metadata: { customer: "a" } }
      })
      const trace_id = yield* run("pangolin")
      const { id } = yield* correct(trace_id, { category: "billing" })
      yield* stage(id)
      const { comparison } = yield* admin.comparisons.create({ params, payload: {} })
      const before = yield* rowsOfTask(other.task.id)

      const deletion = yield* admin.tasks.remove({ params })
      assert.deepInclude(deletion, { kind: "task", target_id: task.id, status: "running" })
      assert.strictEqual(yield* tagOf(admin.tasks.get({ params })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(admin.tasks.remove({ params })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(admin.runs.get({ params: { id: trace_id } })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(admin.feedback.get({ params: { id } })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(admin.feedback.unstage({ params: { id } })), "NOT_FOUND")
      assert.strictEqual(yield* tagOf(admin.datasets.get({ params: { id: dataset.id } })), "NOT_FOUND")
      assert.strictEqual(
        yield* tagOf(admin.comparisons.get({ params: { id: comparison.id }, query: {} })),
        "NOT_FOUND"
      )
      const { feedback } = yield* admin.feedback.list({ query: {} })
      assert.deepStrictEqual(feedback, [])

      const done = yield* completed(admin, deletion.id)
      assert.deepStrictEqual(done.deleted, { runs: 1, feedback: 1, examples: 1, sessions: 0 })
      assert.deepStrictEqual(yield* rowsOfTask(task.id), {})
      assert.notInclude(yield* databaseAsText, "pangolin")
      // Nothing else was deleted.
      assert.deepStrictEqual(yield* rowsOfTask(other.task.id), before)
      assert.strictEqual(
        (yield* admin.runs.get({ params: { id: keptRun.trace_id } })).trace_id,
        keptRun.trace_id
      )
    })
  )

  it.effect(
    "what a run in progress logs after its task was deleted is deleted when the deletion is repeated",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { admin, params, run, task } = yield* createDesk("late run")
        const trace_id = yield* run("late")
        const [row] = yield* sql<{ readonly row: string }>`
        SELECT to_json(runs)::text AS row FROM runs WHERE trace_id = ${trace_id}
      `
        const deletion = yield* admin.tasks.remove({ params })
        yield* completed(admin, deletion.id)
        yield* sql`INSERT INTO runs SELECT * FROM json_populate_record(NULL::runs, ${row?.row ?? ""}::json)`
        assert.strictEqual(yield* tagOf(admin.runs.get({ params: { id: trace_id } })), "NOT_FOUND")
        assert.deepStrictEqual(yield* rowsOfTask(task.id), { runs: 1 })

        // It is repeated once the runs that were in progress have been logged.
        const repeated = yield* sql`
          UPDATE deletions
          SET due_at = now()
          WHERE deletion_id = ${deletion.id}
            AND due_at > now() + interval '10 minutes'
          RETURNING 1 AS moved
        `
        assert.lengthOf(repeated, 1)
        // The worker may be at it already.
        const [state] = yield* eventually(
          sql`SELECT status, due_at FROM deletions WHERE deletion_id = ${deletion.id}`,
          ([found]) => found?.["due_at"] === null
        )
        assert.deepStrictEqual(state, { status: "completed", due_at: null })
        assert.deepStrictEqual(yield* rowsOfTask(task.id), {})
      })
  )

  it.effect("a dataset version in use is not deleted; another one is, and the rest keep their examples", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { admin, dataset: first, params } = yield* createDesk("delete a version")
      const second = yield* admin.datasets.create({
        params,
        payload: { base_dataset_id: first.id, examples: sortingExamples(["ibex chamois", "other"]) }
      })
      // Replaces the first version's example too, which that version keeps.
      const third = yield* admin.datasets.create({
        params,
        payload: {
          base_dataset_id: second.id,
          examples: sortingExamples(["marmot", "other"], ["where is my parcel", "billing"]),
          remove_inputs: [{ text: "ibex chamois" }]
        }
      })
      const remove = (id: typeof first.id) => admin.datasets.remove({ params: { id } })
      assert.strictEqual(yield* tagOf(remove(first.id)), "DATASET_IN_USE")
      assert.strictEqual(yield* tagOf(remove(third.id)), "DATASET_IN_USE")
      const stranger = yield* (yield* Countersign).client({}, "a stranger")
      assert.strictEqual(yield* tagOf(stranger.datasets.remove({ params: { id: second.id } })), "NOT_FOUND")

      const deletion = yield* remove(second.id)
      assert.strictEqual(yield* tagOf(admin.datasets.get({ params: { id: second.id } })), "NOT_FOUND")
      const done = yield* completed(admin, deletion.id)
      assert.deepStrictEqual(done.deleted, { runs: 0, feedback: 0, examples: 1, sessions: 0 })
      assert.notInclude(yield* databaseAsText, "chamois")
      assert.deepStrictEqual(yield* inputsOf(admin, first.id), ["where is my parcel"])
      assert.deepStrictEqual(yield* inputsOf(admin, third.id), ["marmot", "where is my parcel"])
      for (const version of [first, third]) {
        assert.strictEqual(yield* recomputedDigest(admin, version.id), version.content_digest)
      }
      const { datasets } = yield* admin.datasets.list({ params, query: {} })
      assert.deepStrictEqual(
        datasets.map(({ version }) => version),
        [3, 1]
      )
      const words = yield* sql`SELECT word FROM dataset_postings WHERE task_id = ${params.id}`
      const tokens = new Set(["where is my parcel", "marmot"].flatMap((text) => tokenize({ text })))
      assert.lengthOf(words, tokens.size)
    })
  )

  it.effect("a release whose dataset version was deleted cannot be restored", () =>
    Effect.gen(function* () {
      const { admin, dataset: first, params, task } = yield* createDesk("restore without a dataset")
      const second = yield* admin.datasets.create({
        params,
        payload: { base_dataset_id: first.id, examples: sortingExamples(["two", "other"]) }
      })
      const { comparison } = yield* admin.comparisons.create({
        params,
        payload: { candidate: { dataset_id: second.id } }
      })
      assert.strictEqual(yield* tagOf(admin.datasets.remove({ params: { id: second.id } })), "DATASET_IN_USE")
      yield* eventually(
        admin.comparisons.get({ params: { id: comparison.id }, query: {} }),
        (found) => found.comparison.status === "completed"
      )
      yield* admin.releases.create({
        params,
        payload: { comparison_id: comparison.id, force: true, reason: "test" }
      })
      yield* completed(admin, (yield* admin.datasets.remove({ params: { id: first.id } })).id)
      assert.strictEqual(
        yield* tagOf(admin.releases.create({ params, payload: { release_id: task.live_release_id } })),
        "NOT_FOUND"
      )
    })
  )

  it.effect("an erasure deletes all data of a subject, and nothing else; a second one finds nothing", () =>
    Effect.gen(function* () {
      const { admin, correct, params, stage } = yield* createDesk("erase")
      const countersign = yield* Countersign
      const stranger = yield* countersign.client({}, "erase elsewhere")
      const elsewhere = yield* createSortingTask(stranger, ["a", "other"])
      const log = (client: typeof admin, at: typeof params, text: string, metadata: object) =>
        client.tasks.run({
          params: at,
          payload: { input: { text }, answer: { category: "other" }, metadata: { ...metadata } }
        })
      // The index of metadata has the first 16 members only.
      const many = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`member_${index}`, index]))
      const subjectRun = yield* log(admin, params, "axolotl one", { customer: "acme", more: 1 })
      yield* log(admin, params, "axolotl two", { ...many, customer: "acme" })
      const kept = yield* log(admin, params, "kept one", { customer: "acme2" })
      yield* log(admin, params, "kept two", { other: "acme" })
      const foreign = yield* log(stranger, elsewhere.params, "foreign", { customer: "acme" })
      const { id } = yield* correct(subjectRun.trace_id, { category: "billing" })
      yield* stage(id)
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
      const openSession = (metadata: Record<string, string>) =>
        admin.sessions.create({ payload: { metadata } })
      const session = yield* openSession({ customer: "acme" })
      yield* admin.sessions.step({
        params: { id: session.session_id },
        payload: {
          step_id: StepId.make("one"),
          tool: "pay",
          action_class: "write",
          arguments: { to: "axolotl three" }
        }
      })
      const keptSession = yield* openSession({ customer: "acme2" })
      const nextStep = { step_id: StepId.make("two"), tool: "pay", action_class: "write", arguments: {} }

      const payload = { metadata_key: "customer", metadata_value: "acme" }
      const erasure = yield* admin.deletions.erase({ payload })
      const done = yield* completed(admin, erasure.id)
      assert.deepStrictEqual(done.deleted, { runs: 2, feedback: 1, examples: 1, sessions: 1 })
      const text = yield* databaseAsText
      assert.notInclude(text, "axolotl")
      assert.notInclude(text, '"acme"')
      assert.strictEqual(
        yield* tagOf(admin.sessions.get({ params: { id: session.session_id } })),
        "NOT_FOUND"
      )
      const step = admin.sessions.step({ params: { id: session.session_id }, payload: nextStep })
      assert.strictEqual(yield* tagOf(step), "NOT_FOUND")
      assert.strictEqual(yield* recomputedDigest(admin, dataset.id), dataset.content_digest)
      const { body } = yield* send(`/v1/datasets/${dataset.id}/export`, {
        key: yield* countersign.key({}, "erase")
      })
      assert.notInclude(JSON.stringify(body), "axolotl")

      yield* admin.runs.get({ params: { id: kept.trace_id } })
      yield* admin.sessions.get({ params: { id: keptSession.session_id } })
      yield* stranger.runs.get({ params: { id: foreign.trace_id } })
      const { runs } = yield* admin.runs.list({ params, query: {} })
      assert.lengthOf(runs, 2)

      const again = yield* completed(admin, (yield* admin.deletions.erase({ payload })).id)
      assert.deepStrictEqual(again.deleted, { runs: 0, feedback: 0, examples: 0, sessions: 0 })
      assert.strictEqual(yield* tagOf(stranger.deletions.get({ params: { id: erasure.id } })), "NOT_FOUND")
      const { deletions } = yield* admin.deletions.list({ query: {} })
      assert.deepStrictEqual(
        deletions.map(({ id }) => id),
        [again.id, erasure.id]
      )
      const { entries } = yield* admin.auditLog.list({ query: { action: "erasure.requested" } })
      assert.deepStrictEqual(entries[0]?.detail, {
        metadata_key: "customer",
        metadata_digest: erasure.metadata_digest
      })
    })
  )

  it.effect("an erasure finds the runs of its subject in every task", () =>
    Effect.gen(function* () {
      const { admin, params } = yield* createDesk("erase in tasks")
      const second = yield* createSortingTask(admin, ["a", "other"])
      const third = yield* createSortingTask(admin, ["a", "other"])
      for (const at of [params, second.params, third.params]) {
        yield* admin.tasks.run({
          params: at,
          payload: { input: { text: "a" }, answer: { category: "other" }, metadata: { customer: "acme" } }
        })
      }
      const payload = { metadata_key: "customer", metadata_value: "acme" }
      const { deleted } = yield* completed(admin, (yield* admin.deletions.erase({ payload })).id)
      assert.deepStrictEqual(deleted, { runs: 3, feedback: 0, examples: 0, sessions: 0 })
    })
  )

  it.effect(
    "the erasure of an end user deletes their feedback and what their corrections became, and nothing else",
    () =>
      Effect.gen(function* () {
        const desk = yield* createDesk("erase an end user")
        const { admin, integration, params, stage } = desk
        const stranger = yield* createDesk("erase an end user elsewhere")
        const second = yield* createSortingTask(admin, ["second", "other"])
        const end_user_id = "customer-4711"
        const give = (trace_id: string, more: object, client = integration) =>
          client.feedback.create({ payload: { inference_log_id: trace_id, score: -1, end_user_id, ...more } })
        const correction = { category: "billing" }

        const trace_id = yield* desk.run("axolotl")
        const other = yield* desk.run("kept")
        const promoted = yield* give(trace_id, { correction })
        yield* give(other, { correction, end_user_id: "customer-47110" })
        yield* stage(promoted.id)
        yield* give(trace_id, { comment: "said by the ocelot" })
        // A correction of another task, between those of the first.
        const { trace_id: ofSecond } = yield* admin.tasks.run({
          params: second.params,
          payload: { input: { text: "a" }, answer: { category: "other" } }
        })
        yield* give(ofSecond, { correction })
        yield* give(trace_id, { correction: { category: "other" } })
        const foreign = yield* give(yield* stranger.run("foreign"), { correction }, stranger.integration)
        const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
          params,
          query: {}
        })
        const { dataset } = yield* admin.feedback.promote({
          params,
          payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
        })
        assert.include(yield* inputsOf(admin, dataset.id), "axolotl")

        const payload = { end_user_id }
        const erasure = yield* admin.deletions.erase({ payload })
        assert.deepInclude(erasure, {
          kind: "erasure",
          metadata_key: null,
          metadata_digest: null,
          end_user: promoted.end_user
        })
        const done = yield* completed(admin, erasure.id)
        assert.deepStrictEqual(done.deleted, { runs: 0, feedback: 4, examples: 1, sessions: 0 })
        const text = yield* databaseAsText
        assert.notInclude(text, "ocelot")
        assert.notInclude(text, end_user_id)
        assert.notInclude(yield* inputsOf(admin, dataset.id), "axolotl")
        assert.strictEqual(yield* recomputedDigest(admin, dataset.id), dataset.content_digest)
        const { feedback } = yield* admin.feedback.list({ query: {} })
        assert.deepStrictEqual(
          feedback.map(({ inference_log_id }) => inference_log_id),
          [other]
        )
        yield* admin.runs.get({ params: { id: trace_id } })
        yield* stranger.admin.feedback.get({ params: { id: foreign.id } })

        const again = yield* completed(admin, (yield* admin.deletions.erase({ payload })).id)
        assert.deepStrictEqual(again.deleted, { runs: 0, feedback: 0, examples: 0, sessions: 0 })
        const { entries } = yield* admin.auditLog.list({ query: { action: "erasure.requested" } })
        assert.deepStrictEqual(entries[0]?.detail, { end_user: promoted.end_user })
      })
  )

  it.effect(
    "an erasure that names no subject, two, or an empty end user is refused, and nothing is erased",
    () =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key({}, "erase nobody")
        for (const body of [
          {},
          { metadata_key: "customer" },
          { metadata_value: "acme" },
          { end_user_id: "" },
          { end_user_id: 5 },
          { end_user_id: null },
          { metadata_key: "customer", metadata_value: "acme", end_user_id: "acme" }
        ]) {
          const { status } = yield* send("/v1/erasures", { method: "POST", key, body: JSON.stringify(body) })
          assert.strictEqual(status, 400, JSON.stringify(body))
        }
        const { body } = yield* send("/v1/deletions", { key })
        assert.deepStrictEqual(body["deletions"], [])
      })
  )

  it.effect("a step that cannot get its dataset is deferred, and the deletions behind it go on", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { now } = yield* StoreClock
      const { admin } = yield* createDesk("deferred")
      const deletion = yield* admin.deletions.erase({
        payload: { metadata_key: "customer", metadata_value: "deferred" }
      })
      yield* completed(admin, deletion.id)
      // A phase that does not exist: the step dies.
      yield* sql`
        UPDATE deletions
        SET kind = 'dataset', phase = 'begin', due_at = now() - interval '1 hour'
        WHERE deletion_id = ${deletion.id}
      `
      const next = yield* admin.deletions.erase({
        payload: { metadata_key: "customer", metadata_value: "next" }
      })
      yield* completed(admin, next.id)
      const [row] = yield* sql<{ readonly due_at: Date }>`
        SELECT due_at FROM deletions WHERE deletion_id = ${deletion.id}
      `
      assert.isAbove(row?.due_at.getTime() ?? 0, DateTime.toEpochMillis(yield* now) - 60_000)
      yield* sql`DELETE FROM deletions WHERE deletion_id = ${deletion.id}`
    })
  )

  it.effect("a deleted task frees as much storage as it was counted with", () =>
    Effect.gen(function* () {
      const { admin } = yield* createDesk("counted task")
      const size = sizeOf("counted task")
      const before = yield* size
      const { dataset, params } = yield* createSortingTask(admin, ["where is my parcel", "shipping"])
      const rows = Array.from({ length: 40 }, (_, index) => `Größe ${index} ` + "слово ".repeat(50))
      const second = yield* admin.datasets.create({
        params,
        payload: {
          base_dataset_id: dataset.id,
          examples: sortingExamples(...rows.map((text) => [text, "other"] as const))
        }
      })
      const { comparison } = yield* admin.comparisons.create({ params, payload: {} })
      yield* eventually(
        admin.comparisons.get({ params: { id: comparison.id }, query: {} }),
        ({ comparison: { status } }) => status !== "running"
      )
      // A dataset version is deleted, with an example that only it has, which was compared.
      const third = yield* admin.datasets.create({
        params,
        payload: {
          base_dataset_id: second.id,
          examples: sortingExamples(["a third version", "other"]),
          remove_inputs: [{ text: rows[0] ?? "" }]
        }
      })
      const { id: removal } = yield* admin.datasets.remove({ params: { id: second.id } })
      const { deleted } = yield* completed(admin, removal)
      assert.strictEqual(deleted.examples, 1)
      // A correction becomes an example, which is erased with its run.
      const { trace_id } = yield* admin.tasks.run({
        params,
        payload: { input: { text: "narwhal слово" }, answer: { category: "other" } }
      })
      const { id } = yield* admin.feedback.create({
        payload: { inference_log_id: trace_id, score: -1, correction: { category: "billing" } }
      })
      yield* admin.feedback.stage({ params: { id } })
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      assert.strictEqual(base_dataset_id, third.id)
      yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
      yield* admin.runs.remove({ params: { id: trace_id } })
      assert.isAbove(yield* size, before + 40_000)

      const { id: deletion } = yield* admin.tasks.remove({ params })
      yield* completed(admin, deletion)
      assert.strictEqual(yield* eventually(size, (bytes) => bytes === before), before)
    })
  )

  it.effect("an erased session frees as much storage as it was counted with", () =>
    Effect.gen(function* () {
      const { admin, dataset, params } = yield* createDesk("counted session")
      const size = sizeOf("counted session")
      yield* admin.datasets.create({
        params,
        payload: { base_dataset_id: dataset.id, examples: sortingExamples(["word ".repeat(20_000), "other"]) }
      })
      yield* admin.approvalRules.replace({
        payload: { rules: [{ effect: "require_approval", action_class: "write" }, { effect: "allow" }] }
      })
      const before = yield* size
      const { session_id } = yield* admin.sessions.create({ payload: { metadata: { customer: "Zoë 東京" } } })
      const step = (step_id: StepId, action_class: "read" | "write") =>
        admin.sessions.step({
          params: { id: session_id },
          payload: { step_id, tool: "pay", action_class, arguments: { to: "東京".repeat(300) } }
        })
      for (const name of ["one", "two", "three"]) {
        const step_id = StepId.make(name)
        yield* step(step_id, "read")
        yield* admin.sessions.reportOutcome({
          params: { id: session_id, step_id },
          payload: { status: "failed", result: { text: "北京".repeat(1_000) }, error: "größer" }
        })
      }
      yield* step(StepId.make("not completed"), "read")
      yield* step(StepId.make("approved by a person"), "write")
      assert.isAbove(yield* size, before + 20_000)

      const erasure = yield* admin.deletions.erase({
        payload: { metadata_key: "customer", metadata_value: "Zoë 東京" }
      })
      const { deleted } = yield* completed(admin, erasure.id)
      assert.strictEqual(deleted.sessions, 1)
      assert.strictEqual(yield* eventually(size, (bytes) => bytes === before), before)
    })
  )

  it.effect("an export of a version that is deleted meanwhile fails", () =>
    Effect.gen(function* () {
      const { admin, dataset, params } = yield* createDesk("deleted while exported")
      // More than an export reads at a time.
      const inputs = Array.from({ length: 250 }, (_, index) => `message ${index}`)
      const derive = (base_dataset_id: DatasetId, category: string) =>
        admin.datasets.create({
          params,
          payload: {
            base_dataset_id,
            examples: inputs.map((text) => ({ input: { text }, answer: { category } }))
          }
        })
      const { id } = yield* derive(dataset.id, "other")
      yield* derive(id, "billing")
      const org_id = OrgId.make(yield* orgIdOf("deleted while exported"))
      let exported = 0
      const examples = yield* (yield* Datasets).exportFor(org_id, id)
      const exit = yield* Effect.exit(
        Stream.runForEach(
          examples,
          Effect.fnUntraced(function* () {
            exported++
            if (exported > 1) return
            const deletion = yield* admin.datasets.remove({ params: { id } })
            yield* completed(admin, deletion.id)
          })
        )
      )
      assert.isBelow(exported, 251)
      assert.isTrue(Exit.isFailure(exit))
    })
  )
})

layer(service())("Deletions › a dataset in use", (it) => {
  it.effect(
    "a step that finds its dataset locked is deferred at once, and the deletions behind it go on",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { runOnce } = yield* Deletions
        const { now } = yield* StoreClock
        const { admin, params } = yield* createDesk("busy")
        const org_id = OrgId.make(yield* orgIdOf("busy"))
        const stranger = yield* (yield* Countersign).client({}, "not busy")
        const payload = { metadata_key: "customer", metadata_value: "acme" }
        const { trace_id } = yield* admin.tasks.run({
          params,
          payload: { input: { text: "one" }, answer: { category: "other" }, metadata: { customer: "acme" } }
        })
        const blocked = yield* admin.deletions.erase({ payload })
        const next = yield* stranger.deletions.erase({ payload })
        yield* sql`UPDATE deletions SET due_at = due_at - interval '1 hour' WHERE deletion_id = ${blocked.id}`

        const acquired = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        const change = yield* Effect.forkChild(
          transaction(
            acquireDatasetLock(sql, org_id, params.id).pipe(
              Effect.andThen(Deferred.succeed(acquired, undefined)),
              Effect.andThen(Deferred.await(release))
            )
          )
        )
        yield* Deferred.await(acquired)
        const ids = [yield* runOnce, yield* runOnce].map(Option.map(({ id }) => id))
        assert.deepStrictEqual(ids, [Option.some(blocked.id), Option.some(next.id)])
        assert.strictEqual((yield* admin.runs.get({ params: { id: trace_id } })).trace_id, trace_id)

        // No step waits for the lock, however long it may.
        const digest = new Uint8Array(32)
        const usage = yield* StoredUsage
        yield* sql`INSERT INTO example_subjects VALUES (${org_id}, ${digest}, ${params.id}, 'exa')`
        const deps = { sql, usage, now: yield* now }
        for (const step of [
          eraseExamplesOfSubject(deps, org_id, { digest }, null),
          deleteExamplesOfVersion(deps, org_id, params.id, 1, null)
        ]) {
          const failure = Effect.flip(transaction(Effect.andThen(sql`SET LOCAL lock_timeout = 0`, step)))
          assert.strictEqual((yield* failure)._tag, "DATASET_BUSY")
        }

        yield* Deferred.succeed(release, undefined)
        yield* Fiber.join(change)
        yield* sql`UPDATE deletions SET due_at = due_at - interval '1 hour' WHERE deletion_id = ${blocked.id}`
        yield* Effect.repeat(runOnce, { until: Option.isNone })
        assert.strictEqual(yield* tagOf(admin.runs.get({ params: { id: trace_id } })), "NOT_FOUND")
      })
  )
})
