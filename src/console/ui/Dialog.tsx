import type { ReactNode } from "react"
import { Dialog as AriaDialog } from "react-aria-components/Dialog"
import { Heading } from "react-aria-components/Heading"
import { Modal, ModalOverlay } from "react-aria-components/Modal"

/** A dialog over the page. It takes the focus, keeps it, and gives it back; Escape closes it, save where something would be lost. */
export const Dialog = ({
  children,
  keep = false,
  onClose,
  open,
  title
}: {
  readonly title: ReactNode
  readonly open: boolean
  readonly onClose: () => void
  /** Whether only its own buttons close it. */
  readonly keep?: boolean
  readonly children: ReactNode
}) => (
  <ModalOverlay
    className="scrim"
    isOpen={open}
    isDismissable={!keep}
    isKeyboardDismissDisabled={keep}
    onOpenChange={(now) => {
      if (!now) onClose()
    }}
  >
    <Modal className="dialog">
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
