import type { ReactNode } from "react"
import { Button } from "./Button.tsx"

/** The record that a link names, above its list: it may be on another page of the list, or match none of its filters. */
export const LinkedRecord = ({
  children,
  onClose,
  title
}: {
  /** `Selected key`. */
  readonly title: string
  readonly onClose: () => void
  readonly children: ReactNode
}) => (
  <section className="stack linked-record" aria-label={title}>
    <div className="change-head">
      <h2>{title}</h2>
      <Button small onClick={onClose}>
        Close
      </Button>
    </div>
    {children}
  </section>
)
