import { assert, layer } from "@effect/vitest"
import { Effect, type Schema } from "effect"
import { CompiledSchemas } from "../../../src/server/tasks/CompiledSchemas.ts"

const never = Effect.die("It is kept, and need not be loaded")

layer(CompiledSchemas.layer)("Shapes", (it) => {
  it.effect("say where in a request a schema is at fault", () =>
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

  it.effect("are compiled once, and found again by their digest", () =>
    Effect.gen(function* () {
      const shapes = yield* CompiledSchemas
      const schema = { type: "object", required: ["a"] }
      const shape = yield* shapes.compile(schema)
      assert.strictEqual(yield* shapes.compile({ ...schema }), shape)
      assert.strictEqual(yield* shapes.get(shape.digest, never), shape)
    })
  )

  it.effect("are compiled anew when the store holds one that is not kept any more", () =>
    Effect.gen(function* () {
      const shapes = yield* CompiledSchemas
      const large = (title: string): Schema.Json => ({
        type: "object",
        title,
        description: "x".repeat(60_000)
      })
      const first = yield* shapes.compile(large("a"))
      // More text than is kept in all.
      for (let count = 0; count < 80; count++) yield* shapes.compile(large(`b${count}`))
      let loaded = 0
      const load = Effect.sync(() => {
        loaded++
        return large("a")
      })
      const again = yield* shapes.get(first.digest, load)
      yield* shapes.get(first.digest, load)
      assert.strictEqual(again.digest, first.digest)
      assert.strictEqual(loaded, 1)
    })
  )
})
