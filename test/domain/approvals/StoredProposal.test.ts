import { assert, describe, it } from "@effect/vitest"
import { mayAnswer, type Proposer } from "../../../src/domain/approvals/StoredProposal.ts"
import { KeyId } from "../../../src/domain/Ids.ts"

const keyOf = (digit: string) => KeyId.make(`key_${digit.repeat(32)}`)

const ada: Proposer = { actor: { id: keyOf("a"), name: "Ada" }, groups: ["finance"], makers: [keyOf("b")] }
const agent = keyOf("c")
const terms = { quorum: [{ count: 1, group: null }], self_approval: false }

describe("mayAnswer", () => {
  it("a proposer answers for questions that they could answer alone", () => {
    assert.isTrue(mayAnswer(ada, terms, [agent]))
    assert.isTrue(mayAnswer(ada, { ...terms, quorum: [{ count: 1, group: "finance" }] }, [agent]))
  })

  it.each([
    ["of two people", [{ count: 2, group: null }]],
    [
      "of two groups",
      [
        { count: 1, group: "finance" },
        { count: 1, group: null }
      ]
    ],
    ["of a group that they are not in", [{ count: 1, group: "legal" }]]
  ] as const)("a proposer does not answer for a quorum %s", (_, quorum) => {
    assert.isFalse(mayAnswer(ada, { ...terms, quorum }, [agent]))
  })

  it.each([
    ["their own key", ada.actor.id],
    ["the key that made theirs", keyOf("b")]
  ])(
    "a proposer does not answer for a request of %s, unless the rule allows self-approval",
    (_, requester) => {
      for (const requesters of [[requester], [agent, requester], [requester, agent]]) {
        assert.isFalse(mayAnswer(ada, terms, requesters))
        assert.isTrue(mayAnswer(ada, { ...terms, self_approval: true }, requesters))
      }
    }
  )
})
