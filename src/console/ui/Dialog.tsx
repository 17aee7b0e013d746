import type { ReactNode } from "react"
import { Dialog as AriaDialog } from "react-aria-components/Dialog"
import { Heading } from "react-aria-components/Heading"
import { Modal, ModalOverlay } from "react-aria-components/Modal"

/** A modal dialog. It traps the focus and restores it on close. Escape and a click outside close it, unless `explicitClose`. */
export const Dialog = ({
  children,
  className = "",
  explicitClose = false,
  onClose,
  open,
  title
}: {
  readonly title: ReactNode
  readonly open: boolean
  readonly onClose: () => void
  /** A class besides `dialog`. */
  readonly className?: string
  /** Only the dialog's own buttons close it. For content that cannot be shown again. */
  readonly explicitClose?: boolean
  readonly children: ReactNode
}) => (
  <ModalOverlay
    className="scrim"
    isOpen={open}
    isDismissable={!explicitClose}
    isKeyboardDismissDisabled={explicitClose}
    onOpenChange={(isOpen) => {
      if (!isOpen) onClose()
    }}
  >
    <Modal className={className === "" ? "dialog" : `dialog ${className}`}>
      <AriaDialog>
        <div className="dialog-body">
          <Heading slot="title" level={2}>
            {title}
          </Heading>
          {children}
        </div>
      </AriaDialog>
    </Modal>
  </ModalOverlay>
)
