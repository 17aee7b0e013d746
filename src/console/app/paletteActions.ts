import type { Scope } from "../../domain/identity/Scope.ts"

/** The actions that the palette starts besides pages. Each is an address, so that it can be linked, too. */
export const paletteActions: ReadonlyArray<{
  readonly label: string
  readonly scope: Scope
  readonly to: string
}> = [
  { label: "New API key", scope: "keys.write", to: "/keys?new=key" },
  { label: "New webhook endpoint", scope: "org_config.write", to: "/endpoints?new=endpoint" },
  { label: "New approval rule", scope: "rules.write", to: "/rules?new=rule" },
  { label: "New task", scope: "tasks.write", to: "/tasks/new" },
  { label: "Closed approvals", scope: "approvals.read", to: "/approvals?tab=closed" },
  { label: "Open sessions", scope: "sessions.read", to: "/sessions?status=open" },
  { label: "Failed runs", scope: "runs.read", to: "/runs?status=failed" },
  { label: "Runs awaiting review", scope: "runs.read", to: "/runs?feedback=review" },
  { label: "Staged feedback", scope: "feedback.read", to: "/feedback?status=staged" }
]
