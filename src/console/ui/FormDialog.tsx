import type { ReactNode } from "react"
import { Button } from "./Button.tsx"
import { Dialog } from "./Dialog.tsx"

/**
 * A dialog with a form and the buttons that send or cancel it. It stays open while its request is `pending`: closing does not stop a request,
 * and would hide its failure or the secret that it returns.
 */
export const FormDialog = ({
  children,
  disabled = false,
  draft,
  kind = "primary",
  onClose,
  onSubmit,
  pending = false,
  submit,
  title
}: {
  readonly title: ReactNode
  /** The kept input, of `useFormDraft`. */
  readonly draft?: { readonly isRestored: boolean; readonly discard: () => void }
  /** The label of the button that sends the form. */
  readonly submit: ReactNode
  readonly kind?: "bad" | "primary"
  readonly disabled?: boolean
  readonly pending?: boolean
  readonly onSubmit: () => Promise<void> | void
  readonly onClose: () => void
  readonly children: ReactNode
}) => (
  <Dialog
    open
    title={title}
    {...(draft === undefined ? {} : { draft })}
    explicitClose={pending}
    onClose={onClose}
  >
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        void onSubmit()
      }}
    >
      {children}
      <div className="dialog-actions">
        <Button disabled={pending} onClick={onClose}>
          Cancel
        </Button>
        <Button kind={kind} type="submit" pending={pending} disabled={disabled}>
          {submit}
        </Button>
      </div>
    </form>
  </Dialog>
)
