import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { exampleError, parseExamples } from "../../../../src/console/pages/tasks/parseExamples.ts"

const one = { input: { text: "a" }, answer: { category: "x" } }
const two = { input: { text: "b" }, answer: { category: "y" } }

describe("parseExamples", () => {
  it("examples are parsed from JSON Lines, a JSON array or a single object, and blank lines are ignored", () => {
    const lines = `${JSON.stringify(one)}\r\n\n${JSON.stringify(two)}\n`
    assert.deepStrictEqual(parseExamples(lines), Result.succeed([one, two]))
    assert.deepStrictEqual(parseExamples(JSON.stringify([one, two], null, 2)), Result.succeed([one, two]))
    assert.deepStrictEqual(parseExamples(JSON.stringify(one)), Result.succeed([one]))
  })

  it.each([
    ["", "Add at least one example"],
    ["[]", "Add at least one example"],
    ["7", 'Example 1: expected an object with the objects "input" and "answer"'],
    [`${JSON.stringify(one)}\n{"input":`, "Line 2: Invalid JSON"],
    [`${JSON.stringify(one)}\n{"input":{}}`, "Line 2: expected an object"],
    [`[{"input":{},"answer":[]}]`, "Example 1: expected an object"]
  ])("the invalid text %j fails with its line or example number", (text, why) => {
    const read = parseExamples(text)
    assert.isTrue(Result.isFailure(read) && read.failure.startsWith(why), JSON.stringify(read))
  })

  it("a validation error of the server names the example, counted from one", () => {
    const failure = {
      title: "Input does not match the schema",
      detail: "",
      code: "INVALID_INPUT",
      requestId: undefined,
      errors: [{ pointer: "#/examples/1/answer/category", detail: "is required" }]
    }
    assert.strictEqual(exampleError(failure), "Example 2, /answer/category: is required")
    assert.isUndefined(exampleError({ ...failure, errors: [] }))
  })
})
