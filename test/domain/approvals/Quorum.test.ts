import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import {
  approvalsRequired,
  awaitedGroups,
  countApprovals,
  describeProgress,
  describeQuorum,
  mayVote,
  type Quorum
} from "../../../src/domain/approvals/Quorum.ts"

type Vote = Parameters<typeof countApprovals>[1][number]

const vote = (...groups: ReadonlyArray<string>): Vote => ({ groups, stage: "reviewer" })
const admin: Vote = { groups: [], stage: "admin" }
const financeAndLegal: Quorum = [
  { count: 1, group: "finance" },
  { count: 1, group: "legal" }
]
const status = "pending"
const stage = "reviewer"

/** Counts by trying every assignment of votes to required approvals. */
const countByTrying = (places: ReadonlyArray<string | null>, votes: ReadonlyArray<Vote>): number => {
  const [first, ...rest] = votes
  if (first === undefined) return 0
  const used = places.flatMap((group, place) =>
    group === null || first.stage === "admin" || first.groups.includes(group)
      ? [1 + countByTrying(places.toSpliced(place, 1), rest)]
      : []
  )
  return Math.max(countByTrying(places, rest), ...used)
}

describe("Quorum", () => {
  it("a vote counts for one part, so that most votes count", () => {
    const anyVote = fc.record({
      groups: fc.subarray(["finance", "legal", "security"]),
      stage: fc.constantFrom("reviewer" as const, "reviewer" as const, "admin" as const)
    })
    const anyQuorum = fc.uniqueArray(
      fc.record({
        count: fc.integer({ min: 1, max: 2 }),
        group: fc.constantFrom(null, "finance", "legal", "security")
      }),
      { minLength: 1, maxLength: 3, selector: ({ group }) => group }
    )
    fc.assert(
      fc.property(anyQuorum, fc.array(anyVote, { maxLength: 5 }), (quorum, votes) => {
        const places = quorum.flatMap(({ count, group }) => Array.from({ length: count }, () => group))
        assert.strictEqual(countApprovals(quorum, votes), countByTrying(places, votes))
        assert.isAtMost(countApprovals(quorum, votes), approvalsRequired(quorum))
      }),
      { numRuns: 500 }
    )
  })

  it("only members of the groups may vote, or anyone where a part names no group", () => {
    assert.isTrue(mayVote(financeAndLegal, vote("legal", "support")))
    assert.isFalse(mayVote(financeAndLegal, vote("support")))
    assert.isTrue(mayVote(financeAndLegal, admin))
    assert.isTrue(mayVote([...financeAndLegal, { count: 1, group: null }], vote()))
  })

  it("the groups are awaited whose approval would count next", () => {
    assert.deepStrictEqual(awaitedGroups(financeAndLegal, [], stage), ["finance", "legal"])
    assert.deepStrictEqual(awaitedGroups(financeAndLegal, [vote("finance")], stage), ["legal"])
    assert.deepStrictEqual(awaitedGroups(financeAndLegal, [vote("finance", "legal")], stage), [
      "finance",
      "legal"
    ])
    assert.isNull(awaitedGroups([{ count: 2, group: null }], [vote()], stage))
    assert.isNull(awaitedGroups(financeAndLegal, [vote("finance")], "admin"))
  })

  it("a quorum is described by its people and groups", () => {
    assert.strictEqual(describeQuorum([{ count: 2, group: null }]), "2 people")
    assert.strictEqual(describeQuorum(financeAndLegal), "1 of finance and 1 of legal")
  })

  it("the progress names the groups that are awaited", () => {
    const votes = [vote("finance")]
    assert.strictEqual(
      describeProgress({ quorum: financeAndLegal, status, stage, votes }),
      "1 of 2, waiting for legal"
    )
    assert.strictEqual(
      describeProgress({ quorum: [{ count: 2, group: null }], status, stage, votes }),
      "1 of 2"
    )
    assert.strictEqual(
      describeProgress({ quorum: financeAndLegal, status, stage: "admin", votes }),
      "1 of 2, waiting for admins"
    )
    assert.strictEqual(
      describeProgress({ quorum: financeAndLegal, status: "expired", stage, votes }),
      "1 of 2"
    )
    assert.strictEqual(describeProgress({ status, stage }), "")
  })
})
