/** The console's pages: path, title, required scope and lazily loaded code of each. */
import { type ComponentType, lazy, type LazyExoticComponent } from "react"
import type { Scope } from "../../domain/identity/Scope.ts"

/** The props of a page: the named parameters of its path. */
export interface PageProps {
  readonly params: Readonly<Record<string, string>>
}

type Load = () => Promise<{ readonly default: ComponentType<PageProps> }>

/** The pause before a page that did not load is loaded again, in milliseconds. */
const RETRY_MS = 500

/** Loads a page's code, after a failure once more. A page that failed to load is loaded again at the next visit: `lazy` keeps failures. */
const page = (load: Load) => {
  const retry = () => new Promise((resolve) => setTimeout(resolve, RETRY_MS)).then(load)
  const make = () =>
    lazy(() =>
      load()
        .catch(retry)
        .catch((error: unknown) => {
          current = make()
          throw error
        })
    )
  let current = make()
  return { load, page: () => current }
}

export interface Route {
  /** `:name` matches one segment. `:name?`, allowed only at the end, matches one or none. */
  readonly path: string
  readonly title: string
  /** The scope that opens the page, or several of which one does. Without, every key opens it. */
  readonly scope?: Scope | ReadonlyArray<Scope>
  /** The page's component. Another one after it failed to load. */
  readonly page: () => LazyExoticComponent<ComponentType<PageProps>>
  /** Loads the page's code; repeated calls return the loaded module. */
  readonly load: Load
  /** The navigation group that lists the page. Pages without one are reached from other pages. */
  readonly nav?: "Review" | "Agents" | "Answers" | "Settings"
  /** The navigation entry to highlight for a page that the navigation does not list itself. */
  readonly navParent?: string
}

