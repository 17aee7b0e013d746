import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { ClientCalls } from "../../../../src/client/Client.ts"
import type { ComparisonId } from "../../../../src/domain/Ids.ts"
import { eventually } from "../../../support/eventually.ts"
import { startScriptedServer } from "../../../support/scripted.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { pointersOf, send, service } from "../../../support/service.ts"
import { createTeamClients } from "../../../support/tasks.ts"

/** A chat completion of this answer. */
const completion = (answer: object) => ({
  status: 200,
  body: {
    choices: [{ finish_reason: "stop", message: { role: "assistant", content: JSON.stringify(answer) } }],
    usage: { prompt_tokens: 10, completion_tokens: 2 }
  }
})

/** Creates a task whose model always answers the same, with one example. */
const readingTask = Effect.fnUntraced(function* (organization: string, expected: object, answer: object) {
  const { admin } = yield* createTeamClients(organization)
  const server = yield* startScriptedServer([completion(answer)])
  const task = yield* admin.tasks.create({
    payload: {
      name: "read invoices",
      input_schema: { type: "object" },
      answer_schema: {
        type: "object",
        properties: {
          total: { type: "number" },
          vendor: { type: "string" },
          tags: { type: "array", items: { type: "string" } },
          note: { type: "string" }
        },
        required: ["total"],
        additionalProperties: false
      },
      provider: { kind: "openai", base_url: server.url, model: "reader" }
    }
  })
  const params = { id: task.id }
  yield* admin.datasets.create({
    params,
    payload: { examples: [{ input: { page: 1 }, answer: { ...expected } }] }
  })
  return { admin, params, server }
})

const completed = (admin: ClientCalls, id: ComparisonId) =>
  eventually(
    admin.comparisons.get({ params: { id }, query: {} }),
    (found) => found.comparison.status === "completed"
  )

