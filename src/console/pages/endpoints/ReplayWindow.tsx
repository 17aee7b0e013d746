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

/** A time as the value of a `datetime-local` input: local, to the minute. */
const localInput = (millis: number): string => {
  const at = new Date(millis)
  return new Date(millis - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

const DAY_MS = 24 * 3_600_000

/** A button and dialog that replay all failed deliveries of a period, for example after an outage of the receiver. */
export const ReplayWindow = ({ id, onDone }: { readonly id: EndpointId; readonly onDone: () => void }) => {
  const [open, setOpen] = useState(false)
  const [since, setSince] = useState("")
  const [until, setUntil] = useState("")
  const replay = useAction(() =>
    apiClient.notificationEndpoints.replayDeliveries({
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
        ? `Deliveries queued: ${counts.queued}`
        : `Deliveries queued: ${counts.queued}; skipped because the queue is full: ${counts.skipped}`
    )
    setOpen(false)
    onDone()
  }
  const start = () => {
    setSince(localInput(Date.now() - DAY_MS))
    setUntil("")
    replay.reset()
    setOpen(true)
  }
  return (
    <>
      <Button small onClick={start}>
        Replay failed deliveries
      </Button>
      <Dialog open={open} title="Replay failed deliveries" onClose={() => setOpen(false)}>
        <form className="stack" onSubmit={(event) => void submit(event)}>
          <p className="quiet">
            All failed deliveries created in this period are queued again, oldest first, with their original
            event ids.
          </p>
          <FailureNotice failure={replay.failure} fields={["since", "until"]} />
          <Field label="From" error={fieldError(replay.failure, "since")}>
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
          <Field
            label="Until"
            hint="Defaults to the current time."
            error={fieldError(replay.failure, "until")}
          >
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
