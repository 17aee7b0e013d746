import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { NewComparison } from "../../../../src/api/Comparisons.ts"
import type { ClientCalls } from "../../../../src/client/Client.ts"
import { eventually } from "../../../support/eventually.ts"
import { startModelServer } from "../../../support/model.ts"
import { startScriptedServer } from "../../../support/scripted.ts"
import { pointersOf, service } from "../../../support/service.ts"
import { createTeamClients, sortingExamples, sortingTask } from "../../../support/tasks.ts"

const price = { input_per_million: 1_000, output_per_million: 2_000 }

/** Creates a task of a model that answers "billing" for 10 and 1 tokens, with a dataset of `count` examples. */
const modelTask = Effect.fnUntraced(function* (organization: string, count: number) {
  const { admin } = yield* createTeamClients(organization)
  const model = yield* startModelServer(() => ({
    answer: { category: "billing" },
    input_tokens: 10,
    output_tokens: 1
  }))
  const task = yield* admin.tasks.create({
    payload: { ...sortingTask, provider: { kind: "openai", base_url: model.url, model: "small", price } }
  })
  const params = { id: task.id }
  const [first, ...others] = sortingExamples(
    ...Array.from({ length: count }, (_, n) => [`message ${n}`, "billing"] as const)
  )
  yield* admin.datasets.create({ params, payload: { examples: [first!, ...others] } })
  return { admin, model, params }
})

