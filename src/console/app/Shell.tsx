import {
  Component,
  createElement,
  lazy,
  type ReactNode,
  Suspense,
  useEffect,
  useEffectEvent,
  useRef,
  useState
} from "react"
import type { ConsoleSession } from "../../api/Console.ts"
import { consoleClient } from "../state/consoleClient.ts"
import { followNotifications } from "../state/desktopNotifications.ts"
import { followInbox } from "../state/inboxStream.ts"
import { leaveConsole } from "../state/session.ts"
import { Button } from "../ui/Button.tsx"
import { EmptyState } from "../ui/EmptyState.tsx"
import { FailureNotice } from "../ui/FailureNotice.tsx"
import { UntrustedText } from "../ui/UntrustedText.tsx"
import { Skeleton } from "../ui/Skeleton.tsx"
import { Toasts } from "../ui/Toasts.tsx"
import { useAction } from "../ui/useAction.ts"
import { useKeyboardShortcuts } from "../ui/useKeyboardShortcuts.ts"
import { AlertCount, AlertStrip } from "./AlertStrip.tsx"
import { CountIcon } from "./CountIcon.tsx"
import { DocumentTitle } from "./PageTitle.tsx"
import { PendingCount } from "./PendingCount.tsx"
import { preload } from "./preload.ts"
import { Link, navigate, usePath } from "./router.tsx"
import { canOpen, matchRoute, type Route, routes, navPath, scopesOf } from "./routes.ts"
import { Logo } from "./Logo.tsx"
import { ThemeField } from "./ThemeField.tsx"

const NotificationDialog = lazy(() => import("./NotificationDialog.tsx"))
const KeyboardHelp = lazy(() => import("./KeyboardHelp.tsx"))
const loadPalette = () => import("./Palette.tsx")
const Palette = lazy(loadPalette)

const headings = ["Review", "Agents", "Answers", "Settings"] as const

