import { TextField } from "./TextField.tsx"

/** A URL field. The server validates the URL; its error is shown at the field. */
export const UrlField = ({
  error,
  hint,
  onChange,
  value
}: {
  readonly value: string
  readonly hint: string
  readonly error: string | undefined
  readonly onChange: (value: string) => void
}) => (
  <TextField
    label="URL"
    hint={hint}
    error={error}
    type="url"
    required
    maxLength={2048}
    spellCheck={false}
    value={value}
    onChange={onChange}
  />
)
