import { useState } from "react"
import { useAtomValue } from "../state/atoms.ts"
import {
  notificationSettingAtom,
  type NotificationSetting,
  setDesktopNotifications
} from "../state/desktopNotifications.ts"
import { Button } from "../ui/Button.tsx"
import { Dialog } from "../ui/Dialog.tsx"

const states: Record<NotificationSetting, string> = {
  unsupported:
    "This browser has no notifications for this page. They need HTTPS, or the console on the machine that runs the service.",
  denied:
    "This browser blocks notifications for this site. Allow them in its site settings, then open this dialog again.",
  off: "They are off in this browser.",
  on: "They are on in this browser."
}

/** The dialog that turns desktop notifications on or off. */
export default function NotificationDialog({ onClose }: { readonly onClose: () => void }) {
  const setting = useAtomValue(notificationSettingAtom)
  const [pending, setPending] = useState(false)
  const turn = async (on: boolean) => {
    setPending(true)
    await setDesktopNotifications(on)
    setPending(false)
  }
  return (
    <Dialog open title="Desktop notifications" onClose={onClose}>
      <p>
        While no tab of the console is visible, this browser notifies you of new approvals that your key can
        approve. A notification has the tool and the rule's summary, without the arguments and the agent's
        summary. A click opens the approval. It closes when the approval is decided elsewhere.
      </p>
      <p>
        A tab of the console has to stay open. The operating system may show notifications on a locked screen.
      </p>
      <p role="status">
        <strong>{states[setting]}</strong>
      </p>
      <div className="dialog-actions">
        <Button onClick={onClose}>Close</Button>
        {setting === "on" ? (
          <Button pending={pending} onClick={() => void turn(false)}>
            Turn off
          </Button>
        ) : setting === "off" ? (
          <Button kind="primary" pending={pending} onClick={() => void turn(true)}>
            Turn on
          </Button>
        ) : null}
      </div>
    </Dialog>
  )
}
