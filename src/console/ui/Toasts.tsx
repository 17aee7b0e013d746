import { Atom } from "effect/reactivity"
import { registry, useAtomValue } from "../state/atoms.ts"

interface Toast {
  readonly id: number
  readonly text: string
}

/** How long a toast is shown, in milliseconds. */
const TOAST_MS = 5_000

const toastsAtom = Atom.keepAlive(Atom.make<ReadonlyArray<Toast>>([]))

let lastId = 0

/** Shows a short confirmation for a few seconds. */
export const showToast = (text: string): void => {
  const id = ++lastId
  registry.update(toastsAtom, (toasts) => [...toasts.slice(-3), { id, text }])
  setTimeout(() => registry.update(toastsAtom, (toasts) => toasts.filter((one) => one.id !== id)), TOAST_MS)
}

/** The toasts. Screen readers announce them. */
export const Toasts = () => (
  <div className="toasts" role="status" aria-live="polite">
    {useAtomValue(toastsAtom).map(({ id, text }) => (
      <div key={id} className="toast">
        {text}
      </div>
    ))}
  </div>
)
