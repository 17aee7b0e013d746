import { Atom } from "effect/reactivity"
import { registry, useAtomValue } from "../state/atoms.ts"
import { announcementAtom } from "./announce.ts"
import { Button } from "./Button.tsx"

/** A button of a toast, such as "Undo". It also closes the toast. */
interface ToastAction {
  readonly label: string
  readonly act: () => void
}

interface Toast {
  readonly id: number
  readonly text: string
  readonly action: ToastAction | undefined
}

/** How long a toast is shown, in milliseconds; longer while the pointer or the focus is on one, such as on its button. */
const TOAST_MS = 5_000

/** On a touch screen the last toast that was touched would count as hovered. */
const isHeld = (): boolean => {
  const held = matchMedia("(hover: hover)").matches
    ? ".toast:is(:hover, :focus-within)"
    : ".toast:focus-within"
  return document.querySelector(held) !== null
}

const toastsAtom = Atom.keepAlive(Atom.make<ReadonlyArray<Toast>>([]))

let lastId = 0

const closeToast = (id: number): void =>
  registry.update(toastsAtom, (toasts) => toasts.filter((one) => one.id !== id))

const closeLater = (id: number): void => {
  setTimeout(() => (isHeld() ? closeLater(id) : closeToast(id)), TOAST_MS)
}

/** Shows a short confirmation for a few seconds, with a button if there is an action. */
export const showToast = (text: string, action?: ToastAction): void => {
  const id = ++lastId
  registry.update(toastsAtom, (toasts) => [...toasts.slice(-3), { id, text, action }])
  closeLater(id)
}

/** The announcements for screen readers alone. The attribute keeps them readable while a dialog is open. */
const Announcements = () => (
  <div className="visually-hidden" role="status" aria-live="polite" data-live-announcer="true">
    {useAtomValue(announcementAtom)}
  </div>
)

/** The toasts, and announcements without one. Screen readers announce both. */
export const Toasts = () => (
  <>
    <Announcements />
    <ShownToasts />
  </>
)

const ShownToasts = () => (
  <div className="toasts" role="status" aria-live="polite">
    {useAtomValue(toastsAtom).map(({ action, id, text }) => (
      <div key={id} className="toast">
        {text}
        {action === undefined ? null : (
          <Button
            small
            onClick={() => {
              closeToast(id)
              action.act()
            }}
          >
            {action.label}
          </Button>
        )}
      </div>
    ))}
  </div>
)
