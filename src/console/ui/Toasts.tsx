import { Atom } from "effect/reactivity"
import { registry, useAtomValue } from "../state/atoms.ts"

interface Toast {
  readonly id: number
  readonly text: string
}

/** How long a word stays, in milliseconds. */
const TOAST_MS = 5_000

const toastsAtom = Atom.keepAlive(Atom.make<ReadonlyArray<Toast>>([]))

let count = 0

/** Says that something was done, for a moment. */
export const showToast = (text: string): void => {
  const id = ++count
  registry.update(toastsAtom, (toasts) => [...toasts.slice(-3), { id, text }])
  setTimeout(() => registry.update(toastsAtom, (toasts) => toasts.filter((one) => one.id !== id)), TOAST_MS)
}

/** Where the words appear. A reader of the screen hears them. */
export const Toasts = () => (
  <div className="toasts" role="status" aria-live="polite">
    {useAtomValue(toastsAtom).map(({ id, text }) => (
      <div key={id} className="toast">
        {text}
      </div>
    ))}
  </div>
)
