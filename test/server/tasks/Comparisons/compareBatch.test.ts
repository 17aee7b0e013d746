import { assert, layer } from "@effect/vitest"
import {
  Array as Arr,
  Clock,
  Context,
  DateTime,
  Deferred,
  Duration,
  Effect,
  Fiber,
  Layer,
  Option,
  Ref,
  Result
} from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../../src/api/Authorization.ts"
import type { NewComparison } from "../../../../src/api/Comparisons.ts"
import {
  type ComparisonId,
  type DatasetId,
  type ExampleId,
  KeyId,
  type OrgId
} from "../../../../src/domain/Ids.ts"
import { noUsage } from "../../../../src/domain/tasks/Provider.ts"
import { scopes } from "../../../../src/domain/identity/Scope.ts"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"
import { ComparisonRuns } from "../../../../src/server/tasks/ComparisonRuns.ts"
import { Comparisons } from "../../../../src/server/tasks/Comparisons.ts"
import { Datasets } from "../../../../src/server/tasks/Datasets.ts"
import { deleteExamples } from "../../../../src/server/tasks/Datasets/erasedRows.ts"
import { ProviderEgress } from "../../../../src/server/egress/Egress.ts"
import { Organizations } from "../../../../src/server/identity/Organizations.ts"
import {
  NoAnswer,
  type ProviderAnswer,
  type ProviderCall,
  type ProviderRequest,
  Providers
} from "../../../../src/server/tasks/Providers.ts"
import { KnownSecrets } from "../../../../src/server/secrets/KnownSecrets.ts"
import { Audit } from "../../../../src/server/identity/Audit.ts"
import { StoredUsage } from "../../../../src/server/identity/StoredUsage.ts"
import { compareBatch, loadJob } from "../../../../src/server/tasks/Comparisons/compareBatch.ts"
import type { ExampleCalls } from "../../../../src/server/tasks/Comparisons/ExampleCalls.ts"
import { claimComparison } from "../../../../src/server/tasks/Comparisons/lease.ts"
import { comparisonColumns, comparisonRows } from "../../../../src/server/tasks/Comparisons/rows.ts"
import { ExampleSpending, makeSpending } from "../../../../src/server/tasks/Comparisons/Spending.ts"
import { ReleaseMade, Releases } from "../../../../src/server/tasks/Releases.ts"
import { generateMasterKey, SecretBox } from "../../../../src/server/secrets/SecretBox.ts"
import { CompiledSchemas } from "../../../../src/server/tasks/CompiledSchemas.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import { transaction } from "../../../../src/server/store/transaction.ts"
import { Tasks } from "../../../../src/server/tasks/Tasks.ts"
import { TestDatabase } from "../../../support/postgres.ts"
import { sortingExamples, sortingTask } from "../../../support/tasks.ts"
import { layerNoLimits } from "../../../support/layerNoLimits.ts"

type AnswerFunction = (request: ProviderRequest) => Effect.Effect<ProviderAnswer, NoAnswer>

/** The function that answers runs; each test sets its own. */
class Answers extends Context.Service<Answers, Ref.Ref<AnswerFunction>>()("countersign/test/Answers") {
  static readonly layer = Layer.effect(
    Answers,
    Ref.make<AnswerFunction>(() => Effect.never)
  )
}

const scriptedProviders = Layer.effect(
  Providers,
  Effect.map(Answers, (answers) =>
    Providers.of({ answer: (request) => Effect.flatMap(Ref.get(answers), (answer) => answer(request)) })
  )
)

/** Runs of comparisons with a short lease, which is renewed every 100 ms. */
class ShortLease extends Context.Service<ShortLease, ComparisonRuns["Service"]>()(
  "countersign/test/ShortLease"
) {
  static readonly layer = Layer.effect(ShortLease, ComparisonRuns).pipe(
    Layer.provide(Layer.fresh(ComparisonRuns.layer({ lease: "300 millis" })))
  )
}

