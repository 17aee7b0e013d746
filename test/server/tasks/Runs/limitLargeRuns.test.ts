import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { OrgId } from "../../../../src/domain/Ids.ts"
import { limitLargeRuns } from "../../../../src/server/tasks/Runs/limitLargeRuns.ts"

describe("limitLargeRuns", () => {
  it.effect("a third large run of an organization waits, small ones and those of others do not", () =>
    Effect.gen(function* () {
      const [org_id, other] = [yield* OrgId.generate, yield* OrgId.generate]
      const row = (of: OrgId, characters: number) => ({
        run: { org_id: of },
        input: "x".repeat(characters),
        answer: null,
        metadata: "{}"
      })
      const end = yield* Deferred.make<void>()
      const started: Array<string> = []
      const insert = limitLargeRuns(({ input, run }: ReturnType<typeof row>) =>
        Effect.suspend(() => {
          started.push(`${run.org_id === org_id ? "own" : "other"} ${input.length}`)
          return Effect.as(Deferred.await(end), true)
        })
      )
      const rows = [
        row(org_id, 100_000),
        row(org_id, 100_001),
        row(org_id, 100_002),
        row(other, 100_000),
        row(org_id, 10)
      ]
      const all = yield* Effect.forkChild(Effect.forEach(rows, insert, { concurrency: "unbounded" }))
      yield* Effect.yieldNow
      assert.deepStrictEqual(started, ["own 100000", "own 100001", "other 100000", "own 10"])
      yield* Deferred.succeed(end, undefined)
      assert.deepStrictEqual(yield* Fiber.join(all), [true, true, true, true, true])
      assert.strictEqual(started.at(-1), "own 100002")
    })
  )
})
