import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import {
  concurrencyLimit,
  advance,
  cooldownMillis,
  type CooldownPolicy,
  defaultCooldownPolicy,
  endCooldown,
  recordFailure,
  type Health,
  healthy,
  recordSuccess
} from "../../../src/domain/delivery/Cooldown.ts"

const policies: fc.Arbitrary<CooldownPolicy> = fc.record({
  failureThreshold: fc.integer({ min: 1, max: 10 }),
  firstMillis: fc.integer({ min: 0, max: 60_000 }),
  longestMillis: fc.integer({ min: 60_000, max: 900_000 })
})

/** A second that passes, the end of an attempt, or more time that passes. */
type Step = { readonly pass: number } | "success" | "failure"
const steps: fc.Arbitrary<ReadonlyArray<Step>> = fc.array(
  fc.oneof(
    fc.constant("failure" as const),
    fc.constant("failure" as const),
    fc.constant("success" as const),
    fc.record({ pass: fc.integer({ min: 0, max: 2_000_000 }) })
  ),
  { maxLength: 60 }
)

describe("Cooldown", () => {
  it("starts with the fifth consecutive failure and doubles from 30 s to 15 min", () => {
    let health: Health = healthy
    for (let i = 0; i < 4; i++) {
      health = recordFailure(health, defaultCooldownPolicy, 0)
      assert.strictEqual(concurrencyLimit(health, 8), 8)
    }
    let now = 0
    const lengths: Array<number> = []
    for (let round = 0; round < 7; round++) {
      health = recordFailure(health, defaultCooldownPolicy, now)
      if (health._tag !== "CoolingDown") return assert.fail("the destination cools down")
      lengths.push((health.until - now) / 1000)
      assert.strictEqual(concurrencyLimit(advance(health, health.until - 1), 8), 0)
      now = health.until
      health = advance(health, now)
      assert.strictEqual(concurrencyLimit(health, 8), 1)
    }
    assert.deepStrictEqual(lengths, [30, 60, 120, 240, 480, 900, 900])
  })

  it("the failure of an attempt that was already running is counted, and does not prolong the cooldown", () => {
    let health: Health = healthy
    for (let i = 0; i < 5; i++) health = recordFailure(health, defaultCooldownPolicy, 1_000)
    const cooling = { _tag: "CoolingDown", failures: 5, round: 1, until: 31_000 } as const
    assert.deepStrictEqual(health, cooling)
    assert.deepStrictEqual(recordFailure(health, defaultCooldownPolicy, 20_000), { ...cooling, failures: 6 })
  })

  it("a requested attempt ends a cooldown, and its failure starts the next, longer one", () => {
    const cooling: Health = { _tag: "CoolingDown", failures: 5, round: 2, until: 61_000 }
    const probing = endCooldown(cooling)
    assert.deepStrictEqual(probing, { _tag: "Probing", failures: 5, round: 2 })
    assert.deepStrictEqual(recordFailure(probing, defaultCooldownPolicy, 2_000), {
      _tag: "CoolingDown",
      failures: 6,
      round: 3,
      until: 122_000
    })
    for (const health of [healthy, { _tag: "Healthy", failures: 4 }, probing] as const) {
      assert.deepStrictEqual(endCooldown(health), health)
    }
  })

  it("a policy with cooldowns of length 0 admits one probe at a time without waiting", () => {
    const policy: CooldownPolicy = { failureThreshold: 5, firstMillis: 0, longestMillis: 0 }
    let health: Health = healthy
    for (let count = 1; count <= 100; count++) {
      health = advance(recordFailure(health, policy, 0), 0)
      assert.strictEqual(concurrencyLimit(health, 8), count < 5 ? 8 : 1)
    }
    assert.strictEqual(concurrencyLimit(recordSuccess(health), 8), 8)
  })

  it("one success from any state ends the cooldown", () => {
    fc.assert(
      fc.property(policies, steps, (policy, list) => {
        assert.deepStrictEqual(recordSuccess(run(policy, list).health), healthy)
      })
    )
  })

  it("counts every failure since the last success", () => {
    fc.assert(
      fc.property(policies, steps, (policy, list) => {
        const sinceSuccess = list.slice(list.lastIndexOf("success") + 1)
        const failures = sinceSuccess.filter((step) => step === "failure").length
        assert.strictEqual(run(policy, list).health.failures, failures)
      })
    )
  })

  it("admits no attempt during a cooldown, one probe after it, and all below the failure threshold", () => {
    fc.assert(
      fc.property(policies, steps, fc.integer({ min: 1, max: 8 }), (policy, list, concurrency) => {
        const { health, now } = run(policy, list)
        switch (health._tag) {
          case "Healthy":
            assert.isBelow(health.failures, policy.failureThreshold)
            assert.strictEqual(concurrencyLimit(health, concurrency), concurrency)
            break
          case "CoolingDown":
            assert.isAbove(health.until, now)
            assert.isAtMost(health.until - now, cooldownMillis(policy, health.round))
            assert.strictEqual(concurrencyLimit(health, concurrency), 0)
            break
          case "Probing":
            assert.isAtLeast(health.failures, policy.failureThreshold)
            assert.strictEqual(concurrencyLimit(health, concurrency), 1)
        }
      })
    )
  })

  it("no cooldown is longer than the maximum, however many rounds", () => {
    fc.assert(
      fc.property(policies, fc.integer({ min: 1, max: 10_000 }), (policy, round) => {
        assert.isAtMost(cooldownMillis(policy, round), policy.longestMillis)
        assert.isAtLeast(cooldownMillis(policy, round + 1), cooldownMillis(policy, round))
      })
    )
  })
})

const run = (policy: CooldownPolicy, list: ReadonlyArray<Step>): { health: Health; now: number } => {
  let now = 0
  let health: Health = healthy
  for (const step of list) {
    if (step === "success") health = recordSuccess(health)
    else if (step === "failure") health = recordFailure(health, policy, now)
    else now += step.pass
    health = advance(health, now)
  }
  return { health, now }
}
