/** The coding agents whose hooks are understood, and how they differ. */

export type HookVendor = "claude-code" | "codex"

interface VendorFacts {
  readonly name: string
  /** Events that no call of a tool belongs to. Blocking one stops nothing, or makes the agent go on. */
  readonly otherEvents: ReadonlySet<string>
  /** Classes of actions by tool. Every other tool is `write`. */
  readonly actionClasses: Readonly<Record<string, "read" | "execute">>
}

const read = (...tools: ReadonlyArray<string>) =>
  Object.fromEntries(tools.map((tool) => [tool, "read"] as const))

const execute = (...tools: ReadonlyArray<string>) =>
  Object.fromEntries(tools.map((tool) => [tool, "execute"] as const))

export const hookVendors: Readonly<Record<HookVendor, VendorFacts>> = {
  "claude-code": {
    name: "Claude Code",
    otherEvents: new Set([
      "PostToolBatch",
      "Notification",
      "SessionStart",
      "Stop",
      "StopFailure",
      "SubagentStart",
      "SubagentStop",
      "PostCompact",
      "PostModelSwitch",
      "PermissionDenied",
      "Setup",
      "TeammateIdle",
      "TaskCompleted",
      "ElicitationResult",
      "WorktreeRemove",
      "InstructionsLoaded",
      "CwdChanged",
      "FileChanged",
      "DirectoryAdded",
      "MessageDisplay"
    ]),
    actionClasses: {
      ...read(
        "Glob",
        "Grep",
        "LSP",
        "LS",
        "ListAgents",
        "ListMcpResourcesTool",
        "NotebookRead",
        "Read",
        "ReadMcpResourceDirTool",
        "ReadMcpResourceTool",
        "ReadNotifications",
        "TaskGet",
        "TaskList",
        "ToolSearch"
      ),
      // A skill's text can contain commands, which run when it is loaded.
      ...execute("Bash", "Monitor", "PowerShell", "Skill")
    }
  },
  codex: {
    name: "Codex",
    otherEvents: new Set([
      "SessionStart",
      "Stop",
      "StopFailure",
      "SubagentStart",
      "SubagentStop",
      "PostCompact",
      "Interrupt"
    ]),
    actionClasses: execute("Bash", "shell", "exec_command", "local_shell", "NetworkAccess")
  }
}

/** The class of a tool's actions, which rules match: `read`, `execute` for commands, `write` for everything else. */
export const hookActionClass = (vendor: HookVendor, tool: string): "read" | "execute" | "write" => {
  const { actionClasses } = hookVendors[vendor]
  return Object.hasOwn(actionClasses, tool) ? (actionClasses[tool] ?? "write") : "write"
}
