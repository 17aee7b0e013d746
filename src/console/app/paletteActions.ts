import type { Scope } from "../../domain/identity/Scope.ts"
import { canOpen, matchRoute } from "./routes.ts"

/** An action that the palette starts. Each is an address, so that it can be linked, too. */
interface PaletteAction {
  readonly label: string
  /** What it needs besides the scope that opens its page. */
  readonly scope?: Scope
  readonly to: string
}

const all: ReadonlyArray<PaletteAction> = [
  { label: "New API key", to: "/keys?new=key" },
  { label: "New webhook endpoint", scope: "org_config.write", to: "/endpoints?new=endpoint" },
  { label: "New approval rule", scope: "rules.write", to: "/rules?new=rule" },
  { label: "New reviewer", scope: "rules.write", to: "/reviewers/new" },
  { label: "New task", to: "/tasks/new" },
  { label: "Closed approvals", to: "/approvals?tab=closed" },
  { label: "Open sessions", to: "/sessions?status=open" },
  { label: "Failed runs", to: "/runs?status=failed" },
  { label: "Runs awaiting review", to: "/runs?feedback=review" },
  { label: "Staged feedback", to: "/feedback?status=staged" }
]

/** The actions for a key with these scopes: those whose page it opens. */
export const paletteActions = (scopes: ReadonlyArray<Scope>): ReadonlyArray<PaletteAction> =>
  all.filter(({ scope, to }) => {
    const found = matchRoute(to.split("?", 1)[0] ?? to)
    return (
      found !== undefined && canOpen(found.route, scopes) && (scope === undefined || scopes.includes(scope))
    )
  })
