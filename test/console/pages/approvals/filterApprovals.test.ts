import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import type { InboxApproval } from "../../../../src/api/Console.ts"
import {
  countParts,
  filterApprovals,
  inboxQuery
} from "../../../../src/console/pages/approvals/filterApprovals.ts"
import type { Scope } from "../../../../src/domain/identity/Scope.ts"
import { ApprovalId, KeyId, SessionId, StepId } from "../../../../src/domain/Ids.ts"
import { pendingApproval } from "../../../support/approvals.ts"

const hex = (digit: string) => digit.repeat(32)
const agent = { id: KeyId.make(`key_${hex("a")}`), name: "Support agent" }
const ada = { id: KeyId.make(`key_${hex("b")}`), name: "Ada" }

const approval = (
  digit: string,
  tool: string,
  over: Partial<InboxApproval> = {},
  summary: string | null = null
): InboxApproval => ({
  ...pendingApproval,
  approval_id: ApprovalId.make(`apr_${hex(digit)}`),
  session_id: SessionId.make(`ses_${hex(digit === "3" ? "1" : digit)}`),
  step_id: StepId.make(`step ${digit}`),
  tool,
  requested_at: DateTime.makeUnsafe(0),
  review_deadline_at: DateTime.makeUnsafe(1),
  expires_at: DateTime.makeUnsafe(1),
  line: {
    rule_summary: summary,
    agent_summary: null,
    arguments: null,
    requested_by: agent,
    self_approval: false,
    about: digit === "2" ? "SUP-9001" : null,
    newest_question: 0,
    newest_answer: 0
  },
  ...over
})

const pending = [
  approval("1", "payments.refund", {}, "Refund 12.90 EUR"),
  approval("2", "mail.send"),
  approval("3", "payments.refund", { stage: "admin" }),
  approval("4", "deploy", { quorum: [{ count: 1, group: "ops" }] })
]

const reviewer = {
  key: ada,
  groups: [],
  scopes: ["approvals.read", "approvals.decide"] as ReadonlyArray<Scope>
}

const steps = (filter: Partial<Parameters<typeof filterApprovals>[1]>, session = reviewer) =>
  filterApprovals(
    pending,
    { part: "all", text: "", group: undefined, sort: undefined, ...filter },
    session
  ).map((group) => [group.name, ...group.approvals.map(({ step_id }) => step_id.slice(5))])

describe("filterApprovals", () => {
  it("the part of a reviewer leaves out what waits for admins, for other groups, and its own requests", () => {
    assert.deepStrictEqual(steps({ part: "mine" }), [["", "1", "2"]])
    assert.deepStrictEqual(steps({ part: "admins" }), [["", "3"]])
    assert.deepStrictEqual(countParts(pending, reviewer), { mine: 2, all: 4, admins: 1 })
    assert.deepStrictEqual(steps({ part: "mine" }, { ...reviewer, key: agent }), [[""]])
    assert.deepStrictEqual(steps({ part: "mine" }, { ...reviewer, scopes: ["approvals.read"] }), [[""]])
  })

  it("what the key has approved already leaves its part", () => {
    const voted = approval("5", "pay", {
      quorum: [{ count: 2, group: null }],
      votes: [
        { voted_by: ada, voted_at: DateTime.makeUnsafe(0), groups: [], stage: "reviewer", comment: null }
      ]
    })
    const [mine] = filterApprovals(
      [voted],
      { part: "mine", text: "", group: undefined, sort: undefined },
      reviewer
    )
    assert.strictEqual(mine?.approvals.length, 0)
  })

  it("the list is sorted by deadline, by age or by tool, and its source stays as it is", () => {
    const at = (id: string, tool: string, millis: number) =>
      approval(id, tool, { requested_at: DateTime.makeUnsafe(millis) })
    const source = [at("1", "b", 20), at("2", "c", 30), at("3", "a", 10)]
    const sorted = (sort: Parameters<typeof filterApprovals>[1]["sort"]) =>
      filterApprovals(source, { part: "all", text: "", group: undefined, sort }, reviewer).flatMap(
        ({ approvals }) => approvals.map(({ step_id }) => step_id.slice(5))
      )
    assert.deepStrictEqual(sorted("newest"), ["2", "1", "3"])
    assert.deepStrictEqual(sorted("oldest"), ["3", "1", "2"])
    assert.deepStrictEqual(sorted("tool"), ["3", "1", "2"])
    assert.deepStrictEqual(sorted(undefined), ["1", "2", "3"])
  })

  it("a word finds an ID that begins with it, and none that only contains it", () => {
    assert.deepStrictEqual(steps({ text: "apr_4" }), [["", "4"]])
    assert.deepStrictEqual(steps({ text: "444" }), [[""]])
  })

  it("every word must be in the tool, the summary, the agent or the metadata, in any case", () => {
    assert.deepStrictEqual(steps({ text: "REFUND eur" }), [["", "1"]])
    assert.deepStrictEqual(steps({ text: "sup-9001 support" }), [["", "2"]])
    assert.deepStrictEqual(steps({ text: "refund deploy" }), [[""]])
  })

  it("groups keep the order of the nearest deadline", () => {
    assert.deepStrictEqual(steps({ group: "tool" }), [
      ["payments.refund", "1", "3"],
      ["mail.send", "2"],
      ["deploy", "4"]
    ])
    assert.deepStrictEqual(steps({ group: "session" }), [
      [`ses_${hex("1")}`, "1", "3"],
      ["SUP-9001", "2"],
      [`ses_${hex("4")}`, "4"]
    ])
  })

  it("by amount the highest of the rules' sentences comes first, and approvals without one come last", () => {
    const amounts = [
      "Refund 12.90 EUR",
      "Refund 1,290.00 EUR",
      null,
      "Refund “9,999.00 EUR” of 2.00 EUR"
    ].map((summary, index) => approval(String(index + 1), "payments.refund", {}, summary))
    const [group] = filterApprovals(
      amounts,
      { part: "all", text: "", group: undefined, sort: "amount" },
      reviewer
    )
    assert.deepStrictEqual(
      group?.approvals.map(({ step_id }) => step_id.slice(5)),
      ["2", "1", "4", "3"]
    )
  })

  it("the address names the columns; unknown ones leave the default", () => {
    const { read, write } = inboxQuery
    assert.strictEqual(write("", { columns: ["amount", "due"] }), "?columns=amount%2Cdue")
    assert.deepStrictEqual(read("?columns=amount%2Cdue").columns, ["amount", "due"])
    assert.deepStrictEqual(read("?columns=").columns, [])
    assert.isUndefined(read("?columns=amount,price").columns)
  })
})
