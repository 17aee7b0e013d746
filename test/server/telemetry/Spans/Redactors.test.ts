import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { SqlError } from "effect/sql"
import { OrgId } from "../../../../src/domain/Ids.ts"
import { KnownValues } from "../../../../src/domain/redaction/Redaction.ts"
import { TOO_LONG } from "../../../../src/server/telemetry/Spans/Content.ts"
import { makeRedactors } from "../../../../src/server/telemetry/Spans/Redactors.ts"

const org_id = OrgId.make("org_00000000000070008000000000000000")

/** Redactors with these secrets; counts how often secrets were read and how often encoding paused. */
const redactors = (of: Effect.Effect<KnownValues>) => {
  const seen = { now: 0, reads: 0, pauses: 0 }
  const count = (what: "reads" | "pauses") => Effect.sync(() => void seen[what]++)
  const read = () => Effect.andThen(count("reads"), of)
  const redactorsOf = makeRedactors({ forOrg: read }, () => seen.now, count("pauses"))
  return { seen, redactor: Effect.map(redactorsOf(new Set([org_id])), (found) => found.get(org_id)) }
}

describe("Redactors", () => {
  it.effect("content is redacted, and the event loop is given back before the texts are replaced", () =>
    Effect.gen(function* () {
      const { redactor, seen } = redactors(Effect.succeed(new KnownValues(["Aunt-Agatha-keeps-bees"])))
      const clean = (yield* redactor) ?? assert.fail("a redactor")
      assert.deepStrictEqual(yield* clean({ a: ["one", "Aunt-Agatha-keeps-bees", 3] }), {
        a: ["one", "[REDACTED]", 3]
      })
      assert.isAtLeast(seen.pauses, 1)
    })
  )

  it.effect("a value whose JSON is too long is not exported, however few characters it has", () =>
    Effect.gen(function* () {
      const clean =
        (yield* redactors(Effect.succeed(new KnownValues([]))).redactor) ?? assert.fail("a redactor")
      assert.strictEqual(yield* clean("\n".repeat(20_000)), TOO_LONG)
      assert.strictEqual(yield* clean("n".repeat(20_000)), "n".repeat(20_000))
    })
  )

  it.effect(
    "content is left out while secrets cannot be decrypted, with another attempt after a minute",
    () =>
      Effect.gen(function* () {
        const { redactor, seen } = redactors(Effect.die(new Error("does not open")))
        assert.isNull(yield* redactor)
        assert.isNull(yield* redactor)
        assert.strictEqual(seen.reads, 1)
        seen.now = 60_000
        assert.isNull(yield* redactor)
        assert.strictEqual(seen.reads, 2)
      })
  )

  it.effect(
    "an unavailable, starting or overloaded database is a failure, not a reason to leave content out",
    () =>
      Effect.gen(function* () {
        const refused = (code: string) => new SqlError.UnknownError({ cause: { code } })
        for (const reason of [
          new SqlError.ConnectionError({ cause: "away" }),
          refused("57P03"),
          refused("53300")
        ]) {
          const { redactor, seen } = redactors(Effect.die(new SqlError.SqlError({ reason })))
          assert.isTrue(Exit.isFailure(yield* Effect.exit(redactor)))
          assert.isTrue(Exit.isFailure(yield* Effect.exit(redactor)))
          assert.strictEqual(seen.reads, 2)
        }
      })
  )
})
