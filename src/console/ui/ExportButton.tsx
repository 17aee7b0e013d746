import { type FocusEvent, type KeyboardEvent, useId, useRef, useState } from "react"
import { EXPORTS_PATH, type ExportFormat, MAX_EXPORTED } from "../../api/console/Exports.ts"
import { announce } from "./announce.ts"
import { withPageToken } from "../state/pageToken.ts"
import { Button } from "./Button.tsx"

const formats: ReadonlyArray<readonly [ExportFormat, string, string]> = [
  ["csv", "CSV", "for spreadsheets"],
  ["jsonl", "JSON Lines", "one record per line, as the API returns it"]
]

/**
 * Downloads a list with its filters, as a file that the service streams. `path` is that of the export, such as `/sessions`; filters
 * without a value are left out.
 */
export const ExportButton = ({
  filter = {},
  path
}: {
  readonly path: string
  readonly filter?: Readonly<Record<string, string | undefined>>
}) => {
  const [isOpen, setOpen] = useState(false)
  const area = useRef<HTMLDivElement>(null)
  const id = useId()
  const close = (takesFocus: boolean) => {
    setOpen(false)
    if (takesFocus) area.current?.querySelector("button")?.focus()
  }
  const href = (format: ExportFormat): string => {
    const given = Object.entries(filter).filter((one): one is [string, string] => one[1] !== undefined)
    return withPageToken(
      `${EXPORTS_PATH}${path}?${new URLSearchParams([["format", format], ...given]).toString()}`
    )
  }
  /** Of the button and the links: closes the choice when the focus leaves them, and by Escape. */
  const handlers = {
    onBlur: ({ relatedTarget }: FocusEvent) => {
      if (area.current?.contains(relatedTarget) !== true) setOpen(false)
    },
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== "Escape" || !isOpen) return
      event.stopPropagation()
      close(true)
    }
  }
  return (
    <div ref={area} className="export">
      <Button {...handlers} aria-expanded={isOpen} aria-controls={id} onClick={() => setOpen(!isOpen)}>
        Export
      </Button>
      <div id={id} className="export-choice" hidden={!isOpen}>
        {formats.map(([format, name, use]) => (
          <a
            key={format}
            href={href(format)}
            download
            {...handlers}
            onClick={() => {
              announce("Download started")
              close(true)
            }}
          >
            <strong>{name}</strong> <span className="quiet small">{use}</span>
          </a>
        ))}
        <p className="quiet small">
          The newest {MAX_EXPORTED.toLocaleString("en")} records at most, with the filters of the page. The
          audit log records the export.
        </p>
      </div>
    </div>
  )
}
