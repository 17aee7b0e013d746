/** The time as the page shows it: one timer for all that counts. */
import { Atom } from "effect/reactivity"
import { useAtomValue } from "./atoms.ts"
import { serverNow } from "./session.ts"

const nowAtom = Atom.make((get) => {
  const timer = setInterval(() => get.setSelf(serverNow()), 1_000)
  get.addFinalizer(() => clearInterval(timer))
  return serverNow()
})

/** The service's time in epoch milliseconds, anew each second. */
export const useNow = (): number => useAtomValue(nowAtom)
