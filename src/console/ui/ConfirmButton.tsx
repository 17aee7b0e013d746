import type { Effect } from "effect"
import { type ReactNode, useState } from "react"
import { Button } from "./Button.tsx"
import { Dialog } from "./Dialog.tsx"
import { FailureNotice } from "./FailureNotice.tsx"
import { useAction } from "./useAction.ts"

/** A button that opens a confirmation dialog before it runs its action. */
export const ConfirmButton = <A, E>({
  act,
  children,
  kind = "bad",
  label,
  onDone,
  small = true,
  title,
  confirmLabel = label
}: {
  readonly label: ReactNode
  readonly title: ReactNode
  readonly confirmLabel?: ReactNode
  readonly children: ReactNode
  readonly small?: boolean
  readonly kind?: "bad" | "plain" | "primary"
  readonly act: () => Effect.Effect<A, E>
  readonly onDone: (value: A) => void
}) => {
  const [open, setOpen] = useState(false)
  const action = useAction(() => act())
  const close = () => {
    setOpen(false)
    action.reset()
  }
  const run = async () => {
    const done = await action.runResult()
    if (done === undefined) return
    close()
    onDone(done.value)
  }
  return (
    <>
      <Button small={small} kind={kind} onClick={() => setOpen(true)}>
        {label}
      </Button>
      {/* Closing does not stop a request, and would hide its failure. */}
      <Dialog open={open} title={title} explicitClose={action.pending} onClose={close}>
        <div>{children}</div>
        <FailureNotice failure={action.failure} />
        <div className="dialog-actions">
          <Button disabled={action.pending} onClick={close}>
            Cancel
          </Button>
          <Button
            kind={kind === "bad" ? "bad" : "primary"}
            pending={action.pending}
            onClick={() => void run()}
          >
            {confirmLabel}
          </Button>
        </div>
      </Dialog>
    </>
  )
}
