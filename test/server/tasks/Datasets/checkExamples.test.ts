import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Result, type Schema } from "effect"
import { compileSchema } from "../../../../src/domain/tasks/CompiledSchema.ts"
import { checkExamples } from "../../../../src/server/tasks/Datasets/checkExamples.ts"
import { exponentialSchema } from "../../../support/schemas.ts"

const compile = (schema: Schema.Json) => Result.getOrThrow(compileSchema(schema))

const anyObject = compile({ type: "object" })

const emptyExamples = (count: number) => Array.from({ length: count }, () => ({ input: {}, answer: {} }))

describe("checkExamples", () => {
  it.effect("examples that are cheap one by one are refused if they take too much work together", () =>
    Effect.gen(function* () {
      const costly = compile(exponentialSchema(12))
      assert.lengthOf(costly.check({}), 0)
      yield* checkExamples({ inputs: costly, answers: anyObject }, emptyExamples(50))
      const refused = yield* Effect.flip(
        checkExamples({ inputs: costly, answers: anyObject }, emptyExamples(40_000))
      )
      assert.strictEqual(refused.code, "INVALID_INPUT")
      assert.match(refused.errors?.[0]?.pointer ?? "", /^#\/examples\/\d+$/)
      assert.strictEqual(refused.errors?.[0]?.detail, "exceeds the validation limit of the request")
      assert.match(refused.detail ?? "", /Send fewer examples per request\.$/)
    })
  )

  it.effect("as many ordinary examples as fit a request body are all validated", () =>
    checkExamples(
      {
        inputs: compile({ type: "object", properties: { text: { type: "string" } }, required: ["text"] }),
        answers: compile({ type: "object", properties: { label: { enum: ["a", "b"] } }, required: ["label"] })
      },
      Array.from({ length: 20_000 }, () => ({ input: { text: "x" }, answer: { label: "b" } }))
    )
  )

  it.effect("validation yields to other fibers, and stops after twenty faults", () =>
    Effect.gen(function* () {
      let ticks = 0
      const otherFiber = yield* Effect.forkChild(
        Effect.forever(
          Effect.andThen(
            Effect.yieldNow,
            Effect.sync(() => ticks++)
          )
        )
      )
      /** The tick at which each example was read. */
      const readAt: Array<number> = []
      const examples = function* () {
        for (const example of emptyExamples(40_000)) {
          readAt.push(ticks)
          yield example
        }
      }
      const costly = compile(exponentialSchema(12))
      yield* Effect.flip(checkExamples({ inputs: costly, answers: anyObject }, examples()))
      assert.isAbove(new Set(readAt).size, 10)
      yield* Fiber.interrupt(otherFiber)
      readAt.length = 0
      const strict = compile({ type: "object", required: ["a"] })
      const refused = yield* Effect.flip(checkExamples({ inputs: strict, answers: anyObject }, examples()))
      assert.lengthOf(refused.errors ?? [], 20)
      assert.lengthOf(readAt, 20)
    })
  )
})
