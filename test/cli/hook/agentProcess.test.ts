import { assert, describe, it } from "@effect/vitest"
import { findAgentProcess } from "../../../src/cli/hook/agentProcess.ts"

describe("the process of the coding agent", () => {
  it("is the one that Claude Code names, and otherwise an ancestor of its name", () => {
    assert.strictEqual(findAgentProcess("claude-code", { CLAUDE_PID: "4711" }), 4711)
    // No ancestor of a test is Codex.
    assert.isUndefined(findAgentProcess("codex", { CLAUDE_PID: "4711" }))
    assert.notStrictEqual(findAgentProcess("claude-code", { CLAUDE_PID: "1" }), 1)
  })
})
