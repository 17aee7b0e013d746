import type { Atom } from "effect/reactivity"
import { useEffect } from "react"
import { refresh } from "./atoms.ts"

/** How often a list that has no stream of changes is read again, in milliseconds. */
export const REFRESH_INTERVAL_MS = 5_000

/** Reads a list again and again while the page is visible. `enabled`: false keeps further pages that its user has loaded. */
export const useRefreshing = <A>(
  atom: Atom.Atom<A>,
  enabled = true,
  intervalMs = REFRESH_INTERVAL_MS
): void =>
  useEffect(() => {
    if (!enabled) return undefined
    const timer = setInterval(() => {
      if (!document.hidden) refresh(atom)
    }, intervalMs)
    return () => clearInterval(timer)
  }, [atom, enabled, intervalMs])
