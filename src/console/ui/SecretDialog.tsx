import { Button } from "./Button.tsx"
import { CopyButton } from "./CopyButton.tsx"
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
      <CopyButton label="Copy the secret" caption="Copy" text={secret ?? ""} />
    </div>
    <div className="dialog-actions">
      <Button kind="primary" onClick={onClose}>
        I have saved it
      </Button>
    </div>
  </Dialog>
)
