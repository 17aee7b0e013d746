import { Effect } from "effect"
import { assert, describe, it } from "vitest"
import type { Denied, Verdict } from "../../../src/adapters/toolGate/publicTypes.ts"
import { makeDefinitionQuestions } from "../../../src/cli/mcpGate/DefinitionQuestions.ts"
import type { GovernedCalls } from "../../../src/cli/mcpGate/GovernedCalls.ts"
import type { GovernedStep } from "../../../src/client/connect/index.ts"

const step: GovernedStep = {
  step_id: "definition_1",
  decision: "pending",
  decision_source: null,
  reason: "A person decides.",
  rule_id: null,
  grant_id: null,
  decided_by: null,
  comment: null,
  approval_id: "apr_1",
  expires_at: new Date(0),
  arguments_digest: "0".repeat(64),
  changes_requested: false,
  proposal: null
}

const denied = (cause: Denied["cause"]): Denied => ({
  verdict: "deny",
  cause,
  message: `denied: ${cause}`,
  decision: undefined,
  problem: undefined
})
const pending: Verdict = { verdict: "pending", message: "waits", decision: step }
const allowed: Verdict = { verdict: "allow", decision: { ...step, decision: "allow" }, claim: undefined }

const change = {
  part: "tool_definition" as const,
  tool: "refund",
  old: { name: "refund" },
  new: { name: "refund", description: "Refunds." },
  digest: "0".repeat(64)
}

/** Asks with these answers: the one at once, and the one after the wait for a person. */
const askWith = async (first: Verdict, later = first) => {
  const notes: Array<string> = []
  const reports: Array<string> = []
  const pendingWhile: Array<boolean> = []
  const calls: Pick<GovernedCalls, "ask" | "report" | "waitForPerson"> = {
    ask: () => Effect.succeed(first),
    waitForPerson: () =>
      Effect.sync(() => {
        pendingWhile.push(questions.isPending())
        return later
      }),
    report: (_call, { status }) => Effect.sync(() => void reports.push(status))
  }
  const questions = makeDefinitionQuestions({
    calls,
    approvalUrl: (approval) => `https://service.example/${approval}`,
    server: "shop",
    log: () => undefined
  })
  const answer = await Effect.runPromise(questions.ask(change, (note) => notes.push(note)))
  return { answer, notes, reports, pendingWhile, isPending: questions.isPending() }
}

describe("a question about a changed definition", () => {
  it("is approved only by an allowed step, whose use is reported, or one that was used before", async () => {
    assert.deepInclude(await askWith(allowed), { answer: "approved", reports: ["succeeded"] })
    assert.deepInclude(await askWith(pending, allowed), {
      answer: "approved",
      reports: ["succeeded"],
      notes: ["A person is asked to approve it: https://service.example/apr_1"],
      pendingWhile: [true],
      isPending: false
    })
    assert.deepInclude(await askWith(denied("executed")), { answer: "approved", reports: [] })
  })

  it("is rejected by whoever decides about steps", async () => {
    for (const cause of ["person", "rule", "timeout", "session_closed"] as const) {
      assert.deepInclude(await askWith(denied(cause)), {
        answer: "rejected",
        notes: [`denied: ${cause}`],
        reports: []
      })
      assert.strictEqual((await askWith(pending, denied(cause))).answer, "rejected")
    }
  })

  it("has no answer if the service gave none", async () => {
    for (const later of [denied("unreachable"), denied("refused"), pending]) {
      assert.deepInclude(await askWith(pending, later), { answer: undefined, reports: [], isPending: false })
    }
    for (const first of [denied("unreachable"), denied("refused")]) {
      assert.deepInclude(await askWith(first), { answer: undefined, reports: [] })
    }
  })
})
