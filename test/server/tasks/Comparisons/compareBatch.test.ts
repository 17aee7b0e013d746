import { assert, layer } from "@effect/vitest"
import { Array as Arr, Clock, Context, Deferred, Effect, Fiber, Layer, Option, Ref, Result } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../../../src/api/Authorization.ts"
import { KeyId, type OrgId } from "../../../../src/domain/Ids.ts"
import { noUsage } from "../../../../src/domain/tasks/Provider.ts"
import { scopes } from "../../../../src/domain/identity/Scope.ts"
import { Comparisons } from "../../../../src/server/tasks/Comparisons.ts"
import { Datasets } from "../../../../src/server/tasks/Datasets.ts"
import { ProviderEgress } from "../../../../src/server/egress/Egress.ts"
import { Organizations } from "../../../../src/server/identity/Organizations.ts"
import {
  NoAnswer,
  type ProviderAnswer,
  type ProviderRequest,
  Providers
} from "../../../../src/server/tasks/Providers.ts"
import { Audit } from "../../../../src/server/identity/Audit.ts"
import { Releases } from "../../../../src/server/tasks/Releases.ts"
import { generateMasterKey, SecretBox } from "../../../../src/server/secrets/SecretBox.ts"
import { CompiledSchemas } from "../../../../src/server/tasks/CompiledSchemas.ts"
import { StoreClock } from "../../../../src/server/store/StoreClock.ts"
import { Tasks } from "../../../../src/server/tasks/Tasks.ts"
import { TestDatabase } from "../../../support/postgres.ts"
import { sortingExamples, sortingTask } from "../../../support/tasks.ts"

type Answering = (request: ProviderRequest) => Effect.Effect<ProviderAnswer, NoAnswer>

/** What answers at the moment. */
class Answers extends Context.Service<Answers, Ref.Ref<Answering>>()("countersign/test/Answers") {
  static readonly layer = Layer.effect(
    Answers,
    Ref.make<Answering>(() => Effect.never)
  )
}

const scripted = Layer.effect(
  Providers,
  Effect.map(Answers, (answers) =>
    Providers.of({ answer: (request) => Effect.flatMap(Ref.get(answers), (answering) => answering(request)) })
  )
)

/** Comparisons with so short a lease that it is soon said again that one is held. */
class Brief extends Context.Service<Brief, Comparisons["Service"]>()("countersign/test/Brief") {
  static readonly layer = Layer.effect(Brief, Comparisons).pipe(
    Layer.provide(Layer.fresh(Comparisons.layer({ lease: "300 millis" })))
  )
}

const live = Layer.mergeAll(Comparisons.layer(), Brief.layer, Datasets.layer, Releases.layer).pipe(
  Layer.provideMerge(Tasks.layer),
  Layer.provide(scripted),
  Layer.provideMerge(Answers.layer),
  Layer.provide([
    CompiledSchemas.layer,
    Audit.layer,
    Layer.unwrap(Effect.map(generateMasterKey, (key) => SecretBox.layer({ masterKeys: Arr.of(key) }))),
    ProviderEgress.layer({ dnsServers: [], allow: [], allowHttp: true, deny: [], ownHost: undefined })
  ]),
  Layer.provideMerge(Organizations.layer),
  Layer.provideMerge(StoreClock.layer),
  Layer.provideMerge(TestDatabase.layerSql)
)

const right = () =>
  Effect.succeed<ProviderAnswer>({
    answer: { category: "other" },
    usage: { input_tokens: 2, output_tokens: 1 },
    calls: []
  })