const finish = Effect.fnUntraced(function* (
  admin: ClientCalls,
  params: Parameters<ClientCalls["comparisons"]["create"]>[0]["params"],
  payload: NewComparison
) {
  const { comparison } = yield* admin.comparisons.create({ params, payload })
  return yield* eventually(
    Effect.map(
      admin.comparisons.get({ params: { id: comparison.id }, query: {} }),
      (found) => found.comparison
    ),
    ({ status }) => status !== "running"
  )
})

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Comparisons › budget",
  (it) => {
    it.effect(
      "a comparison that would call more often than its budget allows fails, and says what it spent",
      () =>
        Effect.gen(function* () {
          const { admin, model, params } = yield* modelTask("calls", 40)
          const failed = yield* finish(admin, params, { budget: { max_calls: 21 } })
          assert.deepInclude(failed, {
            status: "failed",
            compared: 10,
            budget: { max_calls: 21, max_tokens: null, max_cost: null, max_failures: null },
            failure:
              "The budget of 21 calls has no room for another example: it ended after 10 of 40 examples. Spent: 20 calls, 200 input and 20 output tokens, cost 0.24."
          })
          assert.deepInclude(failed.spent, { calls: 20, input_tokens: 200, output_tokens: 20 })
          assert.closeTo(failed.spent.cost ?? 0, 0.24, 1e-9)
          assert.isNotNull(failed.finished_at)
          assert.lengthOf(model.asked, 20)
          const refused = yield* Effect.flip(
            admin.releases.create({ params, payload: { comparison_id: failed.id } })
          )
          assert.strictEqual(refused._tag, "COMPARISON_UNFINISHED")
        }).pipe(Effect.scoped)
    )

    it.effect("tokens and money end it too, after the examples in progress at most", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* modelTask("tokens", 40)
        const tokens = yield* finish(admin, params, { budget: { max_tokens: 220 } })
        assert.deepInclude(tokens, { status: "failed" })
        assert.match(tokens.failure ?? "", /^The budget of 220 tokens is spent: it ended after/)
        assert.isAtLeast(tokens.spent.input_tokens + tokens.spent.output_tokens, 220 - 4 * 22)
        assert.isAtMost(tokens.spent.input_tokens + tokens.spent.output_tokens, 220 + 4 * 22)
        const money = yield* finish(admin, params, { budget: { max_cost: 0.24 } })
        assert.match(money.failure ?? "", /^The budget of 0.24 is spent: it ended after/)
        assert.isAtMost(money.spent.cost ?? 0, 0.24 + 4 * 0.024)
        const enough = yield* finish(admin, params, {
          budget: { max_calls: 80, max_tokens: 10_000, max_cost: 9 }
        })
        assert.deepInclude(enough, { status: "completed", compared: 40, failure: null })
        assert.strictEqual(enough.spent.calls, 80)
      }).pipe(Effect.scoped)
    )

    it.effect("a limit of tokens or cost ends a comparison whose provider does not report its tokens", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* modelTask("unreported", 40)
        const server = yield* startScriptedServer([
          { status: 200, body: { choices: [{ message: { content: '{"category":"billing"}' } }] } }
        ])
        const provider = { kind: "openai", base_url: server.url, model: "small", price } as const
        for (const budget of [{ max_tokens: 1_000_000 }, { max_cost: 1_000_000 }]) {
          const ended = yield* finish(admin, params, { candidate: { provider }, budget })
          assert.strictEqual(ended.status, "failed")
          assert.match(
            ended.failure ?? "",
            /^A provider does not report its tokens, so the budget cannot be kept: it ended after [1-8] of 40 examples\./
          )
        }
        // What costs nothing need not be reported for a limit of cost, and calls are counted by this service.
        const { price: _, ...free } = provider
        const counted = yield* finish(admin, params, {
          candidate: { provider: free },
          budget: { max_cost: 1_000_000, max_calls: 1_000 }
        })
        assert.strictEqual(counted.status, "completed")
      }).pipe(Effect.scoped)
    )

    it.effect("calls that may have been answered count with their prompts: a limit of tokens ends them", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* modelTask("unreadable", 40)
        const server = yield* startScriptedServer([{ status: 200, text: "not JSON" }])
        const provider = { kind: "openai", base_url: server.url, model: "small", price } as const
        const instructions = "Sort the message. ".repeat(100)
        const ended = yield* finish(admin, params, {
          candidate: { provider, instructions },
          budget: { max_tokens: 5_000 }
        })
        assert.strictEqual(ended.status, "failed")
        assert.match(ended.failure ?? "", /^The budget of 5000 tokens is spent: it ended after/)
        assert.isAtLeast(ended.spent.input_tokens, 2_500)
        assert.strictEqual(ended.summary.candidate.failed, ended.compared)
      }).pipe(Effect.scoped)
    )

    it.effect("a comparison whose answers fail ends when its failure budget is spent", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* modelTask("failures", 40)
        const server = yield* startScriptedServer([{ status: 401, body: {} }])
        const failed = yield* finish(admin, params, {
          candidate: { provider: { kind: "openai", base_url: server.url, model: "small" } },
          budget: { max_failures: 5 }
        })
        assert.strictEqual(failed.status, "failed")
        assert.match(
          failed.failure ?? "",
          /^[5-9] answers failed, and the budget ends a comparison with 5: it ended after/
        )
        assert.isAtMost(failed.summary.candidate.failed, 9)
        // Each call of both sides was made once, the refused ones too.
        assert.strictEqual(failed.spent.calls, 2 * failed.compared)
      }).pipe(Effect.scoped)
    )

    it.effect("a comparison whose last answers spend the failure budget ends as failed too", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* modelTask("last failures", 3)
        const server = yield* startScriptedServer([{ status: 401, body: {} }])
        const candidate = { provider: { kind: "openai", base_url: server.url, model: "small" } } as const
        const failed = yield* finish(admin, params, { candidate, budget: { max_failures: 3 } })
        assert.deepInclude(failed, { status: "failed", compared: 3 })
        assert.match(failed.failure ?? "", /^3 answers failed, .* it ended after 3 of 3 examples/)
        const allowed = yield* finish(admin, params, { candidate, budget: { max_failures: 4 } })
        assert.deepInclude(allowed, { status: "completed", failure: null })
      }).pipe(Effect.scoped)
    )

    it.effect("what a cancelled comparison has spent includes calls whose answers were discarded", () =>
      Effect.gen(function* () {
        const { admin, model, params } = yield* modelTask("cancelled", 40)
        model.silentAfter(4)
        const { comparison } = yield* admin.comparisons.create({ params, payload: {} })
        yield* model.silent
        const { id } = comparison
        yield* admin.comparisons.cancel({ params: { id } })
        const ended = yield* eventually(
          admin.comparisons.get({ params: { id }, query: {} }),
          (found) => found.comparison.spent.calls > 0
        )
        assert.strictEqual(ended.comparison.status, "cancelled")
      }).pipe(Effect.scoped)
    )

    it.effect("budgets below one example are refused with their pointers", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* modelTask("too small", 1)
        const refused = yield* Effect.flip(
          admin.comparisons.create({
            params,
            payload: { budget: { max_calls: 1, max_tokens: 3, max_cost: 0, max_failures: 0 } }
          })
        )
        assert.strictEqual(refused._tag, "INVALID_COMPARISON")
        assert.sameMembers(
          [...pointersOf(refused)],
          ["#/budget/max_calls", "#/budget/max_tokens", "#/budget/max_cost", "#/budget/max_failures"]
        )
        const free = yield* admin.tasks.create({ payload: sortingTask })
        const [example] = sortingExamples(["a", "other"])
        const of = { id: free.id }
        yield* admin.datasets.create({ params: of, payload: { examples: [example!] } })
        const unpriced = yield* Effect.flip(
          admin.comparisons.create({ params: of, payload: { budget: { max_cost: 5 } } })
        )
        assert.deepStrictEqual(pointersOf(unpriced), ["#/budget/max_cost"])
      }).pipe(Effect.scoped)
    )
  }
)
