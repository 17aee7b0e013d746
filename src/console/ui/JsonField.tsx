import { Result } from "effect"
import { useState } from "react"
import { parseJsonObject } from "./jsonText.ts"
import { TextAreaField } from "./TextField.tsx"

/** A text area for a JSON object. It shows a syntax error after the first blur, else the server's validation error. */
export const JsonField = ({
  error,
  hint,
  label,
  onChange,
  rows = 12,
  text
}: {
  readonly label: string
  readonly hint?: string
  readonly text: string
  readonly error: string | undefined
  readonly rows?: number
  readonly onChange: (text: string) => void
}) => {
  const [touched, setTouched] = useState(false)
  const parsed = parseJsonObject(text)
  return (
    <TextAreaField
      label={label}
      hint={hint}
      error={Result.isFailure(parsed) ? (touched ? parsed.failure : undefined) : error}
      className="code"
      rows={rows}
      required
      spellCheck={false}
      autoCapitalize="off"
      value={text}
      onChange={onChange}
      onBlur={() => setTouched(true)}
    />
  )
}
