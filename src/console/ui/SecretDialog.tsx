import { useState } from "react"
import { Button } from "./Button.tsx"
import { Dialog } from "./Dialog.tsx"

/** A secret, shown this once, with what it is for. It closes when the reader says that it is kept. */
export const SecretDialog = ({
  onClose,
  secret,
  title,
  what
}: {
  readonly secret: string | undefined
  readonly title: string
  readonly what: string
  readonly onClose: () => void
}) => (
  <Dialog open={secret !== undefined} keep title={title} onClose={onClose}>
    <p>{what} It is shown this once: the service cannot show it again.</p>
    <div className="secret">
      <code>{secret}</code>
      <CopyButton text={secret ?? ""} />
    </div>
    <div className="dialog-actions">
      <Button kind="primary" onClick={onClose}>
        It is kept
      </Button>
    </div>
  </Dialog>
)

/** Copies a text. Where the browser does not let a page do that, the text is there to be marked. */
const CopyButton = ({ text }: { readonly text: string }) => {
  const [said, setSaid] = useState("Copy")
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setSaid("Copied")
    } catch {
      setSaid("Mark and copy it by hand")
    }
  }
  return (
    <Button small onClick={() => void copy()}>
      <span aria-live="polite">{said}</span>
    </Button>
  )
}