const expected = { total: 100, vendor: "Müller GmbH", tags: ["a", "b"], note: "paid" }
const answer = { total: 100.4, vendor: "müller  gmbh", tags: ["b", "a"], note: "unpaid" }

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "Comparisons › evaluators",
  (it) => {
    it.effect("each value is compared by its evaluator, and the comparison keeps them", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* readingTask("evaluators", expected, answer)
        const plain = yield* admin.comparisons.create({ params, payload: {} })
        const strict = yield* completed(admin, plain.comparison.id)
        assert.deepInclude(strict.results[0]?.candidate, {
          agrees: false,
          disagreeing: ["note", "tags", "total", "vendor"],
          score: 0
        })
        const evaluators = {
          "/total": { kind: "number", absolute_tolerance: 0.5, weight: 6 },
          "/vendor": { kind: "text", weight: 2 },
          "/tags": { kind: "unordered" }
        } as const
        const some = yield* admin.comparisons.create({ params, payload: { evaluators } })
        const { comparison, results } = yield* completed(admin, some.comparison.id)
        assert.deepStrictEqual(comparison.evaluators, {
          "/total": { kind: "number", absolute_tolerance: 0.5, relative_tolerance: 0, weight: 6 },
          "/vendor": { kind: "text", ignore_case: true, ignore_punctuation: false, weight: 2 },
          "/tags": { kind: "unordered", weight: 1 }
        })
        assert.deepInclude(results[0]?.candidate, { agrees: false, disagreeing: ["note"], score: 0.9 })
        assert.strictEqual(comparison.summary.candidate.score, 0.9)
        assert.deepStrictEqual(comparison.summary.fields, [
          { field: "total", compared: 1, candidate: 1, live: 1 },
          { field: "vendor", compared: 1, candidate: 1, live: 1 },
          { field: "tags", compared: 1, candidate: 1, live: 1 },
          { field: "note", compared: 1, candidate: 0, live: 0 }
        ])
        const all = yield* admin.comparisons.create({
          params,
          payload: { evaluators: { ...evaluators, "/note": { kind: "ignore" } } }
        })
        const lenient = yield* completed(admin, all.comparison.id)
        assert.deepInclude(lenient.results[0]?.candidate, { agrees: true, disagreeing: [], score: 1 })
        assert.notInclude(
          lenient.comparison.summary.fields.map(({ field }) => field),
          "note"
        )
      }).pipe(Effect.scoped)
    )

    it.effect("evaluators that do not fit the answer schema are refused with their pointers", () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const { admin, params } = yield* readingTask("misfits", expected, answer)
        const refused = yield* Effect.flip(
          admin.comparisons.create({
            params,
            payload: {
              evaluators: {
                "/totl": { kind: "number" },
                "/vendor": { kind: "number" },
                "/tags/*": { kind: "text", weight: 2 }
              }
            }
          })
        )
        assert.strictEqual(refused._tag, "INVALID_COMPARISON")
        assert.sameMembers(
          [...pointersOf(refused)],
          ["#/evaluators/~1totl", "#/evaluators/~1vendor/kind", "#/evaluators/~1tags~1*/weight"]
        )
        const key = yield* countersign.key({}, "misfits")
        const compare = (evaluators: object) =>
          send(`/v1/tasks/${params.id}/comparisons`, {
            key,
            method: "POST",
            body: JSON.stringify({ evaluators })
          })
        const unknown = yield* compare({
          "/total": { kind: "magic" },
          "/tags": {},
          "/vendor": { kind: "ignore" }
        })
        assert.strictEqual(unknown.status, 422)
        assert.deepStrictEqual(
          unknown.errors.map(({ pointer }) => pointer),
          ["#/evaluators/~1total/kind", "#/evaluators/~1tags/kind"]
        )
        // Of a known kind, but malformed.
        const malformed = yield* compare({ "/total": { kind: "number", absolute_tolerance: -1 } })
        assert.strictEqual(malformed.status, 400)
        assert.match(malformed.errors[0]?.pointer ?? "", /^#\/evaluators\/~1total/)
      }).pipe(Effect.scoped)
    )

    it.effect("a judge decides about answers that differ, with its own prompt and provider", () =>
      Effect.gen(function* () {
        const { admin, params } = yield* readingTask("judge", expected, answer)
        const judge = yield* startScriptedServer([completion({ reason: "They say the same.", agrees: true })])
        const provider = { kind: "openai", base_url: judge.url, model: "judge" } as const
        const { comparison } = yield* admin.comparisons.create({
          params,
          payload: {
            judge: {
              instructions: "Be lenient about notes.",
              provider: { ...provider, api_key: Redacted.make("sk-judge") }
            }
          }
        })
        assert.deepInclude(comparison.judge, { instructions: "Be lenient about notes." })
        assert.notInclude(JSON.stringify(comparison), "sk-judge")
        const done = yield* completed(admin, comparison.id)
        assert.deepStrictEqual(done.comparison.summary.judge, { judged: 2, agreed: 2, failed: 0 })
        assert.strictEqual(done.comparison.summary.candidate.agreed, 1)
        assert.deepInclude(done.results[0]?.candidate, {
          agrees: true,
          score: 0,
          verdict: { agrees: true, reason: "They say the same.", failure: null }
        })
        assert.strictEqual(done.comparison.spent.calls, 4)
        assert.lengthOf(judge.seen, 2)
        assert.strictEqual(judge.seen[0]?.headers.authorization, "Bearer sk-judge")
        const [question] = judge.seen.map(({ body }) => body)
        assert.include(question, "Be lenient about notes.")
        assert.include(question, "unpaid")
        assert.include(question, "Müller GmbH")
      }).pipe(Effect.scoped)
    )

    it.effect("an answer that agrees is not judged, and a judge that fails does not make one agree", () =>
      Effect.gen(function* () {
        const judge = yield* startScriptedServer([{ status: 401, body: {} }])
        const asked = {
          judge: { provider: { kind: "openai", base_url: judge.url, model: "judge" } as const }
        }
        const same = yield* readingTask("agrees", expected, expected)
        const agreed = yield* same.admin.comparisons.create({ params: same.params, payload: asked })
        const done = yield* completed(same.admin, agreed.comparison.id)
        assert.deepStrictEqual(done.comparison.summary.judge, { judged: 0, agreed: 0, failed: 0 })
        assert.lengthOf(judge.seen, 0)
        assert.include(agreed.comparison.judge?.instructions, "`expected`")

        const other = yield* readingTask("fails", expected, answer)
        const differs = yield* other.admin.comparisons.create({ params: other.params, payload: asked })
        const { comparison, results } = yield* completed(other.admin, differs.comparison.id)
        assert.deepStrictEqual(comparison.summary.judge, { judged: 2, agreed: 0, failed: 2 })
        assert.strictEqual(comparison.summary.candidate.agreed, 0)
        assert.match(results[0]?.live.verdict?.failure ?? "", /401/)

        const refused = yield* Effect.flip(
          other.admin.comparisons.create({
            params: other.params,
            payload: { judge: { provider: { kind: "examples" } } }
          })
        )
        assert.deepStrictEqual(pointersOf(refused), ["#/judge/provider/kind"])
      }).pipe(Effect.scoped)
    )
  }
)
