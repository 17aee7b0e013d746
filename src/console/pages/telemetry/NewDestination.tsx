import { type FormEvent, useState } from "react"
import { apiClient } from "../../state/apiClient.ts"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { fieldError } from "../../ui/Failure.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UrlField } from "../../ui/UrlField.tsx"
import { useAction } from "../../ui/useAction.ts"

interface Header {
  readonly key: number
  readonly name: string
  readonly value: string
}

/** The most headers there may be. */
const MAX_HEADERS = 10

/** The collector's address and what authenticates there. Neither is shown again. */
export const NewDestination = ({
  onClose,
  onMade
}: {
  readonly onClose: () => void
  readonly onMade: () => void
}) => {
  const [url, setUrl] = useState("https://")
  const [headers, setHeaders] = useState<ReadonlyArray<Header>>([
    { key: 0, name: "Authorization", value: "" }
  ])
  const [content, setContent] = useState(false)
  const create = useAction(() =>
    apiClient.telemetry_destinations.create({
      payload: {
        url: url.trim(),
        content,
        headers: Object.fromEntries(
          headers.filter(({ value }) => value !== "").map(({ name, value }) => [name.trim(), value])
        )
      }
    })
  )
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    if ((await create.run()) !== undefined) onMade()
  }
  const change = (key: number, part: Partial<Header>) =>
    setHeaders(headers.map((one) => (one.key === key ? { ...one, ...part } : one)))
  return (
    <Dialog open title="The collector" onClose={onClose}>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        <FailureNotice failure={create.failure} />
        <UrlField
          hint="Public https, without credentials. An empty path becomes /v1/traces."
          fault={fieldError(create.failure, "url")}
          value={url}
          onChange={setUrl}
        />
        <fieldset className="field">
          <legend className="legend">Headers</legend>
          <p className="hint">Sent with each batch, kept sealed, and never shown again.</p>
          {headers.map(({ key, name, value }, index) => (
            <div key={key} className="header-row">
              <input
                aria-label={`Name of header ${index + 1}`}
                placeholder="Name"
                spellCheck={false}
                value={name}
                onChange={(event) => change(key, { name: event.target.value })}
              />
              <input
                aria-label={`Value of header ${index + 1}`}
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
                Another header
              </Button>
            </div>
          ) : null}
        </fieldset>
        <label className="check">
          <input type="checkbox" checked={content} onChange={({ target }) => setContent(target.checked)} />
          <span>
            Contents, too{" "}
            <span className="quiet">
              inputs, answers, arguments and results, without the secrets in them; else only what happened
            </span>
          </span>
        </label>
        <div className="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" pending={create.pending}>
            Set it
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
