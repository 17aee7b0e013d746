import type { ReactNode } from "react"
import { Button } from "./Button.tsx"

/** Says that unsaved work is back, with a button that discards it. */
export const KeptWorkNotice = ({
  children,
  onDiscard
}: {
  /** What else to know, such as that the saved state has changed since. */
  readonly children?: ReactNode
  readonly onDiscard: () => void
}) => (
  <div className="notice" role="status">
    <p className="notice-title">Your unsaved changes are back</p>
    {children}
    <div className="notice-actions">
      <Button small onClick={onDiscard}>
        Discard changes
      </Button>
    </div>
  </div>
)
