import { assert, layer } from "@effect/vitest"
import { Effect, type Schema } from "effect"
import { Shapes } from "../../../src/server/tasks/Shapes.ts"

const never = Effect.die("It is kept, and need not be loaded")

layer(Shapes.layer)("Shapes", (it) => {
  it.effect("say where in a request a schema is at fault", () =>
    Effect.gen(function* () {
      const { compile } = yield* Shapes
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
      const shapes = yield* Shapes
      const schema = { type: "object", required: ["a"] }
      const shape = yield* shapes.compile(schema)
      assert.strictEqual(yield* shapes.compile({ ...schema }), shape)
      assert.strictEqual(yield* shapes.stored(shape.digest, never), shape)
    })
  )

  it.effect("are compiled anew when the store holds one that is not kept any more", () =>
    Effect.gen(function* () {
      const shapes = yield* Shapes
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
      const again = yield* shapes.stored(first.digest, load)
      yield* shapes.stored(first.digest, load)
      assert.strictEqual(again.digest, first.digest)
      assert.strictEqual(loaded, 1)
    })
  )
})
