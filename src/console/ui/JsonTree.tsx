/** JSON as a readable tree. Every string is rendered as untrusted text; long and deeply nested values are collapsed. */
import { createContext, type ReactNode, useContext, useState } from "react"
import type { Schema } from "effect"
import { CopyButton } from "./CopyButton.tsx"
import { MAX_UNFOLDED_MEMBERS, OPEN_LEVELS, SHOWN_CHARACTERS, SHOWN_MEMBERS } from "./foldedParts.ts"
import { UntrustedText } from "./UntrustedText.tsx"

const Unfolded = createContext(false)

/**
 * A tree of any JSON value, with a button that copies it. `undefined`: no value was given. `unfolded`: nothing is collapsed. `copyable`:
 * false leaves the button out.
 */
export const JsonTree = ({
  copyable = true,
  label,
  unfolded = false,
  value
}: {
  readonly value: Schema.Json | undefined
  readonly label: string
  readonly unfolded?: boolean
  readonly copyable?: boolean
}) => {
  const tree = (
    <Unfolded value={unfolded}>
      <div className="json" role="group" aria-label={label}>
        {value === undefined ? <span className="quiet">none</span> : <Value value={value} level={0} />}
      </div>
    </Unfolded>
  )
  return !copyable || value === undefined ? (
    tree
  ) : (
    <div className="json-box">
      {tree}
      <CopyButton label={`Copy as JSON: ${label}`} text={() => JSON.stringify(value, null, 2)} />
    </div>
  )
}

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
  const [isExpanded, setExpanded] = useState(false)
  const expanded = useContext(Unfolded) || isExpanded
  const long = text.length > SHOWN_CHARACTERS
  return (
    <span className="json-text">
      <span aria-hidden="true">“</span>
      <UntrustedText text={long && !expanded ? text.slice(0, SHOWN_CHARACTERS) : text} />
      {long && !expanded ? "…" : null}
      <span aria-hidden="true">”</span>
      {long && (isExpanded || !expanded) ? (
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
  const unfolded = useContext(Unfolded)
  const [limit, setLimit] = useState(SHOWN_MEMBERS)
  const [isOpen, setOpen] = useState(level < OPEN_LEVELS)
  const open = unfolded || isOpen
  const shown = unfolded ? Math.max(limit, MAX_UNFOLDED_MEMBERS) : limit
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
        <button type="button" className="link" onClick={() => setLimit(shown + 10 * SHOWN_MEMBERS)}>
          show more ({entries.length.toLocaleString("en")} in total)
        </button>
      ) : null}
    </dl>
  )
}
