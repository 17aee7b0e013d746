import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { exampleError, parseExamples } from "../../../../src/console/pages/tasks/parseExamples.ts"

const one = { input: { text: "a" }, answer: { category: "x" } }
const two = { input: { text: "b" }, answer: { category: "y" } }

describe("pasted examples", () => {
  it("are lines of JSON, an array, or one alone; blank lines are none", () => {
    const lines = `${JSON.stringify(one)}\r\n\n${JSON.stringify(two)}\n`
    assert.deepStrictEqual(parseExamples(lines), Result.succeed([one, two]))
    assert.deepStrictEqual(parseExamples(JSON.stringify([one, two], null, 2)), Result.succeed([one, two]))
    assert.deepStrictEqual(parseExamples(JSON.stringify(one)), Result.succeed([one]))
  })

  it.each([
    ["", "There is no example yet"],
    ["[]", "There is no example yet"],
    ["7", 'It is not an object with "input" and "answer", each an object'],
    [`${JSON.stringify(one)}\n{"input":`, "Line 2: This is not JSON"],
    [`${JSON.stringify(one)}\n{"input":{}}`, "Line 2 is not an object"],
    [`[{"input":{},"answer":[]}]`, "Example 1 is not an object"]
  ])("that are none say which: %j", (text, why) => {
    const read = parseExamples(text)
    assert.isTrue(Result.isFailure(read) && read.failure.startsWith(why), JSON.stringify(read))
  })

  it("which the service refuses are counted from one", () => {
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
