import { useEffect, useEffectEvent, useState } from "react"

/** How long after the last key the text is used, in milliseconds. */
const TYPING_MS = 250

/** A field for words that filter a list. `onSearch` gets the text once its user stops typing, or presses Enter; empty for none. */
export const SearchField = ({
  delayMs = TYPING_MS,
  label,
  onSearch,
  placeholder,
  text
}: {
  readonly label: string
  /** How long after the last key the text is used. Short for a list that the page has whole: no request follows. */
  readonly delayMs?: number
  readonly placeholder?: string
  /** The text in use, such as the one of the address. */
  readonly text: string
  readonly onSearch: (text: string) => void
}) => {
  const [draft, setDraft] = useState({ typed: text, from: text })
  // Back and a chosen view change the text from outside.
  if (draft.from !== text) setDraft({ typed: text, from: text })
  const { typed } = draft
  const search = useEffectEvent(() => {
    setDraft({ typed, from: typed.trim() })
    onSearch(typed.trim())
  })
  useEffect(() => {
    if (typed.trim() === text) return undefined
    const timer = setTimeout(() => search(), delayMs)
    return () => clearTimeout(timer)
  }, [typed, text, delayMs])
  return (
    <label className="inline-field">
      <span className="visually-hidden">{label}</span>
      <input
        type="search"
        maxLength={200}
        spellCheck={false}
        autoComplete="off"
        placeholder={placeholder ?? label}
        value={typed}
        onChange={({ target }) => setDraft({ typed: target.value, from: text })}
        onKeyDown={(event) => {
          if (event.key === "Enter" && typed.trim() !== text) search()
        }}
      />
    </label>
  )
}
