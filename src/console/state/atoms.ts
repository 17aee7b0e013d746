/** Effect's atoms in React: one registry for the page, and the hooks that read it. */
import { type Atom, AtomRegistry } from "effect/reactivity"
import { useCallback, useSyncExternalStore } from "react"

/** How long what nobody looks at is kept, in milliseconds: going back to a page shows at once what it showed before. */
const IDLE_TTL_MS = 20_000

/** The state of this page. */
export const registry = AtomRegistry.make({ defaultIdleTTL: IDLE_TTL_MS })

/** An atom's value, now and whenever it changes. */
export const useAtomValue = <A>(atom: Atom.Atom<A>): A => {
  const subscribe = useCallback((changed: () => void) => registry.subscribe(atom, changed), [atom])
  return useSyncExternalStore(subscribe, () => registry.get(atom))
}

/** Has an atom computed anew; who looks at it sees the old value until then. */
export const refresh = <A>(atom: Atom.Atom<A>): void => registry.refresh(atom)