/** A comparison over `count` examples, in an organization of its own. */
const begun = Effect.fnUntraced(function* (name: string, count: number) {
  const organizations = yield* Organizations
  const org_id: OrgId = yield* organizations.ensure(name)
  const principal = {
    org_id,
    actor: { id: KeyId.make(`key_${"1".repeat(32)}`), name: "Ada" },
    scopes: new Set(scopes)
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
  const comparison = yield* Effect.provide(comparisons.create(id, {}), by)
  const read = Effect.provide(comparisons.get(comparison.id, { limit: 100 }), by)
  return { by, comparison, read, task_id: id }
})

layer(live, { excludeTestServices: true })("the work at a comparison", (it) => {
  it.effect("goes on where it was, by whoever takes it over, and counts each example once", () =>
    Effect.gen(function* () {
      const answers = yield* Answers
      const comparisons = yield* Comparisons
      const { comparison, read } = yield* begun("taken over", 80)
      // The first 32 are answered; then the model falls silent.
      const silent = yield* Deferred.make<void>()
      let asked = 0
      yield* Ref.set(answers, () =>
        ++asked <= 64 ? right() : Effect.andThen(Deferred.succeed(silent, undefined), Effect.never)
      )
      const first = yield* Effect.forkChild(comparisons.runOnce)
      yield* Deferred.await(silent)
      assert.deepInclude((yield* read).comparison, { status: "running", compared: 32 })
      assert.isTrue(Option.isNone(yield* comparisons.runOnce), "it is held")

      yield* Fiber.interrupt(first)
      yield* Ref.set(answers, right)
      const round = yield* comparisons.runOnce
      assert.deepStrictEqual(Option.getOrUndefined(round), {
        comparison_id: comparison.id,
        compared: 48,
        completed: true
      })
      const done = yield* read
      assert.strictEqual(done.comparison.compared, 80)
      assert.deepInclude(done.comparison.summary.candidate, { agreed: 80, input_tokens: 160 })
      assert.lengthOf(done.results, 80)
      assert.isTrue(Option.isNone(yield* comparisons.runOnce), "it is done")
    })
  )

  it.effect("is written sooner where answers are large", () =>
    Effect.gen(function* () {
      const answers = yield* Answers
      const comparisons = yield* Comparisons
      const { read } = yield* begun("large answers", 16)
      const large = { answer: { category: "x".repeat(1_500_000) }, usage: noUsage, calls: [] }
      const silent = yield* Deferred.make<void>()
      let asked = 0
      yield* Ref.set(answers, () =>
        ++asked <= 20
          ? Effect.succeed(large)
          : Effect.andThen(Deferred.succeed(silent, undefined), Effect.never)
      )
      const first = yield* Effect.forkChild(comparisons.runOnce)
      yield* Deferred.await(silent)
      assert.isAbove((yield* read).comparison.compared, 2)
      yield* Fiber.interrupt(first)
      yield* Ref.set(answers, right)
      assert.isTrue(Option.getOrThrow(yield* comparisons.runOnce).completed)
      assert.strictEqual((yield* read).comparison.compared, 16)
    })
  )

  it.effect(
    "is left to others when its turn is over, however slow the model: no example is begun after that",
    () =>
      Effect.gen(function* () {
        const answers = yield* Answers
        const { runOnce } = yield* Comparisons
        const { read } = yield* begun("slow", 32)
        const clock = yield* Clock.Clock
        let ahead = 0
        const moved: Clock.Clock = Object.assign(Object.create(clock), {
          currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + ahead
        })
        const turn = Effect.map(Effect.provideService(runOnce, Clock.Clock, moved), Option.getOrThrow)
        // Eight answers, to four examples, are under way at a time: as if each took ten seconds.
        yield* Ref.set(answers, () => {
          ahead += 1_250
          return right()
        })
        const round = yield* turn
        assert.isFalse(round.completed)
        assert.isAtLeast(round.compared, 12)
        assert.isAtMost(round.compared, 16)
        assert.deepInclude((yield* read).comparison, { status: "running", compared: round.compared })
        yield* Ref.set(answers, right)
        assert.isTrue((yield* turn).completed)
        assert.strictEqual((yield* read).comparison.summary.live.agreed, 32)
      })
  )

  it.effect("is not written by one who held it before another took it over", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const answers = yield* Answers
      const comparisons = yield* Comparisons
      const { comparison, read } = yield* begun("stale", 10)
      const asked = yield* Deferred.make<void>()
      const wake = yield* Deferred.make<void>()
      yield* Ref.set(answers, () =>
        Effect.andThen(Deferred.succeed(asked, undefined), Effect.andThen(Deferred.await(wake), right()))
      )
      const stale = yield* Effect.forkChild(comparisons.runOnce)
      yield* Deferred.await(asked)
      // As if the first had stood still for longer than its lease.
      yield* sql`UPDATE comparisons SET lease_until = now() - interval '1 second' WHERE comparison_id = ${comparison.id}`
      yield* Ref.set(answers, right)
      assert.isTrue(Option.isSome(yield* comparisons.runOnce))
      yield* Deferred.succeed(wake, undefined)
      assert.deepInclude(Option.getOrThrow(yield* Fiber.join(stale)), { compared: 0, completed: false })
      const done = yield* read
      assert.deepInclude(done.comparison, { status: "completed", compared: 10 })
      assert.lengthOf(done.results, 10)
    })
  )

  it.effect("counts an example that a side fails at as one that it does not agree with", () =>
    Effect.gen(function* () {
      const answers = yield* Answers
      const comparisons = yield* Comparisons
      const { read } = yield* begun("failures", 3)
      yield* Ref.set(answers, (request) =>
        request.input["text"] === "m1"
          ? Effect.fail(new NoAnswer({ detail: "The model server answered 500", usage: noUsage, calls: [] }))
          : right()
      )
      yield* comparisons.runOnce
      const { comparison, results } = yield* read
      assert.deepInclude(comparison.summary.live, { agreed: 2, failed: 1 })
      assert.deepInclude(results.find(({ input }) => input["text"] === "m1")?.candidate, {
        answer: null,
        agrees: false,
        failure: "The model server answered 500"
      })
    })
  )

  it.effect("is shared out: of two that wait, each has its turn", () =>
    Effect.gen(function* () {
      const answers = yield* Answers
      const comparisons = yield* Comparisons
      yield* Ref.set(answers, right)
      const one = yield* begun("first", 2)
      const other = yield* begun("second", 2)
      const rounds = yield* Effect.all([comparisons.runOnce, comparisons.runOnce], { concurrency: 2 })
      assert.sameMembers(
        rounds.map((round) => Option.getOrUndefined(round)?.comparison_id),
        [one.comparison.id, other.comparison.id]
      )
    })
  )

  it.effect("is at an end before its candidate is released, and the way back is a release again", () =>
    Effect.gen(function* () {
      const answers = yield* Answers
      const comparisons = yield* Comparisons
      const releases = yield* Releases
      yield* Ref.set(answers, right)
      const { by, comparison, task_id } = yield* begun("released", 3)
      const release = Effect.provide(releases.create(task_id, { comparison_id: comparison.id }), by)
      const refused = yield* Effect.flip(release)
      assert.strictEqual(refused._tag, "COMPARISON_UNFINISHED")
      assert.match(refused.detail ?? "", /^0 of 3 examples/)
      const other = yield* Effect.provide(comparisons.create(task_id, {}), by)
      yield* comparisons.runOnce
      yield* comparisons.runOnce

      const first = yield* release
      const second = yield* Effect.provide(releases.create(task_id, { comparison_id: other.id }), by)
      const back = yield* release
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

  it.effect("is held on by who works at it, however long an answer takes", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const answers = yield* Answers
      const { comparison, read } = yield* begun("held", 1)
      const asked = yield* Deferred.make<void>()
      const wake = yield* Deferred.make<void>()
      yield* Ref.set(answers, () =>
        Effect.andThen(Deferred.succeed(asked, undefined), Effect.andThen(Deferred.await(wake), right()))
      )
      const leaseEnds = Effect.map(
        sql<{ readonly at: Date }>`
          SELECT lease_until AS at FROM comparisons WHERE comparison_id = ${comparison.id}
        `,
        (rows) => rows[0]?.at.getTime() ?? 0
      )
      const { runOnce } = yield* Brief
      const holder = yield* Effect.forkChild(runOnce)
      yield* Deferred.await(asked)
      const taken = yield* leaseEnds
      const later = yield* Effect.repeat(leaseEnds, { until: (ends) => ends > taken })
      yield* Effect.repeat(leaseEnds, { until: (ends) => ends > later })
      yield* Deferred.succeed(wake, undefined)
      assert.deepInclude(Option.getOrThrow(yield* Fiber.join(holder)), { compared: 1, completed: true })
      assert.strictEqual((yield* read).comparison.status, "completed")
    })
  )

  it.effect("is done at twenty of an organization at a time, however many are asked for at once", () =>
    Effect.gen(function* () {
      const comparisons = yield* Comparisons
      // Of several tasks: what holds one of them back does not hold the others.
      const tasks = yield* Effect.replicateEffect(begun("at a time", 1), 5)
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
      yield* begun("of another organization", 1)
    })
  )
})
