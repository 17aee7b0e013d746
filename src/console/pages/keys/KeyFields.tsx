import type { Failure } from "../../ui/Failure.ts"
import { fieldError } from "../../ui/Failure.ts"
import { TextField } from "../../ui/TextField.tsx"

interface Props {
  readonly value: string
  readonly onChange: (value: string) => void
  /** Of the request that saves the key. */
  readonly failure: Failure | undefined
  readonly hint: string
}

/** The groups of a key or a person, under their preset. */
export const Groups = ({ names }: { readonly names: ReadonlyArray<string> }) =>
  names.length === 0 ? null : (
    <div className="quiet small">
      {names.length === 1 ? "group" : "groups"} {names.join(", ")}
    </div>
  )

/** The name of a key. */
export const KeyNameField = ({ failure, hint, onChange, value }: Props) => (
  <TextField
    label="Name"
    hint={hint}
    error={fieldError(failure, "name")}
    required
    maxLength={200}
    value={value}
    onChange={onChange}
  />
)

/** The address of a key's approval emails. */
export const KeyEmailField = ({ failure, hint, onChange, value }: Props) => (
  <TextField
    label="Email for approval notifications"
    hint={hint}
    error={fieldError(failure, "email")}
    type="email"
    value={value}
    onChange={onChange}
  />
)
