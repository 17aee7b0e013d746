import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestConsole } from "effect/testing"
import { layerLog, showError } from "../../src/cli/log.ts"

/** An error with all that libraries hang on theirs. */
const laden = () => {
  const cause = Object.assign(new Error("the statement failed"), { parameters: ["s3cret"] })
  return Object.assign(new TypeError("Invalid URL", { cause }), {
    input: "https://user:s3cret@acme.com/",
    request: { headers: { authorization: "Bearer s3cret" } }
  })
}

describe("an error that is shown", () => {
  it("has its stack and those of its causes, and nothing else that hangs on it", () => {
    const shown = showError(laden())
    assert.include(shown, "TypeError: Invalid URL")
    assert.include(shown, "log.test.ts")
    assert.include(shown, "the statement failed")
    assert.notInclude(shown, "s3cret")
  })

  it("is told by its kind alone where something else was thrown", () => {
    assert.strictEqual(showError("s3cret"), "a thrown string")
    assert.strictEqual(showError(undefined), "a thrown undefined")
    assert.strictEqual(showError({ token: "s3cret" }), "a thrown object")
  })

  it.effect("is the same in a log, beside a text and beside a cause", () =>
    Effect.gen(function* () {
      yield* Effect.logWarning("Spans wait", laden(), { spans: 3 })
      yield* Effect.logError(laden())
      const lines = (yield* TestConsole.errorLines).join("\n")
      assert.include(lines, "Invalid URL")
      assert.include(lines, "the statement failed")
      assert.match(lines, /"spans": ?3/)
      assert.notInclude(lines, "s3cret")
    }).pipe(Effect.provide(layerLog))
  )
})
