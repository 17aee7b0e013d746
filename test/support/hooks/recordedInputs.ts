/**
 * Inputs that Claude Code and Codex gave to hooks, with other values. The shapes are those of several versions: the vendors add fields, and
 * Codex has widened the tools that it asks about.
 */

/** Claude Code 1.0: before IDs of prompts, and without the mode of permissions. */
export const claudeCode1 = {
  session_id: "00893aaf-19fa-41d2-8238-13269b9b3ca0",
  transcript_path: "/home/ada/.claude/projects/-home-ada-shop/00893aaf-19fa-41d2-8238-13269b9b3ca0.jsonl",
  cwd: "/home/ada/shop",
  hook_event_name: "PreToolUse",
  tool_name: "Bash",
  tool_input: { command: "npm test", description: "Run the tests" },
  tool_use_id: "toolu_01BfGq6zT3vYJ9n1s2k4d5e6"
}

/** Claude Code 2.1.330, in the main thread. */
export const claudeCode2 = {
  session_id: "5b1f8f0e-6a4e-4f5a-9a0a-0d3e8d1a7c11",
  transcript_path: "/home/ada/.claude/projects/-home-ada-shop/5b1f8f0e-6a4e-4f5a-9a0a-0d3e8d1a7c11.jsonl",
  cwd: "/home/ada/shop",
  prompt_id: "0d8c1d6e-58f2-4b6b-9a4b-3b0c4f7a2c90",
  permission_mode: "default",
  effort: { level: "high" },
  hook_event_name: "PreToolUse",
  tool_name: "Write",
  tool_input: { file_path: "/home/ada/shop/a.txt", content: "text" },
  tool_use_id: "toolu_01Hq3vXWc8b2S7m9n5p4r6t8"
}

/** Claude Code 2.1.330, in a subagent, with a tool of an MCP server. */
export const claudeCodeSubagent = {
  ...claudeCode2,
  agent_id: "a1b2c3d4",
  agent_type: "general-purpose",
  tool_name: "mcp__shop__refund",
  tool_input: { order: "4711", amount_cents: 12_900 },
  mcp_server: { name: "shop", source: "project" },
  tool_use_id: "toolu_01Zx9yKd4f6g8h1j3k5m7n9p"
}

/** Codex 0.123: commands only. */
export const codex1 = {
  session_id: "019f25aa-985b-7510-99a7-157901d23b14",
  turn_id: "019f25aa-9906-7a70-91e5-8bcf6898981e",
  transcript_path: "/home/ada/.codex/sessions/2026/07/03/rollout-2026-07-03T01-49-24.jsonl",
  cwd: "/home/ada/shop",
  hook_event_name: "PreToolUse",
  model: "gpt-5.5",
  permission_mode: "bypassPermissions",
  tool_name: "Bash",
  tool_input: { command: "rg -n refund ." },
  tool_use_id: "call_ChEoDShVTstHoIJphP7hbpSu"
}

/** Codex 0.155: other IDs, patches, subagents, and no transcript. */
export const codex2 = {
  ...codex1,
  session_id: "01a0c0a6-7b1e-7c11-8a52-5c1f0d9e7a34",
  transcript_path: null,
  model: "gpt-6-astra",
  permission_mode: "default",
  agent_id: "agent-7",
  agent_type: "worker",
  tool_name: "apply_patch",
  tool_input: { command: "*** Begin Patch\n*** Add File: a.txt\n+text\n*** End Patch" },
  tool_use_id: "exec-12b30802-8c4f-4f7e-9b1d-0a6e2f3c4d5e"
}

/** Codex asks for a permission: without an ID of the call, and with its reason beside the command. */
export const codexPermission = (call: typeof codex1, description?: string) => {
  const { tool_use_id: _, ...rest } = call
  return {
    ...rest,
    hook_event_name: "PermissionRequest",
    tool_input: description === undefined ? rest.tool_input : { ...rest.tool_input, description }
  }
}

/** What follows a call that succeeded. */
export const succeeded = <A extends object>(call: A, tool_response: unknown) => ({
  ...call,
  hook_event_name: "PostToolUse",
  tool_response,
  duration_ms: 12
})

/** What follows a call that failed. */
export const failed = <A extends object>(call: A, error: string) => ({
  ...call,
  hook_event_name: "PostToolUseFailure",
  error,
  is_interrupt: false
})

/** The end of a session of Claude Code. */
export const ended = (
  { cwd, session_id, transcript_path }: Pick<typeof claudeCode1, "cwd" | "session_id" | "transcript_path">,
  reason = "other"
) => ({
  session_id,
  transcript_path,
  cwd,
  hook_event_name: "SessionEnd",
  reason
})
