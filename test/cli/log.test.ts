import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestConsole } from "effect/testing"
import { layerLog, layerLogLevel, showError } from "../../src/cli/log.ts"

/** An error with the properties that libraries attach. */
const errorWithProperties = () => {
  const cause = Object.assign(new Error("the statement failed"), { parameters: ["s3cret"] })
  return Object.assign(new TypeError("Invalid URL", { cause }), {
    input: "https://user:s3cret@acme.com/",
    request: { headers: { authorization: "Bearer s3cret" } }
  })
}

describe("an error in the log", () => {
  it("has its stack and those of its causes, and no attached properties", () => {
    const shown = showError(errorWithProperties())
    assert.include(shown, "TypeError: Invalid URL")
    assert.include(shown, "log.test.ts")
    assert.include(shown, "the statement failed")
    assert.notInclude(shown, "s3cret")
  })

  it("names only the type of a thrown value that is not an error", () => {
    assert.strictEqual(showError("s3cret"), "a thrown string")
    assert.strictEqual(showError(undefined), "a thrown undefined")
    assert.strictEqual(showError({ token: "s3cret" }), "a thrown object")
  })

  it.effect("the message of a line is a string, and objects beside it are annotations", () =>
    Effect.gen(function* () {
      yield* Effect.logInfo("Dropped spans", { spans: 3 })
      yield* Effect.annotateLogs(Effect.logInfo("one", "two"), { request_id: "req_1" })
      yield* Effect.logError(new Error("alone"))
      const [dropped, joined, alone] = (yield* TestConsole.errorLines).map(
        (line): { message: unknown; annotations: unknown } => JSON.parse(String(line))
      )
      assert.deepInclude(dropped, { message: "Dropped spans", annotations: { spans: 3 } })
      assert.deepInclude(joined, { message: "one two", annotations: { request_id: "req_1" } })
      assert.isString(alone?.message)
    }).pipe(Effect.provide(layerLog()))
  )

  it.effect("the format of the environment is used; an invalid one changes nothing", () =>
    Effect.gen(function* () {
      yield* Effect.provide(Effect.logInfo("plain", { spans: 3 }), layerLog("pretty"))
      yield* Effect.provide(Effect.logInfo("json"), layerLog(" JSON "))
      yield* Effect.provide(Effect.logInfo("as by default"), layerLog("xml"))
      const lines = (yield* TestConsole.errorLines).map(String)
      assert.match(lines[0] ?? "", /INFO .*plain/)
      assert.isFalse(lines[0]?.startsWith("{"))
      assert.match(lines.at(-2) ?? "", /^\{.*"message":"json"/)
      assert.match(lines.at(-1) ?? "", /^\{.*"message":"as by default"/)
    })
  )

  it.effect("the level of the environment hides less severe lines; an invalid one changes nothing", () =>
    Effect.gen(function* () {
      const logged = (level: string | undefined) =>
        Effect.andThen(
          Effect.logDebug("debug"),
          Effect.andThen(Effect.logInfo("info"), Effect.logWarning("warn"))
        ).pipe(Effect.provide(layerLogLevel(level)))
      const count = Effect.map(TestConsole.errorLines, (lines) => lines.length)
      yield* logged("warn")
      assert.strictEqual(yield* count, 1)
      yield* logged("DEBUG")
      assert.strictEqual(yield* count, 4)
      yield* logged("loud")
      assert.strictEqual(yield* count, 6)
    }).pipe(Effect.provide(layerLog()))
  )

  it.effect("is formatted the same beside a message and beside a cause", () =>
    Effect.gen(function* () {
      yield* Effect.logWarning("Spans wait", errorWithProperties(), { spans: 3 })
      yield* Effect.logError(errorWithProperties())
      const lines = (yield* TestConsole.errorLines).join("\n")
      assert.include(lines, "Invalid URL")
      assert.include(lines, "the statement failed")
      assert.match(lines, /"spans": ?3/)
      assert.notInclude(lines, "s3cret")
    }).pipe(Effect.provide(layerLog()))
  )
})