const live = Layer.mergeAll(Comparisons.layer, ShortLease.layer, Datasets.layer, Releases.layer).pipe(
  Layer.provideMerge([Tasks.layer, ComparisonRuns.layer()]),
  Layer.provide(scriptedProviders),
  Layer.provideMerge(Answers.layer),
  Layer.provide([
    CompiledSchemas.layer,
    KnownSecrets.layerPolicyOnly,
    Audit.layer,
    Layer.succeed(ReleaseMade, () => Effect.void),
    StoredUsage.layer,
    Layer.unwrap(Effect.map(generateMasterKey, (key) => SecretBox.layer({ masterKeys: Arr.of(key) }))),
    ProviderEgress.layer({ dnsServers: [], allow: [], allowHttp: true, deny: [], ownHost: undefined })
  ]),
  Layer.provide(layerNoLimits),
  Layer.provideMerge(Organizations.layer),
  Layer.provideMerge(StoreClock.layer),
  Layer.provideMerge(TestDatabase.layerSql)
)

const correctAnswer = () =>
  Effect.succeed<ProviderAnswer>({
    answer: { category: "other" },
    usage: { input_tokens: 2, output_tokens: 1 },
    calls: [],
    examples: []
  })

/** Creates a comparison over `count` examples, in an organization of its own. */
const createComparison = Effect.fnUntraced(function* (
  name: string,
  count: number,
  payload: NewComparison = {}
) {
  const organizations = yield* Organizations
  const org_id: OrgId = yield* organizations.ensure(name)
  const principal = {
    org_id,
    actor: { id: KeyId.make(`key_${"1".repeat(32)}`), name: "Ada" },
    scopes: new Set(scopes),
    groups: [],
    keyMakers: [],
    makers: []
  }
  const by = Context.mergeAll(
    Context.make(Authorized("tasks.write"), principal),
    Context.make(Authorized("tasks.read"), principal),
    Context.make(Authorized("datasets.write"), principal)
  )
  const tasks = yield* Tasks
  const datasets = yield* Datasets
  const comparisons = yield* Comparisons
  const { id } = yield* Effect.provide(tasks.create(sortingTask), by)
  const [first, ...others] = sortingExamples(
    ...Array.from({ length: count }, (_, n) => [`m${n}`, "other"] as const)
  )
  yield* Effect.provide(datasets.create(id, { examples: [first!, ...others] }), by)
  const comparison = yield* Effect.provide(comparisons.create(id, payload), by)
  const read = Effect.provide(comparisons.get(comparison.id, { limit: 100 }), by)
  return { by, comparison, read, task_id: id }
})

