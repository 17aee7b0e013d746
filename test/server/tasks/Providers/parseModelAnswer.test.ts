import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"
import { parseModelAnswer } from "../../../../src/server/tasks/Providers/parseModelAnswer.ts"
import { sortingTask } from "../../../support/tasks.ts"

const compiled = Result.getOrThrow(compileSchema(sortingTask.answer_schema))

const find = (content: string) => parseModelAnswer(content, compiled)
const faultOf = (content: string) => Effect.map(Effect.flip(find(content)), ([fault]) => fault)

describe("parseModelAnswer", () => {
  it.effect("the one object that matches the schema is the answer", () =>
    Effect.gen(function* () {
      const texts = [
        '{"category":"other"}',
        ' \n{"category":"other"}\n',
        '<think>{"category":"billing"}</think>{"category":"other"}'
      ]
      for (const text of texts) {
        assert.deepStrictEqual(yield* find(text), { answer: { category: "other" }, repaired: false }, text)
      }
    })
  )

  it.effect("an answer within a text, or in lightly damaged JSON, is read and marked", () =>
    Effect.gen(function* () {
      const texts = [
        '```json\n{"category":"other"}\n```',
        'For the input {"text":"a { b"} it is {"category":"other"}.',
        '{"category":"other"} and again {"category":"other"}',
        'Set {"category"} as in {{"category":"other"}}',
        '<think>{"category":"billing"}</think>Here: {"category":"other"}',
        '{"category":"other",}',
        '{"category":"other" ,\n }',
        '```json\n{\n  "category": "other",\n}\n```',
        JSON.stringify('{"category":"other"}'),
        ` ${JSON.stringify('```json\n{"category":"other",}\n```')}\n`,
        `${"word ".repeat(100_000)}{"category":"other"}`
      ]
      for (const text of texts) {
        const found = yield* find(text)
        assert.deepStrictEqual(found, { answer: { category: "other" }, repaired: true }, text.slice(0, 100))
      }
    })
  )

  it.effect("a comma in a text stays, and what is damaged otherwise is no answer", () =>
    Effect.gen(function* () {
      const noted = Result.getOrThrow(
        compileSchema({ type: "object", properties: { note: { type: "string" } } })
      )
      const note = 'a, }b,] \\" ,}'
      const found = yield* parseModelAnswer(`{"note":${JSON.stringify(note)},}`, noted)
      assert.deepStrictEqual(found, { answer: { note }, repaired: true })
      for (const text of [
        '{"category":"other",,}',
        '{,"category":"other"}',
        '{"category" "other"}',
        '{"category":"other"'
      ]) {
        yield* Effect.flip(find(text))
      }
      // Repaired answers match the schema too.
      yield* Effect.flip(find('{"category":"unknown",}'))
      yield* Effect.flip(find(JSON.stringify(JSON.stringify('{"category":"other"}'))))
    })
  )

  it.effect(
    "two different answers are refused, and an object that does not match is named by its faults",
    () =>
      Effect.gen(function* () {
        const several = yield* faultOf('{"category":"other"} or {"category":"billing"}')
        assert.include(several?.detail, "several")
        assert.strictEqual((yield* faultOf('It is {"category":"unknown"}.'))?.pointer, "#/category")
        assert.strictEqual((yield* faultOf("no object"))?.pointer, "#")
        yield* Effect.flip(find('{"category":"other","category":"billing"}'))
      })
  )

  it.effect("a text of opening brackets is read within a limit", () =>
    Effect.gen(function* () {
      yield* Effect.flip(find('{"'.repeat(2_000_000)))
      yield* Effect.flip(find("{".repeat(4_000_000)))
      yield* Effect.flip(find(`{${", ".repeat(2_000_000)}}`))
      yield* Effect.flip(find(`"${'\\"'.repeat(2_000_000)}`))
      // Beyond the places that are tried.
      yield* Effect.flip(find(`${"{ ".repeat(20)}{"category":"other"}`))
    })
  )

  it.effect("other work of the event loop goes on while a long text is read", () =>
    Effect.gen(function* () {
      const texts = ["word ".repeat(200_000), `Here: {"category":"other","note":"${"x".repeat(4_000_000)}"}`]
      for (const text of texts) {
        let turns = 0
        const count = () => {
          turns++
          immediate = setImmediate(count)
        }
        let immediate = setImmediate(count)
        yield* Effect.ignore(find(text))
        clearImmediate(immediate)
        assert.isAbove(turns, 2)
      }
    })
  )
})
