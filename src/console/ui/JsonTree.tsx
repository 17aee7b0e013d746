/** JSON as a readable tree. Every string is rendered as untrusted text; long and deeply nested values are collapsed. */
import { type ReactNode, useState } from "react"
import type { Schema } from "effect"
import { UntrustedText } from "./UntrustedText.tsx"

/** Characters of a string that are shown before it is expanded. */ const SHOWN_CHARACTERS = 600

/** Members of one array or object that are shown before it is expanded. */
const SHOWN_MEMBERS = 50

/** Nesting levels that are expanded initially. */
const OPEN_LEVELS = 3

/** A tree of any JSON value. `undefined`: no value was given. */
export const JsonTree = ({
  label,
  value
}: {
  readonly value: Schema.Json | undefined
  readonly label: string
}) => (
  <div className="json" role="group" aria-label={label}>
    {value === undefined ? <span className="quiet">none</span> : <Value value={value} level={0} />}
  </div>
)

const Value = ({ level, value }: { readonly value: Schema.Json; readonly level: number }): ReactNode => {
  if (value === null) return <span className="json-word">null</span>
  switch (typeof value) {
    case "string":
      return <Text text={value} />
    case "number":
      return <span className="json-number">{Object.is(value, -0) ? "-0" : String(value)}</span>
    case "boolean":
      return <span className="json-word">{String(value)}</span>
    default:
      return Array.isArray(value) ? (
        <Members
          level={level}
          label={value.length === 1 ? "1 item" : `${value.length} items`}
          entries={value.map((one: Schema.Json, index): readonly [string, Schema.Json] => [
            String(index),
            one
          ])}
        />
      ) : (
        <Members level={level} label="object" entries={Object.entries(value)} />
      )
  }
}

const Text = ({ text }: { readonly text: string }) => {
  const [expanded, setExpanded] = useState(false)
  const long = text.length > SHOWN_CHARACTERS
  return (
    <span className="json-text">
      <span aria-hidden="true">“</span>
      <UntrustedText text={long && !expanded ? text.slice(0, SHOWN_CHARACTERS) : text} />
      {long && !expanded ? "…" : null}
      <span aria-hidden="true">”</span>
      {long ? (
        <button type="button" className="link" onClick={() => setExpanded(!expanded)}>
          {expanded ? "show less" : `show all ${text.length.toLocaleString("en")} characters`}
        </button>
      ) : null}
    </span>
  )
}

const Members = ({
  entries,
  label,
  level
}: {
  readonly entries: ReadonlyArray<readonly [string, Schema.Json]>
  readonly level: number
  readonly label: string
}) => {
  const [shown, setShown] = useState(SHOWN_MEMBERS)
  const [open, setOpen] = useState(level < OPEN_LEVELS)
  if (entries.length === 0) return <span className="quiet">{label === "object" ? "{ }" : "[ ]"}</span>
  if (!open) {
    return (
      <button type="button" className="link" onClick={() => setOpen(true)}>
        show {label === "object" ? (entries.length === 1 ? "1 field" : `${entries.length} fields`) : label}
      </button>
    )
  }
  return (
    <dl className={level === 0 ? "json-members" : "json-members nested"}>
      {entries.slice(0, shown).map(([name, value]) => (
        <div key={name} className="json-member">
          <dt>
            <UntrustedText text={name} />
          </dt>
          <dd>
            <Value value={value} level={level + 1} />
          </dd>
        </div>
      ))}
      {entries.length > shown ? (
        <button type="button" className="link" onClick={() => setShown(shown + 10 * SHOWN_MEMBERS)}>
          show more ({entries.length.toLocaleString("en")} in total)
        </button>
      ) : null}
    </dl>
  )
}
