import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, type Schema } from "effect"
import { CompiledSchemas } from "../../../src/server/tasks/CompiledSchemas.ts"

const noLoad = Effect.die("The schema is cached and must not be loaded")

layer(CompiledSchemas.layer)("CompiledSchemas", (it) => {
  it.effect("the problem of an invalid schema points to the fault within the request", () =>
    Effect.gen(function* () {
      const { compile } = yield* CompiledSchemas
      const problem = yield* Effect.flip(
        compile({ type: "object", properties: { a: { type: "text" } } }, "#/answer_schema")
      )
      assert.strictEqual(problem.code, "INVALID_SCHEMA")
      assert.strictEqual(problem.status, 422)
      assert.strictEqual(problem.errors?.[0]?.pointer, "#/answer_schema/properties/a/type")
    })
  )

  it.effect("a schema is compiled once and then found by its digest", () =>
    Effect.gen(function* () {
      const schemas = yield* CompiledSchemas
      const schema = { type: "object", required: ["a"] }
      const compiled = yield* schemas.compile(schema)
      assert.strictEqual(yield* schemas.compile({ ...schema }), compiled)
      assert.strictEqual(yield* schemas.get(compiled.digest, noLoad), compiled)
    })
  )

  it.effect("compiling a schema lets other work run between its steps", () =>
    Effect.gen(function* () {
      const schemas = yield* CompiledSchemas
      const log: Array<string> = []
      const note = (entry: string) => Effect.sync(() => void log.push(entry))
      const compiling = schemas.compile({ type: "object", required: ["between"] })
      const one = yield* Effect.forkChild(Effect.andThen(compiling, note("compiled")))
      const other = yield* Effect.forkChild(
        Effect.forEach(["a", "b"], (entry) => Effect.andThen(Effect.yieldNow, note(entry)))
      )
      yield* Fiber.join(one)
      yield* Fiber.join(other)
      assert.deepStrictEqual(log, ["a", "b", "compiled"])
    })
  )

  it.effect("a schema that was evicted from the cache is loaded and compiled again", () =>
    Effect.gen(function* () {
      const schemas = yield* CompiledSchemas
      const large = (title: string): Schema.Json => ({
        type: "object",
        title,
        description: "x".repeat(60_000)
      })
      const first = yield* schemas.compile(large("a"))
      // More text than the cache's limit.
      for (let count = 0; count < 80; count++) yield* schemas.compile(large(`b${count}`))
      let loaded = 0
      const load = Effect.sync(() => {
        loaded++
        return large("a")
      })
      const again = yield* schemas.get(first.digest, load)
      yield* schemas.get(first.digest, load)
      assert.strictEqual(again.digest, first.digest)
      assert.strictEqual(loaded, 1)
    })
  )
})