export const routes: ReadonlyArray<Route> = [
  {
    path: "/overview",
    title: "Overview",
    scope: ["approvals.read", "feedback.read", "org_config.read"],
    nav: "Review",
    ...page(() => import("../pages/overview/Overview.tsx"))
  },
  {
    path: "/approvals/:id?",
    title: "Approvals",
    scope: "approvals.read",
    nav: "Review",
    ...page(() => import("../pages/approvals/Inbox.tsx"))
  },
  {
    path: "/feedback/:id?",
    title: "Feedback",
    scope: "feedback.read",
    nav: "Review",
    ...page(() => import("../pages/feedback/Queue.tsx"))
  },
  {
    path: "/feedback/task/:task",
    title: "Feedback",
    scope: "feedback.read",
    ...page(() => import("../pages/feedback/Queue.tsx"))
  },
  {
    path: "/promotion/:task",
    navParent: "/feedback",
    title: "Promotion",
    scope: "feedback.read",
    ...page(() => import("../pages/feedback/Promotion.tsx"))
  },
  {
    path: "/search",
    title: "Search",
    ...page(() => import("../pages/search/SearchPage.tsx"))
  },
  {
    path: "/sessions",
    title: "Sessions",
    scope: "sessions.read",
    nav: "Agents",
    ...page(() => import("../pages/sessions/Sessions.tsx"))
  },
  {
    path: "/sessions/:id",
    title: "Session",
    scope: "sessions.read",
    ...page(() => import("../pages/sessions/Session.tsx"))
  },
  {
    path: "/grants/:id?",
    title: "Grants",
    scope: "approvals.read",
    nav: "Agents",
    ...page(() => import("../pages/grants/Grants.tsx"))
  },
  {
    path: "/executions/:id?",
    title: "Executions",
    scope: "approvals.read",
    nav: "Agents",
    ...page(() => import("../pages/executions/Executions.tsx"))
  },
  {
    path: "/rules",
    title: "Rules",
    scope: "approvals.read",
    nav: "Agents",
    ...page(() => import("../pages/rules/Rules.tsx"))
  },
  {
    path: "/reviewers",
    title: "Reviewers",
    scope: "approvals.read",
    nav: "Agents",
    ...page(() => import("../pages/reviewers/Reviewers.tsx"))
  },
  {
    path: "/reviewers/new",
    title: "New reviewer",
    scope: "approvals.read",
    ...page(() => import("../pages/reviewers/NewReviewer.tsx"))
  },
  {
    path: "/reviewers/:id/:tab?",
    title: "Reviewer",
    scope: "approvals.read",
    ...page(() => import("../pages/reviewers/Reviewer.tsx"))
  },
  {
    path: "/tasks",
    title: "Tasks",
    scope: "tasks.read",
    nav: "Answers",
    ...page(() => import("../pages/tasks/Tasks.tsx"))
  },
  {
    path: "/tasks/new",
    title: "New task",
    scope: "tasks.write",
    ...page(() => import("../pages/tasks/NewTask.tsx"))
  },
  {
    path: "/tasks/:id/edit",
    title: "Working copy",
    scope: "tasks.write",
    ...page(() => import("../pages/tasks/EditTask.tsx"))
  },
  {
    path: "/tasks/:id/:tab?",
    title: "Task",
    scope: "tasks.read",
    ...page(() => import("../pages/tasks/Task.tsx"))
  },
  {
    path: "/runs",
    title: "Runs",
    scope: "runs.read",
    nav: "Answers",
    ...page(() => import("../pages/runs/AllRuns.tsx"))
  },
  {
    path: "/runs/:id",
    title: "Run",
    scope: "runs.read",
    ...page(() => import("../pages/runs/Run.tsx"))
  },
  {
    path: "/datasets/:id",
    navParent: "/tasks",
    title: "Dataset",
    scope: "datasets.read",
    ...page(() => import("../pages/tasks/Dataset.tsx"))
  },
  {
    path: "/comparisons/:id",
    navParent: "/tasks",
    title: "Comparison",
    scope: "tasks.read",
    ...page(() => import("../pages/tasks/Comparison.tsx"))
  },
  {
    path: "/endpoints",
    title: "Notifications",
    scope: "org_config.read",
    nav: "Settings",
    ...page(() => import("../pages/endpoints/Endpoints.tsx"))
  },
  {
    path: "/endpoints/:id",
    title: "Endpoint",
    scope: "org_config.read",
    ...page(() => import("../pages/endpoints/Endpoint.tsx"))
  },
  {
    path: "/endpoints/:id/deliveries/:delivery",
    navParent: "/deliveries",
    title: "Delivery",
    scope: "org_config.read",
    ...page(() => import("../pages/endpoints/DeliveryPage.tsx"))
  },
  {
    path: "/deliveries",
    title: "Deliveries",
    scope: "org_config.read",
    nav: "Settings",
    ...page(() => import("../pages/endpoints/AllDeliveries.tsx"))
  },
  {
    path: "/telemetry",
    title: "Telemetry",
    scope: "org_config.read",
    nav: "Settings",
    ...page(() => import("../pages/telemetry/Telemetry.tsx"))
  },
  {
    path: "/end-user-feedback",
    title: "End-user feedback",
    scope: "org_config.read",
    nav: "Settings",
    ...page(() => import("../pages/feedback/EndUserFeedback.tsx"))
  },
  {
    path: "/data",
    title: "Data",
    scope: ["org_config.read", "data.delete"],
    nav: "Settings",
    ...page(() => import("../pages/data/DataSettings.tsx"))
  },
  {
    path: "/keys",
    title: "API keys",
    scope: "keys.write",
    nav: "Settings",
    ...page(() => import("../pages/keys/Keys.tsx"))
  },
  {
    path: "/people",
    title: "People",
    scope: "keys.write",
    nav: "Settings",
    ...page(() => import("../pages/keys/People.tsx"))
  },
  {
    path: "/browsers",
    title: "Signed-in browsers",
    ...page(() => import("../pages/keys/SignIns.tsx"))
  },
  {
    path: "/audit",
    title: "Audit log",
    scope: "approvals.admin",
    nav: "Settings",
    ...page(() => import("../pages/audit/Audit.tsx"))
  }
]

/** Finds the page of a path; undefined for an unknown path. */
export const matchRoute = (
  path: string
): { readonly route: Route; readonly params: PageProps["params"] } | undefined => {
  const parts = path.split("/").slice(1).map(decodeSegment)
  for (const route of routes) {
    const segments = route.path.split("/").slice(1)
    if (parts.length > segments.length) continue
    const params: Record<string, string> = {}
    const fits = segments.every((part, index) => {
      const given = parts[index]
      if (!part.startsWith(":")) return part === given
      if (given === undefined) return part.endsWith("?")
      params[part.slice(1).replace("?", "")] = given
      return true
    })
    if (fits) return { route, params }
  }
  return undefined
}

/** Decodes one path segment. Malformed percent-encoding is returned unchanged. */
const decodeSegment = (part: string): string => {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The scopes of which one opens a page; empty: every key opens it. */
export const scopesOf = ({ scope }: Route): ReadonlyArray<Scope> =>
  scope === undefined ? [] : typeof scope === "string" ? [scope] : scope

/** Whether a key with these scopes opens the page. */
export const canOpen = (route: Route, scopes: ReadonlyArray<Scope>): boolean => {
  const wanted = scopesOf(route)
  return wanted.length === 0 || wanted.some((scope) => scopes.includes(scope))
}

/** The path that a navigation entry links to: the route's path without its optional parameter. */
export const navPath = (route: Route): string => route.path.replace(/\/:\w+\?$/, "")