/** The frame around every page: navigation, account and sign-out. */
export const Shell = ({ session }: { readonly session: ConsoleSession }) => {
  const path = usePath()
  const [open, setOpen] = useState(false)
  const navRoutes = routes.filter((route) => route.nav !== undefined && canOpen(route, session.scopes))
  const first = navRoutes[0]
  const found = matchRoute(path)
  useEffect(() => {
    if (path === "/" && first !== undefined) navigate(navPath(first), { replace: true })
  }, [path, first])
  const { id } = session
  const canReadApprovals = session.scopes.includes("approvals.read")
  useEffect(() => (canReadApprovals ? followInbox(id) : undefined), [id, canReadApprovals])
  const canDecide = canReadApprovals && session.scopes.includes("approvals.decide")
  useEffect(() => (canDecide ? followNotifications((path) => navigate(path)) : undefined), [canDecide])
  const [isNotificationOpen, setNotificationOpen] = useState(false)
  const [isHelpOpen, setHelpOpen] = useState(false)
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  const openPalette = () => setPaletteOpen(true)
  useKeyboardShortcuts({ "?": () => setHelpOpen(true), "/": () => focusSearchField() || openPalette() })
  usePaletteKey(openPalette)
  const main = useRef<HTMLElement>(null)
  const opened = found?.route.path
  /** The page that is announced: none before the first change. */
  const [last, setLast] = useState({ opened, hasChanged: false })
  if (last.opened !== opened) setLast({ opened, hasChanged: last.opened !== undefined })
  const { hasChanged } = last
  useEffect(() => {
    // The link that was followed may be gone with its page.
    if (hasChanged && opened !== undefined) main.current?.focus({ preventScroll: true })
  }, [opened, hasChanged])
  return (
    <div className="shell">
      <DocumentTitle page={found?.route.title} />
      <CountIcon />
      <a className="skip" href="#content">
        Skip to content
      </a>
      <p className="visually-hidden" role="status">
        {hasChanged ? found?.route.title : ""}
      </p>
      <header className="bar">
        <Link to="/" className="brand" aria-label="Countersign home">
          <Logo /> Countersign
        </Link>
        <button type="button" className="bar-search" aria-label="Search" onClick={openPalette}>
          <SearchIcon />
        </button>
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
      <nav id="navigation" className={open ? "side open" : "side"} aria-label="Main">
        <button
          type="button"
          className="side-search"
          aria-keyshortcuts="Control+K Meta+K"
          onPointerEnter={() => preload(loadPalette)}
          onClick={openPalette}
        >
          <SearchIcon /> Search <kbd aria-hidden="true">{isApple ? "⌘" : "Ctrl"} K</kbd>
        </button>
        {headings.map((heading) => {
          const pages = navRoutes.filter((route) => route.nav === heading)
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
        <Account
          session={session}
          onHelp={() => setHelpOpen(true)}
          onNotifications={canDecide ? () => setNotificationOpen(true) : undefined}
        />
      </nav>
      <div className="column">
        <AlertStrip />
        <main ref={main} id="content" className="content" tabIndex={-1}>
          <Page path={path} session={session} />
        </main>
      </div>
      <Toasts />
      {isPaletteOpen ? (
        <Suspense fallback={null}>
          <Palette session={session} onClose={() => setPaletteOpen(false)} onHelp={() => setHelpOpen(true)} />
        </Suspense>
      ) : null}
      {isNotificationOpen ? (
        <Suspense fallback={null}>
          <NotificationDialog onClose={() => setNotificationOpen(false)} />
        </Suspense>
      ) : null}
      {isHelpOpen ? (
        <Suspense fallback={null}>
          <KeyboardHelp onClose={() => setHelpOpen(false)} />
        </Suspense>
      ) : null}
    </div>
  )
}

/** Focuses the search field of the page. Returns whether it has one. */
const focusSearchField = (): boolean => {
  const field = document.querySelector<HTMLInputElement>("#content input[type=search]")
  field?.focus()
  field?.select()
  return field !== null
}

const isApple = /Mac|iPhone|iPad/u.test(navigator.platform)

/** Opens the palette by Ctrl-K or Cmd-K, in form fields too, but not over a dialog. */
const usePaletteKey = (open: () => void): void => {
  const onKeyDown = useEffectEvent((event: KeyboardEvent) => {
    if (event.key.toLowerCase() !== "k" || event.ctrlKey === event.metaKey) return
    if (event.shiftKey || event.altKey || event.defaultPrevented) return
    event.preventDefault()
    if (document.querySelector("[role=dialog]") === null) open()
  })
  useEffect(() => {
    const listener = (event: KeyboardEvent) => onKeyDown(event)
    addEventListener("keydown", listener)
    return () => removeEventListener("keydown", listener)
  }, [])
}

const SearchIcon = () => (
  <svg className="search-icon" viewBox="0 0 20 20" aria-hidden="true">
    <circle cx="9" cy="9" r="5.5" />
    <path d="m13.2 13.2 4 4" />
  </svg>
)

const isUnder = (path: string, parent: string): boolean => path === parent || path.startsWith(`${parent}/`)

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
      {route.path.startsWith("/approvals") ? <PendingCount /> : <AlertCount path={navPath(route)} />}
    </Link>
  </li>
)

const Account = ({
  onHelp,
  onNotifications,
  session
}: {
  readonly session: ConsoleSession
  readonly onHelp: () => void
  /** Undefined: the key cannot decide, so that there is nothing to notify of. */
  readonly onNotifications: (() => void) | undefined
}) => {
  const signingOut = useAction(() => consoleClient.session.sign_out({}))
  const signOut = async () => {
    if ((await signingOut.runResult()) !== undefined) leaveConsole()
  }
  return (
    <div className="account">
      <p className="account-name">
        <UntrustedText text={session.key.name} />
      </p>
      <p className="quiet small">
        <UntrustedText text={session.organization} />
      </p>
      <Link className="button bare small" to="/browsers">
        Signed-in browsers
      </Link>
      <Button kind="bare" small onClick={onHelp}>
        Keyboard shortcuts
      </Button>
      {onNotifications === undefined ? null : (
        <Button kind="bare" small onClick={onNotifications}>
          Desktop notifications
        </Button>
      )}
      <Button kind="bare" small pending={signingOut.pending} onClick={() => void signOut()}>
        Sign out
      </Button>
      <FailureNotice failure={signingOut.failure} />
      <ThemeField />
    </div>
  )
}

const Page = ({ path, session }: { readonly path: string; readonly session: ConsoleSession }) => {
  const found = matchRoute(path)
  if (path === "/") {
    return routes.some((route) => route.nav !== undefined && canOpen(route, session.scopes)) ? null : (
      <EmptyState title="No pages available">
        The scopes of this API key do not include any console page. Sign in with a reviewer or admin key.
      </EmptyState>
    )
  }
  if (found === undefined) {
    return (
      <EmptyState title="Page not found">
        <Link to="/">Back to home</Link>
      </EmptyState>
    )
  }
  const { params, route } = found
  if (!canOpen(route, session.scopes)) {
    return (
      <EmptyState title="You don't have access to this page">
        Sign in with an API key that has the scope <code>{scopesOf(route).join(" or ")}</code>.
      </EmptyState>
    )
  }
  return (
    <Boundary key={route.path}>
      <Suspense fallback={<Skeleton />}>{createElement(route.page(), { params })}</Suspense>
    </Boundary>
  )
}

/** Catches render and load errors of one page, so that navigation keeps working. */
class Boundary extends Component<{ readonly children: ReactNode }, { readonly failed: boolean }> {
  override state = { failed: false }

  static getDerivedStateFromError() {
    return { failed: true }
  }

  override render() {
    return this.state.failed ? (
      <EmptyState title="This page failed to load">
        <Button onClick={() => location.reload()}>Reload</Button>
      </EmptyState>
    ) : (
      this.props.children
    )
  }
}
