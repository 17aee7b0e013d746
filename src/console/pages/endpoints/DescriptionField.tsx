import { TextField } from "../../ui/TextField.tsx"

/** A field for the description of an endpoint. The server validates it; its error is shown at the field. */
export const DescriptionField = ({
  error,
  onChange,
  value
}: {
  readonly error: string | undefined
  readonly value: string
  readonly onChange: (value: string) => void
}) => (
  <TextField
    label="Description (optional)"
    hint="What the endpoint is for, such as Orders team, production."
    error={error}
    type="text"
    maxLength={200}
    value={value}
    onChange={onChange}
  />
)

/** The description to store: null for an empty field. */
export const toDescription = (value: string): string | null => (value.trim() === "" ? null : value.trim())
