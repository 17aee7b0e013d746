/**
 * Stands in for `claude -p` in the examples: reads the project's settings and runs their hooks as Claude Code does, around one call of a
 * tool. Nothing is published.
 */
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"

const args = process.argv.slice(2)
const resumed = args.indexOf("--resume")
const session_id = (resumed < 0 ? undefined : args[resumed + 1]) ?? "5b1f8f0e-6a4e-4f5a-9a0a-0d3e8d1a7c11"
const call = { id: "toolu_01Hq3vXWc8b2S7m9n5p4r6t8", name: "Bash", input: { command: "npm publish" } }

interface Hook {
  readonly type: string
  readonly command: string
}

/** Runs the hooks of an event one after the other; answers the output of the last. Exit code 2 blocks. */
const runHooks = (hook_event_name: string, more: object): Record<string, unknown> => {
  const settings: { hooks?: Record<string, ReadonlyArray<{ hooks: ReadonlyArray<Hook> }>> } = JSON.parse(
    readFileSync(".claude/settings.json", "utf8")
  )
  let answer: Record<string, unknown> = {}
  for (const { command } of (settings.hooks?.[hook_event_name] ?? []).flatMap(({ hooks }) => hooks)) {
    const input = JSON.stringify({
      session_id,
      cwd: process.cwd(),
      hook_event_name,
      permission_mode: "default",
      ...more
    })
    const { status, stderr, stdout } = spawnSync("sh", ["-c", command], { input, encoding: "utf8" })
    if (status === 2) return { permissionDecision: "deny", permissionDecisionReason: stderr }
    answer = JSON.parse(stdout || "{}").hookSpecificOutput ?? {}
  }
  return answer
}

const print = (result: object): void => console.log(JSON.stringify({ type: "result", session_id, ...result }))

const tool = { tool_name: call.name, tool_input: call.input, tool_use_id: call.id }
const { permissionDecision, permissionDecisionReason } = runHooks("PreToolUse", tool)
if (permissionDecision === "allow") {
  runHooks("PostToolUse", { ...tool, tool_response: { stdout: "+ shop@1.0.0" } })
  print({ terminal_reason: "completed", result: "Published." })
} else if (permissionDecision === "defer") {
  print({ terminal_reason: "tool_deferred", deferred_tool_use: call })
} else {
  print({ terminal_reason: "completed", result: permissionDecisionReason })
}
runHooks("SessionEnd", { reason: "other" })
