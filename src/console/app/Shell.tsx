import { Component, type ReactNode, Suspense, useEffect, useState } from "react"
import type { ConsoleSession } from "../../api/Console.ts"
import { consoleClient } from "../state/consoleClient.ts"
import { leaveConsole } from "../state/session.ts"
import { Button } from "../ui/Button.tsx"
import { EmptyState } from "../ui/EmptyState.tsx"
import { FailureNotice } from "../ui/FailureNotice.tsx"
import { UntrustedText } from "../ui/UntrustedText.tsx"
import { Skeleton } from "../ui/Skeleton.tsx"
import { Toasts } from "../ui/Toasts.tsx"
import { useAction } from "../ui/useAction.ts"
import { PendingCount } from "./PendingCount.tsx"
import { Link, navigate, usePath } from "./router.tsx"
import { matchRoute, type Route, routes, navPath } from "./routes.ts"
import { Logo } from "./Logo.tsx"

const headings = ["Review", "Agents", "Answers", "Settings"] as const

/** What surrounds every page: the navigation, whose page it is, and the way out. */
export const Shell = ({ session }: { readonly session: ConsoleSession }) => {
  const path = usePath()
  const [open, setOpen] = useState(false)
  const shown = routes.filter((route) => route.nav !== undefined && session.scopes.includes(route.scope))
  const first = shown[0]
  const found = matchRoute(path)
  useEffect(() => {
    if (path === "/" && first !== undefined) navigate(navPath(first), { replace: true })
  }, [path, first])
  return (
    <div className="shell">
      <title>{found === undefined ? "Countersign" : `${found.route.title} · Countersign`}</title>
      <a className="skip" href="#content">
        Skip to the page
      </a>
      <header className="bar">
        <Link to="/" className="brand" aria-label="Countersign, start">
          <Logo /> Countersign
        </Link>
        <button
          type="button"
          className="menu-button"
          aria-expanded={open}
          aria-controls="navigation"
          onClick={() => setOpen(!open)}
        >
          Menu
        </button>
      </header>
      <nav id="navigation" className={open ? "side open" : "side"} aria-label="Pages">
        {headings.map((heading) => {
          const pages = shown.filter((route) => route.nav === heading)
          return pages.length === 0 ? null : (
            <div key={heading} className="side-group">
              <h2>{heading}</h2>
              <ul>
                {pages.map((route) => (
                  <NavItem
                    onChoose={() => setOpen(false)}
                    key={route.path}
                    route={route}
                    active={isUnder(found?.route.navParent ?? path, navPath(route))}
                  />
                ))}
              </ul>
            </div>
          )
        })}
        <Account session={session} />
      </nav>
      <main id="content" className="content" tabIndex={-1}>
        <Page path={path} session={session} />
      </main>
      <Toasts />
    </div>
  )
}

const isUnder = (path: string, begin: string): boolean => path === begin || path.startsWith(`${begin}/`)

const NavItem = ({
  active,
  onChoose,
  route
}: {
  readonly route: Route
  readonly active: boolean
  readonly onChoose: () => void
}) => (
  <li>
    <Link to={navPath(route)} onClick={onChoose} aria-current={active ? "page" : undefined}>
      {route.title}
      {route.path.startsWith("/approvals") ? <PendingCount /> : null}
    </Link>
  </li>
)

const Account = ({ session }: { readonly session: ConsoleSession }) => {
  const out = useAction(() => consoleClient.session.sign_out({}))
  const signOut = async () => {
    if ((await out.runResult()) !== undefined) leaveConsole()
  }
  return (
    <div className="account">
      <p className="account-name">
        <UntrustedText text={session.key.name} />
      </p>
      <p className="quiet small">
        <UntrustedText text={session.organization} />
      </p>
      <FailureNotice failure={out.failure} />
      <Button small pending={out.pending} onClick={() => void signOut()}>
        Sign out
      </Button>
    </div>
  )
}

const Page = ({ path, session }: { readonly path: string; readonly session: ConsoleSession }) => {
  const found = matchRoute(path)
  if (path === "/") {
    return routes.some((route) => route.nav !== undefined && session.scopes.includes(route.scope)) ? null : (
      <EmptyState title="Nothing to see with this key">
        Its scopes open no page of the console. Sign in with a key of a reviewer or an admin.
      </EmptyState>
    )
  }
  if (found === undefined) {
    return (
      <EmptyState title="There is no such page">
        <Link to="/">Go to the start</Link>
      </EmptyState>
    )
  }
  const { params, route } = found
  if (!session.scopes.includes(route.scope)) {
    return (
      <EmptyState title="This key does not open the page">
        It asks for the scope <code>{route.scope}</code>.
      </EmptyState>
    )
  }
  return (
    <Boundary key={route.path}>
      <Suspense fallback={<Skeleton />}>
        <route.Page params={params} />
      </Suspense>
    </Boundary>
  )
}

/** A page that fails says so, and leaves the others as they are. */
class Boundary extends Component<{ readonly children: ReactNode }, { readonly failed: boolean }> {
  override state = { failed: false }

  static getDerivedStateFromError() {
    return { failed: true }
  }

  override render() {
    return this.state.failed ? (
      <EmptyState title="The page could not be shown">
        <Button onClick={() => location.reload()}>Load it again</Button>
      </EmptyState>
    ) : (
      this.props.children
    )
  }
}
