/** The pages: where each is, what it is called, which scope it asks for, and its code, which is loaded when it is opened. */
import { type ComponentType, lazy, type LazyExoticComponent } from "react"
import type { Scope } from "../../domain/identity/Scope.ts"

/** What a page is given: the parts of its address, and what tells it apart from others of its kind. */
export interface PageProps {
  readonly params: Readonly<Record<string, string>>
}

type Load = () => Promise<{ readonly default: ComponentType<PageProps> }>

const page = (load: Load) => ({ load, Page: lazy(load) })

export interface Route {
  /** `:name` stands for one part, `:name?` at the end for one that may be missing. */
  readonly path: string
  readonly title: string
  readonly scope: Scope
  readonly Page: LazyExoticComponent<ComponentType<PageProps>>
  /** Loads the page's code, or has it already. */
  readonly load: Load
  /** Under which heading the navigation lists it; undefined: it is reached from another page. */
  readonly nav?: "Review" | "Agents" | "Answers" | "Settings"
  /** Of a page that is reached from another: where the navigation shows the reader to be. */
  readonly navParent?: string
}

export const routes: ReadonlyArray<Route> = [
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
    path: "/rules",
    title: "Rules",
    scope: "approvals.read",
    nav: "Agents",
    ...page(() => import("../pages/rules/Rules.tsx"))
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
    path: "/telemetry",
    title: "Telemetry",
    scope: "org_config.read",
    nav: "Settings",
    ...page(() => import("../pages/telemetry/Telemetry.tsx"))
  },
  {
    path: "/keys",
    title: "Keys",
    scope: "keys.write",
    nav: "Settings",
    ...page(() => import("../pages/keys/Keys.tsx"))
  },
  {
    path: "/audit",
    title: "Audit log",
    scope: "approvals.admin",
    nav: "Settings",
    ...page(() => import("../pages/audit/Audit.tsx"))
  }
]

/** The page of an address, if it is one. */
export const matchRoute = (
  path: string
): { readonly route: Route; readonly params: PageProps["params"] } | undefined => {
  const parts = path.split("/").slice(1).map(decodeSegment)
  for (const route of routes) {
    const wanted = route.path.split("/").slice(1)
    if (parts.length > wanted.length) continue
    const params: Record<string, string> = {}
    const fits = wanted.every((part, index) => {
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

/** One part of an address as it is meant; as it stands where it is no such thing. */
const decodeSegment = (part: string): string => {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** Where a page of the navigation begins. */
export const navPath = (route: Route): string => route.path.replace(/\/:\w+\?$/, "")
