import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { OrgId } from "../../../../src/domain/Ids.ts"
import {
  type Hold,
  makeReceiverRates,
  MAX_RESERVATION_MILLIS
} from "../../../../src/server/delivery/Delivery/ReceiverRates.ts"

const organization = (digit: number) => OrgId.make(`org_${String(digit).padStart(32, "0")}`)

/** Lets destinations send one attempt each as soon as their holds end; returns organization and time of each. */
const play = (
  options: Parameters<typeof makeReceiverRates>[0],
  requests: ReadonlyArray<{ readonly digit: number; readonly at: number }>
) => {
  const { reserve } = makeReceiverRates(options)
  const waiting: Array<{ digit: number; at: number; before?: Hold }> = requests.map((one) => ({ ...one }))
  const sent: Array<{ readonly digit: number; readonly at: number }> = []
  for (;;) {
    const next = waiting.toSorted((a, b) => a.at - b.at)[0]
    if (next === undefined) return sent
    const hold = reserve(organization(next.digit), "host.example", next.at, next.before)
    if (hold === undefined) {
      sent.push({ digit: next.digit, at: next.at })
      waiting.splice(waiting.indexOf(next), 1)
    } else {
      next.at = hold.until
      next.before = hold
    }
  }
}

const assertWithin = (times: ReadonlyArray<number>, perSecond: number) => {
  for (const [from, begin] of times.entries()) {
    for (const [to, end] of times.entries()) {
      // A hundredth for rounding, and a thousandth of a request that each is allowed early.
      if (to >= from) assert.isAtMost(to - from + 1, perSecond + ((end - begin) * perSecond) / 1000 + 1e-2)
    }
  }
}

describe("ReceiverRates", () => {
  it("in any period at most the rate for that period plus one burst is sent, per organization and in all", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 20 }),
        fc.array(
          fc.record({ at: fc.integer({ min: 0, max: 3_000 }), digit: fc.integer({ min: 1, max: 3 }) }),
          {
            maxLength: 60
          }
        ),
        (perOrganization, total, requests) => {
          const sent = play({ perOrganization, total }, requests)
          assert.lengthOf(sent, requests.length)
          assertWithin(
            sent.map(({ at }) => at),
            total
          )
          for (const digit of [1, 2, 3]) {
            assertWithin(
              sent.filter((one) => one.digit === digit).map(({ at }) => at),
              perOrganization
            )
          }
        }
      ),
      { numRuns: 200 }
    )
  })

  it("receivers do not share a rate, and one organization leaves the rest of the total to others", () => {
    const { reserve } = makeReceiverRates({ perOrganization: 2, total: 3 })
    const holds = [1, 1, 1, 2, 2].map((digit) => reserve(organization(digit), "host.example", 0))
    assert.deepStrictEqual(
      holds.map((hold) => hold?.reserved),
      [undefined, undefined, "organization", undefined, "both"]
    )
    assert.isUndefined(reserve(organization(1), "other.example", 0))
  })

  it("a reservation too far ahead takes nothing from those after it", () => {
    const { reserve } = makeReceiverRates({ perOrganization: 1, total: 0 })
    const holds = Array.from({ length: 100 }, () => reserve(organization(1), "host.example", 0))
    assert.strictEqual(
      holds.filter((hold) => hold?.reserved === "organization").length,
      MAX_RESERVATION_MILLIS / 1000
    )
    assert.deepStrictEqual(reserve(organization(1), "host.example", 1_000), {
      until: 1_000 + MAX_RESERVATION_MILLIS,
      reserved: "organization"
    })
  })
})
