/** The difference of two texts by lines. Added and removed lines are marked by a sign and a word, as well as by colour. */
import { useState } from "react"
import type { LineChange } from "../../../domain/tasks/diffLines.ts"
import { UntrustedText } from "../UntrustedText.tsx"
import { type ChangedLine, changedLines } from "./changedLines.ts"

/** Lines that are shown before the reader asks for more. */
const SHOWN_LINES = 200

/** A list of the changed lines, with some unchanged ones around each. */
export const LineChanges = ({ changes }: { readonly changes: ReadonlyArray<LineChange> }) => {
  const [shown, setShown] = useState(SHOWN_LINES)
  const lines = changedLines(changes)
  if (changes.every(({ op }) => op === "same")) return <p>No changes.</p>
  return (
    <>
      <ol className="line-changes">
        {lines.slice(0, shown).map((line, index) => (
          <li key={index} className={line.kind}>
            <Line line={line} />
          </li>
        ))}
      </ol>
      {lines.length > shown ? (
        <button type="button" className="link" onClick={() => setShown(shown + 10 * SHOWN_LINES)}>
          show more of {lines.length.toLocaleString("en")} lines
        </button>
      ) : null}
    </>
  )
}

/** The mark before a line. A screen reader reads the word instead. */
const marks = {
  added: ["+", "Added: "],
  removed: ["−", "Removed: "],
  same: ["", ""]
} as const

const Line = ({ line }: { readonly line: ChangedLine }) => {
  if (line.kind === "skipped") {
    return <span className="quiet">{line.count.toLocaleString("en")} unchanged lines</span>
  }
  const [mark, word] = marks[line.kind]
  return (
    <>
      <span className="line-mark" aria-hidden="true">
        {mark}
      </span>
      <span>
        <span className="visually-hidden">{word}</span>
        {line.text === "" && line.kind !== "same" ? (
          <span className="quiet">empty line</span>
        ) : (
          <UntrustedText text={line.text} />
        )}
      </span>
    </>
  )
}
