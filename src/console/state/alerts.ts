/** The conditions that need a person now, which every page shows on top. */
import { Option } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import { useEffect } from "react"
import type { Alerts } from "../../api/console/Overview.ts"
import { refresh, useAtomValue } from "./atoms.ts"
import { consoleClient } from "./consoleClient.ts"
import { pendingCountAtom } from "./inboxStream.ts"
import { useRefreshing } from "./useRefreshing.ts"

/** How often the alerts are read. A change of the approvals, which arrives as an event, reads them at once. */
const REFRESH_MS = 30_000

const alertsAtom = Atom.make(consoleClient.overview.alerts({}))

/** The alerts; undefined: not read yet. */
export const useAlerts = (): Alerts | undefined =>
  Option.getOrUndefined(AsyncResult.value(useAtomValue(alertsAtom)))

/** Keeps the alerts current while the tab is visible. */
export const useFollowedAlerts = (): void => {
  useRefreshing(alertsAtom, true, REFRESH_MS)
  const count = useAtomValue(pendingCountAtom)
  useEffect(() => {
    if (count !== undefined) refresh(alertsAtom)
  }, [count])
  useEffect(() => {
    const onShow = () => {
      if (!document.hidden) refresh(alertsAtom)
    }
    document.addEventListener("visibilitychange", onShow)
    return () => document.removeEventListener("visibilitychange", onShow)
  }, [])
}

/** Reads the alerts again, after an action that ends one. */
export const refreshAlerts = (): void => refresh(alertsAtom)
