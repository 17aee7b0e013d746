import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Schema } from "effect"
import { rowsOf } from "../../../src/server/store/rows.ts"

describe("rowsOf", () => {
  const rows = rowsOf(
    Schema.Struct({ id: Schema.String.check(Schema.isMinLength(3)), created_at: Schema.DateTimeUtcFromDate })
  )
  const row = { id: "a", created_at: new Date(0) }

  it.effect("rows are decoded in order, without running checks that held when they were written", () =>
    Effect.gen(function* () {
      const all = yield* rows.all(Effect.succeed([row, { ...row, id: "b" }]))
      assert.deepStrictEqual(
        all.map(({ id }) => id),
        ["a", "b"]
      )
      assert.strictEqual((yield* rows.first(Effect.succeed([row])))?.created_at.epochMilliseconds, 0)
      assert.isUndefined(yield* rows.first(Effect.succeed([])))
    })
  )

  it.effect("a row of another form is a defect, and a failing statement keeps its error", () =>
    Effect.gen(function* () {
      const broken = yield* Effect.exit(rows.all(Effect.succeed([{ id: 1 }])))
      assert.isTrue(Exit.isFailure(broken) && Cause.hasDies(broken.cause))
      assert.strictEqual(yield* Effect.flip(rows.all(Effect.fail("no connection"))), "no connection")
    })
  )
})
