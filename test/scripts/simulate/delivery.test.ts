import { assert, describe, it } from "@effect/vitest"
import { shrink } from "../../../scripts/simulate/core/shrink.ts"
import { runSeed } from "../../../scripts/simulate/delivery/run.ts"

/** Seeds of the gate; `npm run simulate` runs more. */
const SEEDS = 30

/**
 * Seeds that failed once. 278: two slow renewals in a row left less of a lease than an attempt may take. 644: the check
 * of stored health took the first step of a slow statement for its snapshot. 914: the wait for a publisher's slow
 * notification had no explanation. 1272: a row that committed late, after a read that hung, was overtaken. 1684:
 * destinations whose turns came during a freeze used them together with a new burst. 2000: a replica that was cut off
 * while it removed a destination left the rows locked, and so kept another from recording any result and from renewing
 * its leases. 1221: a cooldown whose write was slow had no explanation. 1567: a former owner read the health that
 * the current one had stored. 1616: an attempt that a suspension kept from starting was taken for the probe after a
 * cooldown. 5382: a delivery that waited for the clock of the store, which was set back, was not in memory. 423872:
 * the first probe after a cooldown that a caller ended was newer than the deliveries that had waited. 424076: a slow
 * write of results had no explanation. 424108: a restart of the store did not end the statements of cut connections.
 * 424380: a result that the former owner recorded late was taken for the new owner's.
 */
const FAILED_ONCE = [278, 644, 914, 1221, 1272, 1567, 1616, 1684, 2000, 5382, 423872, 424076, 424108, 424380]

/** Timeout on a busy machine. */
const TEST_MILLIS = 120_000

describe("Simulation of the delivery engine", () => {
  it(
    "the guarantees hold in the first seeds and in those that failed once, whatever the faults",
    () => {
      const first = Array.from({ length: SEEDS }, (_, index) => index + 1)
      for (const seed of [...first, ...FAILED_ONCE]) {
        const { broken } = runSeed(seed)
        assert.isUndefined(broken, `npm run simulate -- --seed ${seed}`)
      }
    },
    TEST_MILLIS
  )

  it("a seed always gives the same run", () => {
    const { fingerprint } = runSeed(7)
    assert.strictEqual(runSeed(7).fingerprint, fingerprint)
    assert.notStrictEqual(runSeed(8).fingerprint, fingerprint)
  })

  it("a failing plan is shrunk to the actions that it takes to fail", () => {
    const fails = (part: ReadonlyArray<number>) => part.includes(3) && part.includes(17)
    const list = Array.from({ length: 40 }, (_, index) => index)
    assert.deepStrictEqual(
      shrink(list, fails, () => false),
      [3, 17]
    )
  })
})
