import { useState } from "react"
import { Button } from "./Button.tsx"
import { Dialog } from "./Dialog.tsx"

/** Shows a new secret once. Only the confirmation button closes it, so that Escape does not lose the secret. */
export const SecretDialog = ({
  onClose,
  secret,
  title,
  description
}: {
  readonly secret: string | undefined
  readonly title: string
  readonly description: string
  readonly onClose: () => void
}) => (
  <Dialog open={secret !== undefined} explicitClose title={title} onClose={onClose}>
    <p>{description} Copy it now: it is not shown again.</p>
    <div className="secret">
      <code>{secret}</code>
      <CopyButton text={secret ?? ""} />
    </div>
    <div className="dialog-actions">
      <Button kind="primary" onClick={onClose}>
        I have saved it
      </Button>
    </div>
  </Dialog>
)

/** Copies a text to the clipboard. If the browser denies access, it asks to copy the selected text by hand. */
const CopyButton = ({ text }: { readonly text: string }) => {
  const [label, setLabel] = useState("Copy")
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setLabel("Copied")
    } catch {
      setLabel("Select the text and copy it")
    }
  }
  return (
    <Button small onClick={() => void copy()}>
      <span aria-live="polite">{label}</span>
    </Button>
  )
}
