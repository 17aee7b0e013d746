import { Schema } from "effect"
import { useState } from "react"
import { ScoreFormat } from "../../../domain/telemetry/TelemetryDestination.ts"
import { apiClient } from "../../state/apiClient.ts"
import { Button } from "../../ui/Button.tsx"
import { Checkbox } from "../../ui/Checkbox.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { FormDialog } from "../../ui/FormDialog.tsx"
import { SelectField } from "../../ui/Select.tsx"
import { UrlField } from "../../ui/UrlField.tsx"
import { useAction } from "../../ui/useAction.ts"
import { useFormDraft } from "../../ui/useFormDraft.ts"

interface Header {
  readonly key: number
  readonly name: string
  readonly value: string
}

/** The most headers that the API accepts. */
const MAX_HEADERS = 10

const formats: ReadonlyArray<readonly [ScoreFormat, string]> = [
  ["span", "Attributes of spans"],
  ["log", "OTLP logs"],
  ["langfuse", "Langfuse scores"],
  ["phoenix", "Phoenix annotations"],
  ["braintrust", "Braintrust scores"]
]

/** The kept input of the dialog: without the URL and the headers, which can contain secrets. */
export const NEW_COLLECTOR = "new collector"

const Changes = Schema.Struct({
  content: Schema.optionalKey(Schema.Boolean),
  scores: Schema.optionalKey(ScoreFormat),
  joinsTraces: Schema.optionalKey(Schema.Boolean)
})

/** A dialog for the collector's URL and authentication headers, neither of which is shown again. */
export const NewDestination = ({
  onClose,
  onCreated
}: {
  readonly onClose: () => void
  readonly onCreated: () => void
}) => {
  const [url, setUrl] = useState("https://")
  const [headers, setHeaders] = useState<ReadonlyArray<Header>>([
    { key: 0, name: "Authorization", value: "" }
  ])
  const draft = useFormDraft<Required<typeof Changes.Type>>(NEW_COLLECTOR, Changes, {
    content: false,
    scores: "span",
    joinsTraces: false
  })
  const { content, joinsTraces, scores } = draft.value
  const create = useAction(() =>
    apiClient.telemetryDestinations.create({
      payload: {
        url: url.trim(),
        content,
        scores,
        trace: joinsTraces ? "join" : "own",
        headers: Object.fromEntries(
          headers.filter(({ value }) => value !== "").map(({ name, value }) => [name.trim(), value])
        )
      }
    })
  )
  const submit = async () => {
    if ((await create.run()) !== undefined) onCreated()
  }
  const change = (key: number, part: Partial<Header>) =>
    setHeaders(headers.map((one) => (one.key === key ? { ...one, ...part } : one)))
  return (
    <FormDialog
      title="Add collector"
      draft={draft}
      submit="Save"
      pending={create.pending}
      onSubmit={submit}
      onClose={onClose}
    >
      <FailureNotice failure={create.failure} fields={["url", "scores"]} />
      <UrlField
        hint="A public HTTPS URL without credentials. An empty path becomes /v1/traces."
        error={fieldError(create.failure, "url")}
        value={url}
        onChange={setUrl}
      />
      <fieldset className="field">
        <legend className="legend">Headers</legend>
        <p className="hint">Sent with each batch. Stored encrypted and never shown again.</p>
        {headers.map(({ key, name, value }, index) => (
          <div key={key} className="header-row">
            <input
              aria-label={`Header ${index + 1} name`}
              placeholder="Name"
              spellCheck={false}
              value={name}
              onChange={(event) => change(key, { name: event.target.value })}
            />
            <input
              aria-label={`Header ${index + 1} value`}
              placeholder="Value"
              type="password"
              autoComplete="off"
              value={value}
              onChange={(event) => change(key, { value: event.target.value })}
            />
            <Button
              small
              kind="bare"
              aria-label={`Remove header ${index + 1}`}
              onClick={() => setHeaders(headers.filter((one) => one.key !== key))}
            >
              Remove
            </Button>
          </div>
        ))}
        {headers.length < MAX_HEADERS ? (
          <div>
            <Button
              small
              onClick={() =>
                setHeaders([
                  ...headers,
                  { key: Math.max(0, ...headers.map((one) => one.key)) + 1, name: "", value: "" }
                ])
              }
            >
              Add header
            </Button>
          </div>
        ) : null}
      </fieldset>
      <SelectField
        label="Scores"
        hint="Also sends feedback as what this tool reads as a score. The URL is its address for OTLP traces."
        error={fieldError(create.failure, "scores")}
        options={formats}
        value={scores}
        onChange={(chosen) => draft.set({ scores: chosen })}
      />
      <Checkbox checked={joinsTraces} onChange={(isChecked) => draft.set({ joinsTraces: isChecked })}>
        Join callers' traces{" "}
        <span className="quiet">a run continues the trace of its request; otherwise it only links to it</span>
      </Checkbox>
      <Checkbox checked={content} onChange={(isChecked) => draft.set({ content: isChecked })}>
        Include content{" "}
        <span className="quiet">
          inputs, answers, arguments and results, with secrets redacted; otherwise only metadata
        </span>
      </Checkbox>
    </FormDialog>
  )
}
