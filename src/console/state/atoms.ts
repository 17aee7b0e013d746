/** Effect's atoms in React: the page's registry and the hook that reads it. */
import { type Atom, AtomRegistry } from "effect/reactivity"
import { useCallback, useSyncExternalStore } from "react"

/** How long an unused atom keeps its value: navigating back within this time shows the previous data immediately. */
const IDLE_TTL_MS = 20_000

/** The atom registry of this page. */
export const registry = AtomRegistry.make({ defaultIdleTTL: IDLE_TTL_MS })

/** Subscribes a component to an atom's value. */
export const useAtomValue = <A>(atom: Atom.Atom<A>): A => {
  const subscribe = useCallback((onChange: () => void) => registry.subscribe(atom, onChange), [atom])
  return useSyncExternalStore(subscribe, () => registry.get(atom))
}

/** Recomputes an atom. Subscribers keep the old value until the new one arrives. */
export const refresh = <A>(atom: Atom.Atom<A>): void => registry.refresh(atom)
