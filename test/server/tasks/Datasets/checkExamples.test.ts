import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Result, type Schema } from "effect"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"
import { checkExamples } from "../../../../src/server/tasks/Datasets/checkExamples.ts"
import { exponentialSchema } from "../../../support/schemas.ts"

const shape = (schema: Schema.Json) => Result.getOrThrow(compileSchema(schema))

const any = shape({ type: "object" })

const empty = (count: number) => Array.from({ length: count }, () => ({ input: {}, answer: {} }))

describe("the examples of one request", () => {
  it.effect("are refused where they take too much work together, though each would do alone", () =>
    Effect.gen(function* () {
      const costly = shape(exponentialSchema(12))
      assert.lengthOf(costly.check({}), 0)
      yield* checkExamples({ inputs: costly, answers: any }, empty(50))
      const refused = yield* Effect.flip(checkExamples({ inputs: costly, answers: any }, empty(40_000)))
      assert.strictEqual(refused.code, "INVALID_INPUT")
      assert.match(refused.errors?.[0]?.pointer ?? "", /^#\/examples\/\d+$/)
      assert.match(refused.errors?.[0]?.detail ?? "", /send fewer/)
    })
  )

  it.effect("are all checked where they are as many as a body holds, and usual", () =>
    checkExamples(
      {
        inputs: shape({ type: "object", properties: { text: { type: "string" } }, required: ["text"] }),
        answers: shape({ type: "object", properties: { label: { enum: ["a", "b"] } }, required: ["label"] })
      },
      Array.from({ length: 20_000 }, () => ({ input: { text: "x" }, answer: { label: "b" } }))
    )
  )

  it.effect("let others have their turn, and are not looked at any more once there are twenty faults", () =>
    Effect.gen(function* () {
      let turns = 0
      const others = yield* Effect.forkChild(
        Effect.forever(
          Effect.andThen(
            Effect.yieldNow,
            Effect.sync(() => turns++)
          )
        )
      )
      const looked: Array<number> = []
      const examples = function* () {
        for (const example of empty(40_000)) {
          looked.push(turns)
          yield example
        }
      }
      yield* Effect.flip(checkExamples({ inputs: shape(exponentialSchema(12)), answers: any }, examples()))
      assert.isAbove(new Set(looked).size, 10)
      yield* Fiber.interrupt(others)
      looked.length = 0
      const strict = shape({ type: "object", required: ["a"] })
      const refused = yield* Effect.flip(checkExamples({ inputs: strict, answers: any }, examples()))
      assert.lengthOf(refused.errors ?? [], 20)
      assert.lengthOf(looked, 20)
    })
  )
})
