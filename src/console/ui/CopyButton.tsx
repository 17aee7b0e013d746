import { useEffect, useRef, useState } from "react"
import { announce } from "./announce.ts"
import { showToast } from "./Toasts.tsx"

/** How long the button shows that the text was copied, in milliseconds. */
const COPIED_MS = 2_000

/**
 * Copies a text to the clipboard. A button without a `caption` is an icon of fixed size, so that nothing moves when it shows that the text
 * was copied.
 */
export const CopyButton = ({
  caption,
  label,
  text
}: {
  /** The accessible name and the tooltip, such as "Copy the session ID". */
  readonly label: string
  readonly caption?: string
  /** A function is called on the click: for texts that cost time to make. */
  readonly text: string | (() => string)
}) => {
  const [isCopied, setCopied] = useState(false)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text())
    } catch {
      showToast("The browser does not allow copying. Select the text and copy it.")
      return
    }
    setCopied(true)
    announce("Copied")
    clearTimeout(timer.current)
    timer.current = setTimeout(() => setCopied(false), COPIED_MS)
  }
  return (
    <button
      type="button"
      className={caption === undefined ? "copy" : "copy captioned"}
      aria-label={caption === undefined ? label : undefined}
      title={caption === label ? undefined : label}
      data-copied={isCopied || undefined}
      onClick={() => void copy()}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        {isCopied ? (
          <path d="m3 8.5 3.2 3.2L13 4.8" />
        ) : (
          <>
            <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
            <path d="M10.5 3.2V3A1.5 1.5 0 0 0 9 1.5H3A1.5 1.5 0 0 0 1.5 3v6A1.5 1.5 0 0 0 3 10.5h.2" />
          </>
        )}
      </svg>
      {caption}
    </button>
  )
}

/** An identifier with a button that copies it. */
export const CopyableId = ({
  id,
  of,
  quiet = false
}: {
  readonly id: string
  /** The noun of the identified record, such as "session". */
  readonly of: string
  readonly quiet?: boolean
}) => (
  <span className="copyable">
    <span className={quiet ? "id quiet" : "id"}>{id}</span>
    <CopyButton label={`Copy the ${of} ID`} text={id} />
  </span>
)
