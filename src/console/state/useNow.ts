/** The server's time for countdowns and relative times, from one timer for the whole page. */
import { Atom } from "effect/reactivity"
import { useAtomValue } from "./atoms.ts"
import { serverNow } from "./session.ts"

const nowAtom = Atom.make((get) => {
  const timer = setInterval(() => get.setSelf(serverNow()), 1_000)
  get.addFinalizer(() => clearInterval(timer))
  return serverNow()
})

/** The server's time in epoch milliseconds, updated every second. */
export const useNow = (): number => useAtomValue(nowAtom)
