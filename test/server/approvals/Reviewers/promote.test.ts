import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { StepId } from "../../../../src/domain/Ids.ts"
import { awaitAnswers, providerEnvironment, reviewerTeam } from "../../../support/reviewers.ts"
import { service } from "../../../support/service.ts"

layer(service({ environment: providerEnvironment }), { timeout: "60 seconds" })(
  "Examples of reviewer models",
  (it) => {
    it.effect(
      "are the decisions of people that they can have read, the latest of each input, with their comments",
      () =>
        Effect.gen(function* () {
          const { admin, agent, countersign, decide, params, session_id, submit } =
            yield* reviewerTeam("promoted")
          yield* countersign.advance("1 minute")
          const first = yield* submit({ amount: 50 })
          yield* countersign.advance("1 minute")
          yield* decide(first, "reject", "Too much.")
          // The same input in another session, decided otherwise later.
          const other = yield* agent.sessions.create({ payload: { metadata: { customer: "promoted" } } })
          const again = yield* agent.sessions.step({
            params: { id: other.session_id },
            payload: {
              step_id: StepId.make("again"),
              tool: "payments.refund",
              action_class: "write",
              arguments: { amount: 50 }
            }
          })
          yield* countersign.advance("1 minute")
          yield* decide(again.approval_id ?? assert.fail(), "approve", "After all.")
          const unread = yield* submit({ amount: 60 })
          yield* decide(unread, "approve")
          const mail = yield* submit({ amount: 70 }, { tool: "mail.send" })
          const large = yield* submit("x".repeat(70_000))
          const pending = yield* submit({ amount: 80 })
          yield* countersign.advance("1 minute")
          yield* decide(mail, "approve")
          yield* decide(large, "approve")
          const created = yield* admin.reviewers.promote({ params, payload: {} })
          assert.deepInclude(created, {
            version: 1,
            example_count: 1,
            examples_added: 1,
            examples_repeated: 1
          })
          const { examples } = yield* admin.datasets.listExamples({ params: { id: created.id } })
          assert.deepStrictEqual(
            examples.map(({ answer, input, origin }) => ({ answer, input, origin })),
            [
              {
                answer: { decision: "approve", reason: "After all." },
                input: {
                  tool: "payments.refund",
                  action_class: "write",
                  arguments: { amount: 50 },
                  rule: { reason: "No rule matches; a person must approve" },
                  session: { metadata: { customer: "promoted" }, last_steps: [] }
                },
                origin: "made"
              }
            ]
          )
          // A version that adds nothing would be the same: the next one has the next decision.
          yield* decide(pending, "reject", "No.")
          const next = yield* admin.reviewers.promote({ params, payload: { limit: 1 } })
          assert.deepInclude(next, { version: 2, example_count: 2, base_dataset_id: created.id })
          yield* agent.sessions.close({ params: { id: session_id } })
        })
    )

    it.effect("without a decision that can be one are refused, and say what to do", () =>
      Effect.gen(function* () {
        const { admin, params, submit } = yield* reviewerTeam("nothing decided")
        yield* submit({ amount: 50 })
        const refused = yield* Effect.flip(admin.reviewers.promote({ params, payload: {} }))
        assert.strictEqual(refused._tag, "INVALID_INPUT")
        assert.match(String(Reflect.get(refused, "detail")), /decide approvals of these tools first/)
      })
    )

    it.effect("are in the prompt, nearest last, and end the figures of the time before them", () =>
      Effect.gen(function* () {
        const { admin, countersign, decide, figures, model, params, submit } = yield* reviewerTeam("prompt")
        const first = yield* submit({ amount: 50, to: "Ann" })
        yield* awaitAnswers(params.task_id, 1)
        yield* countersign.advance("1 minute")
        yield* decide(first, "approve", "Known customer.")
        assert.deepInclude((yield* figures)[0]?.agreement, { count: 1, of: 1 })
        const pending = yield* submit({ amount: 51, to: "Bob" })
        yield* awaitAnswers(params.task_id, 2)
        yield* countersign.advance("1 minute")
        yield* admin.reviewers.promote({ params, payload: {} })
        // It answers with examples now, so what it answered without them is measured no more.
        assert.deepStrictEqual(yield* figures, [])
        yield* decide(pending, "approve")
        assert.deepStrictEqual(yield* figures, [])
        const next = yield* submit({ amount: 52, to: "Ann" })
        yield* awaitAnswers(params.task_id, 3)
        const examples = model.seen[2]?.examples ?? []
        assert.deepStrictEqual(
          examples.map(({ role }) => role),
          ["user", "assistant"]
        )
        assert.include(examples[0]?.content, '"to":"Ann"')
        assert.deepStrictEqual(JSON.parse(examples[1]?.content ?? ""), {
          decision: "approve",
          reason: "Known customer."
        })
        yield* countersign.advance("1 minute")
        yield* decide(next, "approve")
        assert.deepInclude((yield* figures)[0]?.agreement, { count: 1, of: 1 })
      })
    )
  }
)