layer(live, { excludeTestServices: true })("ComparisonRuns.runOnce", (it) => {
  it.effect(
    "a replica that takes over an interrupted comparison continues it and counts each example once",
    () =>
      Effect.gen(function* () {
        const answers = yield* Answers
        const runs = yield* ComparisonRuns
        const { comparison, read } = yield* createComparison("taken over", 80)
        // The model answers the first 32 examples for both sides, then stops responding.
        const silent = yield* Deferred.make<void>()
        let asked = 0
        yield* Ref.set(answers, () =>
          ++asked <= 64 ? correctAnswer() : Effect.andThen(Deferred.succeed(silent, undefined), Effect.never)
        )
        const first = yield* Effect.forkChild(runs.runOnce)
        yield* Deferred.await(silent)
        assert.deepInclude((yield* read).comparison, { status: "running", compared: 32 })
        assert.isTrue(Option.isNone(yield* runs.runOnce), "its lease is valid")

        yield* Fiber.interrupt(first)
        yield* Ref.set(answers, correctAnswer)
        const run = yield* runs.runOnce
        assert.deepStrictEqual(Option.getOrUndefined(run), {
          comparison_id: comparison.id,
          compared: 48,
          completed: true
        })
        const done = yield* read
        assert.strictEqual(done.comparison.compared, 80)
        assert.deepInclude(done.comparison.summary.candidate, { agreed: 80, input_tokens: 160 })
        assert.lengthOf(done.results, 80)
        assert.isTrue(Option.isNone(yield* runs.runOnce), "it is completed")
      })
  )

  it.effect("a batch of large answers is written before it has 32 examples", () =>
    Effect.gen(function* () {
      const answers = yield* Answers
      const runs = yield* ComparisonRuns
      const { read } = yield* createComparison("large answers", 16)
      const large = { answer: { category: "x".repeat(1_500_000) }, usage: noUsage, calls: [], examples: [] }
      const silent = yield* Deferred.make<void>()
      let asked = 0
      yield* Ref.set(answers, () =>
        ++asked <= 20
          ? Effect.succeed(large)
          : Effect.andThen(Deferred.succeed(silent, undefined), Effect.never)
      )
      const first = yield* Effect.forkChild(runs.runOnce)
      yield* Deferred.await(silent)
      assert.isAbove((yield* read).comparison.compared, 2)
      yield* Fiber.interrupt(first)
      yield* Ref.set(answers, correctAnswer)
      assert.isTrue(Option.getOrThrow(yield* runs.runOnce).completed)
      assert.strictEqual((yield* read).comparison.compared, 16)
    })
  )

  it.effect(
    "no prompt, and no repeated answer after the first one, stays in memory until the batch ends",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { comparison } = yield* createComparison("repeats", 1, { repeats: 3 })
        const row = yield* comparisonRows.first(sql`
        UPDATE comparisons
        SET status = 'failed'
        WHERE comparison_id = ${comparison.id}
        RETURNING ${sql.literal(comparisonColumns)}
      `)
        if (row === undefined) return yield* Effect.die("the comparison is missing")
        const usage = { input_tokens: 2, output_tokens: 1 }
        const call: ProviderCall = {
          started_at: yield* DateTime.now,
          duration_ms: 1,
          usage,
          messages: [{ role: "user", content: "a prompt" }],
          response: null,
          http_status: 200,
          failure: null,
          reason: null
        }
        const hooked: Array<ExampleCalls> = []
        const { compared, row: after } = yield* compareBatch(
          {
            sql,
            providers: Providers.of({
              answer: ({ onCall }) =>
                Effect.sync(() => {
                  onCall?.(call)
                  return { answer: { category: "an answer" }, usage, calls: [call], examples: [] }
                })
            }),
            onCompared: (example) => Effect.sync(() => hooked.push(example))
          },
          yield* loadJob(sql, row, (schema) => Effect.fromResult(compileSchema(schema)).pipe(Effect.orDie)),
          row,
          { cancelled: Effect.never, isTimeSliceOver: Effect.succeed(false) }
        )
        assert.lengthOf(hooked[0]?.calls ?? [], 6)
        assert.notInclude(JSON.stringify(hooked), "a prompt")
        assert.deepStrictEqual(compared[0]?.candidate.answer, { category: "an answer" })
        assert.lengthOf(compared[0]?.further ?? [], 2)
        assert.notInclude(JSON.stringify(compared[0]?.further), "an answer")
        assert.deepInclude(after.tally.candidate, { failed: 0, score: 0, input_tokens: 6, output_tokens: 3 })
        assert.deepInclude(after.tally.repeats?.live, { sum: 0, unstable: 0 })
      })
  )

  it.effect(
    "a run starts no further example after its time slice, and the next run completes the comparison",
    () =>
      Effect.gen(function* () {
        const answers = yield* Answers
        const { runOnce } = yield* ComparisonRuns
        const { read } = yield* createComparison("slow", 32)
        const clock = yield* Clock.Clock
        let offset = 0
        const shifted: Clock.Clock = Object.assign(Object.create(clock), {
          monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe() + BigInt(offset) * 1_000_000n
        })
        const runSlice = Effect.map(Effect.provideService(runOnce, Clock.Clock, shifted), Option.getOrThrow)
        // Eight answers, of four examples, are computed concurrently, so this simulates ten seconds per answer.
        yield* Ref.set(answers, () => {
          offset += 1_250
          return correctAnswer()
        })
        const first = yield* runSlice
        assert.isFalse(first.completed)
        assert.isAtLeast(first.compared, 12)
        assert.isAtMost(first.compared, 16)
        assert.deepInclude((yield* read).comparison, { status: "running", compared: first.compared })
        yield* Ref.set(answers, correctAnswer)
        assert.isTrue((yield* runSlice).completed)
        assert.strictEqual((yield* read).comparison.summary.live.agreed, 32)
      })
  )

  it.effect(
    "what examples have spent counts for the next one, before it is recorded and while they are in progress",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { comparison } = yield* createComparison("spending", 2)
        const row = yield* comparisonRows.first(sql`
        UPDATE comparisons
        SET status = 'failed'
        WHERE comparison_id = ${comparison.id}
        RETURNING ${sql.literal(comparisonColumns)}
      `)
        if (row === undefined) return yield* Effect.die("the comparison is missing")
        const spending = makeSpending(sql, { ...row, budget: { ...row.budget, max_calls: 2 } }, 2)
        assert.isUndefined(spending.reserve())
        const example = new ExampleSpending()
        example.spent = { calls: 2, input_tokens: 20, output_tokens: 2, cost: null }
        const recording = yield* Effect.forkChild(spending.record(example, 0), { startImmediately: true })
        assert.match(spending.reserve() ?? "", /^The budget of 2 calls has no room/)
        yield* Fiber.join(recording)
        assert.deepStrictEqual(spending.spent(), example.spent)

        // An example in progress counts with what the finished ones spent on the average, here with the 44 tokens of the row.
        const ofTokens = makeSpending(sql, { ...row, budget: { ...row.budget, max_tokens: 60 } }, 2)
        assert.isUndefined(ofTokens.reserve())
        yield* ofTokens.record(example, 0)
        assert.isUndefined(ofTokens.reserve())
        assert.match(ofTokens.reserve() ?? "", /^The budget of 60 tokens is spent/)

        const ofFailures = makeSpending(sql, { ...row, budget: { ...row.budget, max_failures: 2 } }, 2)
        assert.isUndefined(ofFailures.reserve())
        assert.isUndefined(ofFailures.reserve())
        yield* ofFailures.record(new ExampleSpending(), 1)
        assert.isUndefined(ofFailures.reserve())
        yield* ofFailures.record(new ExampleSpending(), 1)
        assert.match(ofFailures.reserve() ?? "", /^2 answers failed, and the budget ends a comparison with 2/)
      })
  )

  it.effect("a replica whose lease was taken over is fenced: its results are not written", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const answers = yield* Answers
      const runs = yield* ComparisonRuns
      const { comparison, read } = yield* createComparison("stale", 10)
      const asked = yield* Deferred.make<void>()
      const resume = yield* Deferred.make<void>()
      yield* Ref.set(answers, () =>
        Effect.andThen(
          Deferred.succeed(asked, undefined),
          Effect.andThen(Deferred.await(resume), correctAnswer())
        )
      )
      const stale = yield* Effect.forkChild(runs.runOnce)
      yield* Deferred.await(asked)
      // Simulates a process that was paused for longer than its lease.
      yield* sql`UPDATE comparisons SET lease_until = now() - interval '1 second' WHERE comparison_id = ${comparison.id}`
      yield* Ref.set(answers, correctAnswer)
      assert.isTrue(Option.isSome(yield* runs.runOnce))
      yield* Deferred.succeed(resume, undefined)
      assert.deepInclude(Option.getOrThrow(yield* Fiber.join(stale)), { compared: 0, completed: false })
      const done = yield* read
      assert.deepInclude(done.comparison, { status: "completed", compared: 10 })
      assert.lengthOf(done.results, 10)
    })
  )

  it.effect(
    "a replica that lost its lease stops its work, and leaves the lease of the new owner as it is",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const answers = yield* Answers
        const { comparison } = yield* createComparison("lost lease", 1)
        const asked = yield* Deferred.make<void>()
        yield* Ref.set(answers, () => Effect.andThen(Deferred.succeed(asked, undefined), Effect.never))
        const { runOnce } = yield* ShortLease
        const loser = yield* Effect.forkChild(runOnce)
        yield* Deferred.await(asked)
        yield* sql`
        UPDATE comparisons
        SET lease_epoch = lease_epoch + 1, lease_until = '2100-01-01'
        WHERE comparison_id = ${comparison.id}
      `
        assert.deepInclude(Option.getOrThrow(yield* Fiber.join(loser)), { compared: 0, completed: false })
        const rows = yield* sql`
        SELECT lease_until = '2100-01-01' AS kept, attempts
        FROM comparisons
        WHERE comparison_id = ${comparison.id}
      `
        assert.deepStrictEqual(rows, [{ kept: true, attempts: 1 }])
        yield* sql`UPDATE comparisons SET status = 'failed' WHERE comparison_id = ${comparison.id}`
      })
  )

  it.effect("an example that a side fails to answer counts as a disagreement of that side", () =>
    Effect.gen(function* () {
      const answers = yield* Answers
      const runs = yield* ComparisonRuns
      const { read } = yield* createComparison("failures", 3)
      yield* Ref.set(answers, (request) =>
        request.input["text"] === "m1"
          ? Effect.fail(
              new NoAnswer({
                reason: "server_error",
                detail: "The model server returned 500.",
                usage: noUsage,
                calls: [],
                examples: []
              })
            )
          : correctAnswer()
      )
      yield* runs.runOnce
      const { comparison, results } = yield* read
      assert.deepInclude(comparison.summary.live, { agreed: 2, failed: 1 })
      assert.deepInclude(results.find(({ input }) => input?.["text"] === "m1")?.candidate, {
        answer: null,
        agrees: false,
        failure: "The model server returned 500."
      })
    })
  )

  it.effect(
    "a run does not wait for a comparison that another one is claiming, and claims the next one",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const clock = yield* StoreClock
        const answers = yield* Answers
        const runs = yield* ComparisonRuns
        yield* Ref.set(answers, correctAnswer)
        const one = yield* createComparison("first", 2)
        const other = yield* createComparison("second", 2)
        const claiming = yield* Deferred.make<ComparisonId | undefined>()
        const commit = yield* Deferred.make<void>()
        const claim = yield* Effect.forkChild(
          transaction(
            Effect.gen(function* () {
              const claimed = yield* claimComparison(sql, clock, Duration.minutes(1))
              yield* Deferred.succeed(claiming, claimed?.comparison_id)
              yield* Deferred.await(commit)
            })
          )
        )
        const claimed = yield* Deferred.await(claiming)
        const run = yield* Effect.timeout(runs.runOnce, "10 seconds")
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.join(claim)
        assert.sameMembers(
          [claimed, Option.getOrUndefined(run)?.comparison_id],
          [one.comparison.id, other.comparison.id]
        )
        yield* sql`UPDATE comparisons SET status = 'failed' WHERE status = 'running'`
      })
  )

  it.effect("a claim takes one comparison, however the database plans the statement", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* StoreClock
      yield* createComparison("planned first", 1)
      yield* createComparison("planned second", 1)
      const claimed = sql<{ readonly count: number }>`
        SELECT count(*)::int AS count
        FROM comparisons
        WHERE status = 'running'
          AND lease_until > now()
      `
      yield* transaction(
        Effect.gen(function* () {
          const [before] = yield* claimed
          // Leaves a nested loop, which evaluates its inner side for each row of the outer one.
          for (const plan of ["hashjoin", "mergejoin", "hashagg", "sort", "material", "memoize"]) {
            yield* sql.unsafe(`SET LOCAL enable_${plan} = off`)
          }
          assert.isDefined(yield* claimComparison(sql, clock, Duration.minutes(1)))
          const [after] = yield* claimed
          assert.strictEqual((after?.count ?? 0) - (before?.count ?? 0), 1)
        })
      )
      yield* sql`UPDATE comparisons SET status = 'failed' WHERE status = 'running'`
    })
  )

  it.effect(
    "while a replica claims a comparison, another does not wait for it, and claims the next one",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const answers = yield* Answers
        const runs = yield* ComparisonRuns
        yield* Ref.set(answers, correctAnswer)
        const claimed = yield* createComparison("being claimed", 1)
        const next = yield* createComparison("next", 1)
        // It is the next one: a comparison that no replica has claimed yet comes first.
        yield* sql`
        UPDATE comparisons
        SET lease_until = now() - interval '1 minute'
        WHERE comparison_id = ${next.comparison.id}
      `
        const locked = yield* Deferred.make<void>()
        const commit = yield* Deferred.make<void>()
        const other = yield* Effect.forkChild(
          transaction(
            sql`
            UPDATE comparisons SET lease_epoch = lease_epoch + 1 WHERE comparison_id = ${claimed.comparison.id}
          `.pipe(Effect.andThen(Deferred.succeed(locked, undefined)), Effect.andThen(Deferred.await(commit)))
          )
        )
        yield* Deferred.await(locked)
        assert.deepInclude(Option.getOrThrow(yield* runs.runOnce), {
          comparison_id: next.comparison.id,
          completed: true
        })
        yield* Deferred.succeed(commit, undefined)
        yield* Fiber.join(other)
        assert.deepInclude(Option.getOrThrow(yield* runs.runOnce), {
          comparison_id: claimed.comparison.id,
          completed: true
        })
      })
  )

  it.effect(
    "a candidate is released only after its comparison is completed, and a rollback is a new release",
    () =>
      Effect.gen(function* () {
        const answers = yield* Answers
        const runs = yield* ComparisonRuns
        const comparisons = yield* Comparisons
        const releases = yield* Releases
        yield* Ref.set(answers, correctAnswer)
        const { by, comparison, task_id } = yield* createComparison("released", 3)
        const release = Effect.provide(releases.create(task_id, { comparison_id: comparison.id }), by)
        const refused = yield* Effect.flip(release)
        assert.strictEqual(refused._tag, "COMPARISON_UNFINISHED")
        assert.match(refused.detail ?? "", /^The comparison is still running: 0 of 3 examples compared\./)
        const other = yield* Effect.provide(comparisons.create(task_id, {}), by)
        yield* runs.runOnce
        yield* runs.runOnce

        const first = yield* release
        const force = { force: true, reason: "A test of repeated releases." }
        const second = yield* Effect.provide(
          releases.create(task_id, { comparison_id: other.id, ...force }),
          by
        )
        const back = yield* Effect.provide(
          releases.create(task_id, { comparison_id: comparison.id, ...force }),
          by
        )
        assert.notStrictEqual(back.id, first.id)
        assert.deepInclude(back, { comparison_id: comparison.id, dataset_id: first.dataset_id })
        const { items } = yield* Effect.provide(releases.list(task_id, {}), by)
        assert.deepStrictEqual(
          items.map(({ comparison_id, id }) => [id, comparison_id]),
          [
            [back.id, comparison.id],
            [second.id, other.id],
            [first.id, comparison.id],
            [comparison.live_release_id, null]
          ]
        )
      })
  )

  it.effect("an example that is erased while its result is recorded leaves no result", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const answers = yield* Answers
      const runs = yield* ComparisonRuns
      yield* Ref.set(answers, correctAnswer)
      const { by, comparison, read, task_id } = yield* createComparison("erased meanwhile", 2)
      const { org_id } = Context.get(by, Authorized("tasks.read"))
      const [erased] = yield* sql<{ readonly example_id: ExampleId }>`
        SELECT example_id FROM dataset_examples WHERE task_id = ${task_id} LIMIT 1
      `
      const recorded = yield* Deferred.make<void>()
      const deleted = yield* Deferred.make<void>()
      const erasure = yield* deleteExamples(sql, org_id, task_id, [erased!.example_id]).pipe(
        Effect.andThen(Deferred.succeed(deleted, undefined)),
        Effect.andThen(Deferred.await(recorded)),
        transaction,
        Effect.forkChild
      )
      yield* Deferred.await(deleted)
      assert.deepInclude(Option.getOrThrow(yield* runs.runOnce), { compared: 2, completed: true })
      yield* Deferred.succeed(recorded, undefined)
      yield* Fiber.join(erasure)
      const results = yield* sql`
        SELECT 1 AS found FROM comparison_results WHERE comparison_id = ${comparison.id}
      `
      assert.lengthOf(results, 1)
      assert.lengthOf((yield* read).results, 1)
    })
  )

  it.effect("a dataset version is not deleted while a comparison over it is running", () =>
    Effect.gen(function* () {
      const comparisons = yield* Comparisons
      const datasets = yield* Datasets
      const { by, comparison, task_id } = yield* createComparison("version in use", 1)
      const derive = (base_dataset_id: DatasetId, text: string) =>
        Effect.provide(
          datasets.create(task_id, { base_dataset_id, examples: sortingExamples([text, "other"]) }),
          by
        )
      const second = yield* derive(comparison.dataset_id, "second")
      const running = yield* Effect.provide(comparisons.create(task_id, {}), by)
      yield* derive(second.id, "third")
      const principal = Context.get(by, Authorized("tasks.read"))
      const remove = Effect.provideService(datasets.remove(second.id), Authorized("data.delete"), principal)
      assert.strictEqual((yield* Effect.flip(remove))._tag, "DATASET_IN_USE")
      yield* Effect.provide(comparisons.cancel(running.id), by)
      assert.strictEqual((yield* remove).target_id, second.id)
      // Or a later test would run it.
      yield* Effect.provide(comparisons.cancel(comparison.id), by)
    })
  )

  it.effect("a comparison that is released by several requests at once becomes one release", () =>
    Effect.gen(function* () {
      const answers = yield* Answers
      const runs = yield* ComparisonRuns
      const releases = yield* Releases
      yield* Ref.set(answers, correctAnswer)
      const { by, comparison, task_id } = yield* createComparison("released at once", 1)
      yield* runs.runOnce
      const made = yield* Effect.replicateEffect(
        Effect.provide(releases.create(task_id, { comparison_id: comparison.id }), by),
        6,
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(made.map(({ id }) => id)).size, 1)
      assert.lengthOf((yield* Effect.provide(releases.list(task_id, {}), by)).items, 2)
    })
  )

  it.effect("a run renews its lease while an answer takes longer than the lease", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const answers = yield* Answers
      const { comparison, read } = yield* createComparison("slow answer", 1)
      const asked = yield* Deferred.make<void>()
      const resume = yield* Deferred.make<void>()
      yield* Ref.set(answers, () =>
        Effect.andThen(
          Deferred.succeed(asked, undefined),
          Effect.andThen(Deferred.await(resume), correctAnswer())
        )
      )
      const leaseEnds = Effect.map(
        sql<{ readonly at: Date }>`
          SELECT lease_until AS at FROM comparisons WHERE comparison_id = ${comparison.id}
        `,
        (rows) => rows[0]?.at.getTime() ?? 0
      )
      const { runOnce } = yield* ShortLease
      const owner = yield* Effect.forkChild(runOnce)
      yield* Deferred.await(asked)
      const claimed = yield* leaseEnds
      const renewed = yield* Effect.repeat(leaseEnds, { until: (ends) => ends > claimed })
      yield* Effect.repeat(leaseEnds, { until: (ends) => ends > renewed })
      yield* Deferred.succeed(resume, undefined)
      assert.deepInclude(Option.getOrThrow(yield* Fiber.join(owner)), { compared: 1, completed: true })
      assert.strictEqual((yield* read).comparison.status, "completed")
    })
  )

  it.effect("an organization has at most 20 running comparisons, also if they are created concurrently", () =>
    Effect.gen(function* () {
      const comparisons = yield* Comparisons
      // For several tasks, because creations for one task wait for each other's row lock.
      const tasks = yield* Effect.replicateEffect(createComparison("at a time", 1), 5)
      const results = yield* Effect.all(
        [...tasks, ...tasks, ...tasks, ...tasks].map(({ by, task_id }) =>
          Effect.result(Effect.provide(comparisons.create(task_id, {}), by))
        ),
        { concurrency: "unbounded" }
      )
      const refused = results.flatMap((result) => (Result.isFailure(result) ? [result.failure._tag] : []))
      assert.deepStrictEqual(
        refused,
        Array.from({ length: 5 }, () => "LIMIT_REACHED")
      )
      yield* createComparison("of another organization", 1)
    })
  )
})
