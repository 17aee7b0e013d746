import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import type { AttemptOutcome } from "../../../../src/domain/delivery/DeliveryState.ts"
import { OrgId } from "../../../../src/domain/Ids.ts"
import { LimitUse } from "../../../../src/server/observability/LimitUse.ts"
import { makeAddressLimit } from "../../../../src/server/notifications/Email/makeAddressLimit.ts"

const organization = (digit: number) =>
  OrgId.make(`org_${"0".repeat(12)}7${"0".repeat(3)}8${"0".repeat(14)}${digit}`)

const accepted: AttemptOutcome = { _tag: "Delivered", status: 250 }
const deferred: AttemptOutcome = { _tag: "Retry", error: "deferred", status: 451, retryAfter: null }

/** A limit of two emails an hour, and the outcomes of emails to an address. */
const setUp = Effect.map(LimitUse, (use) => {
  const withinLimit = makeAddressLimit(2, use)
  const outcome = (address: string, sent: AttemptOutcome = accepted, org = 1) =>
    Effect.map(withinLimit(organization(org), address, Effect.succeed(sent)), ({ _tag }) => _tag)
  return { outcome, withinLimit }
}).pipe(Effect.provide(LimitUse.layerNone))

describe("makeAddressLimit", () => {
  it.effect("an address gets so many emails an hour, however it is capitalized", () =>
    Effect.gen(function* () {
      const { outcome } = yield* setUp
      const addresses = ["ada@example.org", "Ada@example.org", "ADA@EXAMPLE.ORG", "bob@example.org"]
      assert.deepStrictEqual(yield* Effect.forEach(addresses, (address) => outcome(address)), [
        "Delivered",
        "Delivered",
        "Refused",
        "Delivered"
      ])
      yield* TestClock.adjust("30 minutes")
      assert.strictEqual(yield* outcome("ada@example.org"), "Delivered")
    })
  )

  it.effect("an organization at its limit does not keep the emails of others from an address", () =>
    Effect.gen(function* () {
      const { outcome } = yield* setUp
      for (const expected of ["Delivered", "Delivered", "Refused"])
        assert.strictEqual(yield* outcome("ada@example.org"), expected)
      assert.strictEqual(yield* outcome("ada@example.org", accepted, 2), "Delivered")
    })
  )

  it.effect("emails that the mail server did not accept do not count, nor do interrupted ones", () =>
    Effect.gen(function* () {
      const { outcome, withinLimit } = yield* setUp
      for (let count = 0; count < 3; count++)
        assert.strictEqual(yield* outcome("ada@example.org", deferred), "Retry")
      for (let count = 0; count < 3; count++) {
        const hanging = withinLimit(organization(1), "ada@example.org", Effect.never)
        yield* Fiber.interrupt(yield* Effect.forkChild(hanging, { startImmediately: true }))
      }
      assert.strictEqual(yield* outcome("ada@example.org"), "Delivered")
      assert.strictEqual(yield* outcome("ada@example.org"), "Delivered")
      assert.strictEqual(yield* outcome("ada@example.org"), "Refused")
    })
  )
})
