/**
 * JSON as a readable tree. Every string is rendered as untrusted text; long and deeply nested values are folded. Each button that shows a
 * folded part has the attribute `data-fold`, by which `useReading` finds them.
 */
import { createContext, memo, type ReactNode, useContext, useEffect, useRef, useState } from "react"
import type { Schema } from "effect"
import { CopyButton } from "./CopyButton.tsx"
import { UntrustedText } from "./UntrustedText.tsx"

/** Characters and lines of a text that are shown before it is expanded. */
const SHOWN_CHARACTERS = 600
const SHOWN_LINES = 20

/** Members of one array or object that are shown before it is expanded. */
const SHOWN_MEMBERS = 50

/** The most members of one array or object that one click shows: more would block the page. */
const MAX_UNFOLDED_MEMBERS = 500

/** Nesting levels that are expanded initially. */
const OPEN_LEVELS = 3

/** Deeper levels are not indented further: there would be no room for their values. */
const INDENTED_LEVELS = 8

const Unfolded = createContext(false)

/**
 * A tree of any JSON value, with a button that copies it. `undefined`: no value was given. `unfolded`: nothing is folded but very long lists.
 * `copyable`: false leaves the button out.
 */
export const JsonTree = memo(function JsonTree({
  copyable = true,
  label,
  unfolded = false,
  value
}: {
  readonly value: Schema.Json | undefined
  readonly label: string
  readonly unfolded?: boolean
  readonly copyable?: boolean
}) {
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
})

const Value = ({
  level,
  name = "",
  value
}: {
  readonly value: Schema.Json
  readonly level: number
  /** The name of the member that has the value. */
  readonly name?: string
}): ReactNode => {
  if (value === null) return <span className="json-word">null</span>
  switch (typeof value) {
    case "string":
      return <Text name={name} text={value} />
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

/** A line break, or the empty lines that `UntrustedText` shows as one. */
const LINE = /\n(?:\s*\n)?/gu

/** The length of the part of a text that is shown at first, and what the rest is measured in. */
const foldText = (text: string): { readonly shown: number; readonly whole: string } => {
  const lines = text.length <= SHOWN_LINES ? [] : [...text.matchAll(LINE)]
  const line = lines[SHOWN_LINES - 1]?.index ?? text.length
  if (line < SHOWN_CHARACTERS) {
    return line === text.length
      ? { shown: line, whole: "" }
      : { shown: line, whole: `${(lines.length + 1).toLocaleString("en")} lines` }
  }
  const whole = `${text.length.toLocaleString("en")} characters`
  if (text.length <= SHOWN_CHARACTERS) return { shown: text.length, whole }
  // A pair of surrogates is one character.
  return {
    shown: SHOWN_CHARACTERS - (/[\ud800-\udbff]/.test(text.charAt(SHOWN_CHARACTERS - 1)) ? 1 : 0),
    whole
  }
}

/** Names and starts of texts that may be source text, whose colours are loaded then. */
const CODE_NAMES = /sql|query|statement|command|cmd|script|shell|bash|ya?ml/iu
const CODE_STARTS = /\n|^\s*[[{]/u

/** Colours source text in an element, in browsers that can paint text without changing the document. */
const useCodeColours = (name: string, text: string) => {
  const element = useRef<HTMLElement>(null)
  useEffect(() => {
    const mayBeCode = CODE_NAMES.test(name) || CODE_STARTS.test(text)
    if (!mayBeCode || !("highlights" in CSS)) return undefined
    let remove: (() => void) | undefined
    let isGone = false
    const paint = async () => {
      const { paintCode } = await import("./code/paintCode.ts")
      if (!isGone && element.current !== null) remove = paintCode(element.current, name)
    }
    // Without the colours the text is as readable.
    paint().catch(() => undefined)
    return () => {
      isGone = true
      remove?.()
    }
  }, [name, text])
  return element
}

const Text = ({ name, text }: { readonly name: string; readonly text: string }) => {
  const [isExpanded, setExpanded] = useState(false)
  const expanded = useContext(Unfolded) || isExpanded
  const { shown, whole } = foldText(text)
  const isFolded = shown < text.length && !expanded
  const visible = isFolded ? text.slice(0, shown) : text
  const element = useCodeColours(name, visible)
  return (
    <span className="json-text">
      <span aria-hidden="true">“</span>
      <UntrustedText ref={element} text={visible} />
      {isFolded ? "…" : null}
      <span aria-hidden="true">”</span>
      {isFolded ? (
        <button type="button" className="link" data-fold="" onClick={() => setExpanded(true)}>
          show all {whole}
        </button>
      ) : isExpanded ? (
        <button type="button" className="link" onClick={() => setExpanded(false)}>
          show less
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
      <button type="button" className="link" data-fold="" onClick={() => setOpen(true)}>
        show {label === "object" ? (entries.length === 1 ? "1 field" : `${entries.length} fields`) : label}
      </button>
    )
  }
  return (
    <dl className={level === 0 || level > INDENTED_LEVELS ? "json-members" : "json-members nested"}>
      {entries.slice(0, shown).map(([name, value]) => (
        <div key={name} className="json-member">
          <dt>
            <UntrustedText text={name} />
          </dt>
          <dd>
            <Value value={value} name={name} level={level + 1} />
          </dd>
        </div>
      ))}
      {entries.length > shown ? (
        <button
          type="button"
          className="link"
          data-fold=""
          onClick={() => setLimit(shown + MAX_UNFOLDED_MEMBERS)}
        >
          show more ({entries.length.toLocaleString("en")} in total)
        </button>
      ) : null}
    </dl>
  )
}
