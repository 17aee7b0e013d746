import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"
import { findAnswer } from "../../../../src/server/tasks/Providers/findAnswer.ts"
import { sortingTask } from "../../../support/tasks.ts"

const compiled = Result.getOrThrow(compileSchema(sortingTask.answer_schema))

const find = (content: string) => findAnswer(content, compiled)
const faultOf = (content: string) => Result.getOrThrow(Result.flip(find(content)))[0]

describe("findAnswer", () => {
  it("the one object that matches the schema is the answer", () => {
    const texts = [
      '{"category":"other"}',
      ' \n{"category":"other"}\n',
      '```json\n{"category":"other"}\n```',
      'For the input {"text":"a { b"} it is {"category":"other"}.',
      '{"category":"other"} and again {"category":"other"}',
      'Set {"category"} as in {{"category":"other"}}',
      '<think>{"category":"billing"}</think>{"category":"other"}'
    ]
    for (const text of texts) {
      const found = find(text)
      assert.deepStrictEqual(Result.getOrThrow(found), { category: "other" }, text)
    }
  })

  it("two different answers are refused, and an object that does not match is named by its faults", () => {
    assert.include(faultOf('{"category":"other"} or {"category":"billing"}')?.detail, "several")
    assert.strictEqual(faultOf('It is {"category":"unknown"}.')?.pointer, "#/category")
    assert.strictEqual(faultOf("no object")?.pointer, "#")
    assert.isTrue(Result.isFailure(find('{"category":"other","category":"billing"}')))
  })

  it("a text of opening brackets is read within a limit", () => {
    assert.isTrue(Result.isFailure(find('{"'.repeat(2_000_000))))
    assert.isTrue(Result.isFailure(find("{".repeat(4_000_000))))
    const hidden = `${"{ ".repeat(20)}{"category":"other"}`
    assert.isTrue(Result.isFailure(find(hidden)), "beyond the places that are tried")
  })
})
