import { Result } from "effect"
import { useState } from "react"
import { Field } from "./Field.tsx"
import { parseJsonObject } from "./jsonText.ts"

/** A JSON object, written by hand. What is no object is said once the field is left, what the service has against it as well. */
export const JsonField = ({
  fault,
  hint,
  label,
  onChange,
  rows = 12,
  text
}: {
  readonly label: string
  readonly hint?: string
  readonly text: string
  readonly fault: string | undefined
  readonly rows?: number
  readonly onChange: (text: string) => void
}) => {
  const [left, setLeft] = useState(false)
  const read = parseJsonObject(text)
  return (
    <Field
      label={label}
      {...(hint === undefined ? {} : { hint })}
      fault={Result.isFailure(read) ? (left ? read.failure : undefined) : fault}
    >
      {(field) => (
        <textarea
          {...field}
          className="code"
          rows={rows}
          required
          spellCheck={false}
          autoCapitalize="off"
          value={text}
          onChange={({ target }) => onChange(target.value)}
          onBlur={() => setLeft(true)}
        />
      )}
    </Field>
  )
}
