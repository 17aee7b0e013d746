import { assert, describe, it } from "@effect/vitest"
import { describeClaudeVersion, describeRunningClaude } from "../../../src/cli/hook/claudeVersion.ts"

describe("the version of Claude Code", () => {
  it("is refused below the first that blocks a call whose hook fails", () => {
    for (const old of ["2.1.197", "2.1.294", "2.0.400", "1.9.999"])
      assert.include(describeClaudeVersion(`${old} (Claude Code)`), `Claude Code ${old} executes a call`)
    for (const newer of ["2.1.295", "2.1.331", "2.2.0", "3.0.1"])
      assert.isUndefined(describeClaudeVersion(`${newer} (Claude Code)`))
    assert.isUndefined(describeClaudeVersion("no version"))
  })

  it("is read from the hook's environment, and one that is not known is refused", () => {
    const running = (AI_AGENT?: string) => describeRunningClaude({ CLAUDECODE: "1", AI_AGENT })
    assert.include(running("claude-code_2-1-197_harness"), "2.1.197 executes a call whose hook fails")
    assert.isUndefined(running("claude-code_2-1-295_harness"))
    assert.isUndefined(running("claude-code_3-0-0"))
    assert.include(running("claude-code_next"), 'AI_AGENT is "claude-code_next"')
    assert.include(running("another"), "is not known")
    assert.include(running(), "AI_AGENT is not set")
    // Something else runs the hook, such as a person.
    assert.isUndefined(describeRunningClaude({ AI_AGENT: "claude-code_2-1-197_harness" }))
  })
})
