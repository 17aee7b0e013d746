import { type ReactNode, useEffect, useRef } from "react"
import { Badge, type Tone } from "./Badge.tsx"
import { Button } from "./Button.tsx"

/** What became of one of the records that an action was applied to. */
export interface ItemResult {
  readonly id: string
  readonly name: ReactNode
  /** In a few words, or the reason why nothing was done. */
  readonly outcome: ReactNode
  readonly tone: Tone
  /** Whether the action was applied. Items without it are listed first. */
  readonly done: boolean
}

/** `35 done, 2 closed before`: how many items had which outcome, in the order of their first. */
export const summarizeResults = <A,>(items: ReadonlyArray<A>, outcomeOf: (item: A) => string): string =>
  [...Map.groupBy(items, outcomeOf)].map(([outcome, group]) => `${group.length} ${outcome}`).join(", ")

/** The results of an action on several records, in its sheet: a summary, and what became of each. */
export const ResultList = ({
  items,
  onClose,
  summary
}: {
  readonly summary: ReactNode
  readonly items: ReadonlyArray<ItemResult>
  readonly onClose: () => void
}) => {
  const title = useRef<HTMLParagraphElement>(null)
  // The button that had the focus is gone.
  useEffect(() => title.current?.focus(), [])
  return (
    <>
      <p ref={title} tabIndex={-1} className="notice-title sheet-summary">
        {summary}
      </p>
      <ul className="sheet-items" aria-label="Results">
        {[...items.filter(({ done }) => !done), ...items.filter(({ done }) => done)].map((item) => (
          <li key={item.id} className="sheet-item">
            <span className="sheet-item-name">{item.name}</span>
            <Badge tone={item.tone}>{item.outcome}</Badge>
          </li>
        ))}
      </ul>
      <div className="dialog-actions">
        <Button kind="primary" onClick={onClose}>
          Close
        </Button>
      </div>
    </>
  )
}
