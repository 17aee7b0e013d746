import type { ReactNode } from "react"
import { Button } from "./Button.tsx"

/**
 * Says that another person has saved the edited list. Its user loads the saved one, which discards the changes, or overwrites it.
 * `noun`: the edited things, in the plural, such as `rules`.
 */
export const ConflictNotice = ({
  children,
  noun,
  onLoad,
  onOverwrite,
  pending
}: {
  readonly noun: string
  /** More about the difference, before what to do. */
  readonly children?: ReactNode
  readonly onLoad: () => void
  readonly onOverwrite: () => void
  readonly pending: boolean
}) => (
  <div className="notice warn" role="alert">
    <p className="notice-title">The {noun} changed while you were editing</p>
    <p>
      {children} Nothing was saved. Load the saved {noun}, which discards your changes, or overwrite them with
      yours.
    </p>
    <div className="notice-actions">
      <Button small kind="primary" onClick={onLoad}>
        Load saved {noun}
      </Button>
      <Button small kind="bad" pending={pending} onClick={onOverwrite}>
        Overwrite with mine
      </Button>
    </div>
  </div>
)
