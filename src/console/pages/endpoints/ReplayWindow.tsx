import { DateTime } from "effect"
import { type FormEvent, useState } from "react"
import type { EndpointId } from "../../../domain/Ids.ts"
import { apiClient } from "../../state/apiClient.ts"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { Field } from "../../ui/Field.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"

/** A point in time as a field for it takes it: local, to the minute. */
const localInput = (millis: number): string => {
  const at = new Date(millis)
  return new Date(millis - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

const DAY_MS = 24 * 3_600_000

/** Queues every failed delivery of a stretch of time again, as after a receiver was away. */
export const ReplayWindow = ({ id, onDone }: { readonly id: EndpointId; readonly onDone: () => void }) => {
  const [open, setOpen] = useState(false)
  const [since, setSince] = useState("")
  const [until, setUntil] = useState("")
  const replay = useAction(() =>
    apiClient.notification_endpoints.replay_window({
      params: { id },
      payload: {
        since: DateTime.makeUnsafe(new Date(since)),
        ...(until === "" ? {} : { until: DateTime.makeUnsafe(new Date(until)) })
      }
    })
  )
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    const counts = await replay.run()
    if (counts === undefined) return
    showToast(
      counts.skipped === 0
        ? `${counts.queued} queued again`
        : `${counts.queued} queued again, ${counts.skipped} found no room in the queue`
    )
    setOpen(false)
    onDone()
  }
  const begin = () => {
    setSince(localInput(Date.now() - DAY_MS))
    setUntil("")
    replay.reset()
    setOpen(true)
  }
  return (
    <>
      <Button small onClick={begin}>
        Replay a window
      </Button>
      <Dialog open={open} title="Replay a window" onClose={() => setOpen(false)}>
        <form className="stack" onSubmit={(event) => void submit(event)}>
          <p className="quiet">
            Every failed delivery made in it is queued again, oldest first, under its own event id.
          </p>
          <FailureNotice failure={replay.failure} />
          <Field label="From" fault={fieldError(replay.failure, "since")}>
            {(field) => (
              <input
                {...field}
                type="datetime-local"
                required
                value={since}
                onChange={(event) => setSince(event.target.value)}
              />
            )}
          </Field>
          <Field label="Until" hint="Empty: now." fault={fieldError(replay.failure, "until")}>
            {(field) => (
              <input
                {...field}
                type="datetime-local"
                value={until}
                onChange={(event) => setUntil(event.target.value)}
              />
            )}
          </Field>
          <div className="dialog-actions">
            <Button onClick={() => setOpen(false)}>Cancel</Button>
            <Button kind="primary" type="submit" pending={replay.pending}>
              Replay
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  )
}
