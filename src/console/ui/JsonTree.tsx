/** JSON as a tree that can be read: every text isolated and honest, what is long or deep folded away. */
import { type ReactNode, useState } from "react"
import type { Schema } from "effect"
import { UntrustedText } from "./UntrustedText.tsx"

/** Characters of a text that are shown before it is asked for. */
const SHOWN_CHARACTERS = 600

/** Members of one list or object that are shown before more are asked for. */
const SHOWN_MEMBERS = 50

/** Levels that stand open. */
const OPEN_LEVELS = 3

/** A value of any JSON. `undefined`: there is none. */
export const JsonTree = ({
  label,
  value
}: {
  readonly value: Schema.Json | undefined
  readonly label: string
}) => (
  <div className="json" role="group" aria-label={label}>
    {value === undefined ? <span className="quiet">none were given</span> : <Value value={value} level={0} />}
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
          word={value.length === 1 ? "1 item" : `${value.length} items`}
          entries={value.map((one: Schema.Json, index): readonly [string, Schema.Json] => [
            String(index),
            one
          ])}
        />
      ) : (
        <Members level={level} word="object" entries={Object.entries(value)} />
      )
  }
}

const Text = ({ text }: { readonly text: string }) => {
  const [all, setAll] = useState(false)
  const long = text.length > SHOWN_CHARACTERS
  return (
    <span className="json-text">
      <span aria-hidden="true">“</span>
      <UntrustedText text={long && !all ? text.slice(0, SHOWN_CHARACTERS) : text} />
      {long && !all ? "…" : null}
      <span aria-hidden="true">”</span>
      {long ? (
        <button type="button" className="link" onClick={() => setAll(!all)}>
          {all ? "show less" : `show all ${text.length.toLocaleString("en")} characters`}
        </button>
      ) : null}
    </span>
  )
}

const Members = ({
  entries,
  level,
  word
}: {
  readonly entries: ReadonlyArray<readonly [string, Schema.Json]>
  readonly level: number
  readonly word: string
}) => {
  const [shown, setShown] = useState(SHOWN_MEMBERS)
  const [open, setOpen] = useState(level < OPEN_LEVELS)
  if (entries.length === 0) return <span className="quiet">{word === "object" ? "{ }" : "[ ]"}</span>
  if (!open) {
    return (
      <button type="button" className="link" onClick={() => setOpen(true)}>
        show {word === "object" ? (entries.length === 1 ? "1 field" : `${entries.length} fields`) : word}
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
          show more of {entries.length.toLocaleString("en")}
        </button>
      ) : null}
    </dl>
  )
}
