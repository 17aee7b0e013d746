import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react"
import { Dialog as AriaDialog } from "react-aria-components/Dialog"
import { Heading } from "react-aria-components/Heading"
import { Modal, ModalOverlay } from "react-aria-components/Modal"
import { Button } from "./Button.tsx"
import { KeptWorkNotice } from "./KeptWorkNotice.tsx"

/**
 * A modal dialog. It traps the focus and restores it on close. Escape and a click outside close it, unless `explicitClose`. After its user
 * has typed or chosen something in a form, they ask first: one wrong click would lose it. The dialog's own buttons close it at once.
 * `useKeptDialog` keeps the input of a form when the page is left.
 */
export const Dialog = ({
  children,
  className = "",
  draft,
  explicitClose = false,
  keepsInput = false,
  onClose,
  open,
  title
}: {
  readonly title: ReactNode
  readonly open: boolean
  readonly onClose: () => void
  /** A class besides `dialog`. */
  readonly className?: string
  /** The kept input of its form, of `useFormDraft`. */
  readonly draft?: { readonly isRestored: boolean; readonly discard: () => void }
  /** Only the dialog's own buttons close it. For content that cannot be shown again. */
  readonly explicitClose?: boolean
  /** What was typed is still there when it opens again, so that closing needs no question. */
  readonly keepsInput?: boolean
  readonly children: ReactNode
}) => {
  const body = useRef<HTMLDivElement>(null)
  const [isEdited, setEdited] = useState(false)
  const [isAsking, setAsking] = useState(false)
  useEffect(() => {
    if (!open) return undefined
    return () => {
      setEdited(false)
      setAsking(false)
    }
  }, [open])
  // By React, not by a listener of the element: that would run before React has read the field, and a render between them restores the
  // field's former value.
  const note = ({ target }: FormEvent) => {
    const element = body.current
    // Without a form, a choice applies at once. A dialog inside this one has input of its own.
    if (element !== null && target instanceof Node && element.contains(target))
      setEdited(element.querySelector("form") !== null)
  }
  return (
    <ModalOverlay
      className="scrim"
      isOpen={open}
      isDismissable={!explicitClose}
      isKeyboardDismissDisabled={explicitClose}
      onOpenChange={(isOpen) => {
        if (isOpen) return
        if ((isEdited || draft?.isRestored === true) && !isAsking && !keepsInput) setAsking(true)
        else onClose()
      }}
    >
      <Modal className={className === "" ? "dialog" : `dialog ${className}`}>
        <AriaDialog>
          <div ref={body} className="dialog-body" onInput={note}>
            <Heading slot="title" level={2}>
              {title}
            </Heading>
            {draft?.isRestored === true ? <KeptWorkNotice onDiscard={draft.discard} /> : null}
            {children}
            {isAsking ? (
              <div className="notice warn dialog-ask" role="alert">
                <p>Your input is not saved.</p>
                <div className="notice-actions">
                  <Button small kind="bad" onClick={onClose}>
                    Discard it
                  </Button>
                  <Button small onClick={() => setAsking(false)}>
                    Keep editing
                  </Button>
                </div>
              </div>
            ) : null}
          </div>
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}
