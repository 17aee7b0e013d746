import { DateTime, Option, Schema } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import { useState } from "react"
import { EndpointId } from "../../../domain/Ids.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useAtomValue } from "../../state/atoms.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { useKeptDialog } from "../../state/keptWork.ts"
import { countOf } from "../../ui/batch/BatchSheet.tsx"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { Button } from "../../ui/Button.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { TextField } from "../../ui/TextField.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"

/** A time as the value of a `datetime-local` input: local, to the minute. */
const localInput = (millis: number): string => {
  const at = new Date(millis)
  return new Date(millis - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

const DAY_MS = 24 * 3_600_000

const Changes = Schema.Struct({
  since: Schema.optionalKey(Schema.String),
  until: Schema.optionalKey(Schema.String)
})

/** A period in the texts of its fields; undefined while the start is missing. */
const periodOf = (texts: string) => {
  const [since = "", until = ""] = texts.split(" ")
  if (since === "") return undefined
  return {
    since: DateTime.makeUnsafe(new Date(since)),
    ...(until === "" ? {} : { until: DateTime.makeUnsafe(new Date(until)) })
  }
}

/** The failed deliveries of an endpoint within a period, by its ID and the texts of the fields. */
const failedAtom = Atom.family((key: string) => {
  const [endpoint_id, ...texts] = key.split(" ")
  const period = periodOf(texts.join(" "))
  return Atom.make(
    consoleClient.deliveries.countFailed({
      params: { endpoint_id: EndpointId.make(endpoint_id ?? "") },
      query: period ?? { since: DateTime.makeUnsafe(Date.now()) }
    })
  )
})

/** A button and dialog that replay all failed deliveries of a period, for example after an outage of the receiver. */
export const ReplayWindow = ({ id, onDone }: { readonly id: EndpointId; readonly onDone: () => void }) => {
  const keptAs = `replay ${id}`
  const dialog = useKeptDialog(keptAs)
  return (
    <>
      <Button small onClick={dialog.open}>
        Replay failed deliveries
      </Button>
      {dialog.isOpen ? <ReplayDialog id={id} keptAs={keptAs} onClose={dialog.close} onDone={onDone} /> : null}
    </>
  )
}

const ReplayDialog = ({
  id,
  keptAs,
  onClose,
  onDone
}: {
  readonly id: EndpointId
  readonly keptAs: string
  readonly onClose: () => void
  readonly onDone: () => void
}) => {
  const [start] = useState(() => localInput(Date.now() - DAY_MS))
  const draft = useFormDraft(keptAs, Changes, { since: start, until: "" })
  const { since, until } = draft.value
  const texts = `${since} ${until}`
  const counting = failedAtom(`${id} ${texts}`)
  useRefreshing(counting)
  const count = useAtomValue(counting)
  const counted = since === "" ? undefined : Option.getOrUndefined(AsyncResult.value(count))
  const isEmpty = counted?.failed === 0 && counted.is_complete
  const replay = useAction((payload: NonNullable<ReturnType<typeof periodOf>>) =>
    apiClient.notificationEndpoints.replayDeliveries({ params: { id }, payload })
  )
  const submit = async () => {
    const period = periodOf(texts)
    if (period === undefined || isEmpty) return
    const counts = await replay.run(period)
    if (counts === undefined) return
    showToast(
      counts.skipped === 0
        ? `Deliveries queued: ${counts.queued}`
        : `Deliveries queued: ${counts.queued}; skipped because the queue is full: ${counts.skipped}`
    )
    onClose()
    onDone()
  }
  return (
    <FormDialog
      title="Replay failed deliveries"
      draft={draft}
      submit={
        counted?.is_complete === true && !isEmpty ? `Replay ${counted.failed.toLocaleString("en")}` : "Replay"
      }
      pending={replay.pending}
      disabled={isEmpty}
      onSubmit={submit}
      onClose={onClose}
    >
      <p className="quiet">
        All failed deliveries created in this period are queued again, oldest first, with their original event
        ids.
      </p>
      <FailureNotice failure={replay.failure} fields={["since", "until"]} />
      <TextField
        label="From"
        error={fieldError(replay.failure, "since")}
        type="datetime-local"
        required
        value={since}
        onChange={(since) => draft.set({ since })}
      />
      <TextField
        label="Until"
        hint="Defaults to the current time."
        error={fieldError(replay.failure, "until")}
        type="datetime-local"
        value={until}
        onChange={(until) => draft.set({ until })}
      />
      <p role="status">
        {since === ""
          ? "Choose when the period begins."
          : counted === undefined
            ? AsyncResult.isFailure(count)
              ? "The failed deliveries could not be counted."
              : "Counting the failed deliveries…"
            : isEmpty
              ? "No delivery of this period has failed: there is nothing to replay."
              : `${counted.is_complete ? "" : "At least "}${countOf(counted.failed, ["failed delivery", "failed deliveries"])} of this period.`}
      </p>
    </FormDialog>
  )
}
