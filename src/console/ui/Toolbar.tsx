import { type ReactNode, useState } from "react"
import { Button } from "./Button.tsx"

/**
 * The filters of a list, in one row that wraps. With `filters`, the number of those that are set, small screens show a button with it in place
 * of all but the tabs, so that the records are not below a screen of fields.
 */
export const Toolbar = ({
  children,
  filters,
  label
}: {
  readonly label: string
  readonly filters?: number
  readonly children: ReactNode
}) => {
  const [isOpen, setOpen] = useState(false)
  return (
    <div
      className={filters === undefined ? "toolbar" : "toolbar collapsing"}
      role="group"
      aria-label={label}
      data-open={isOpen ? "" : undefined}
    >
      {filters === undefined ? null : (
        <span className="filters-button">
          <Button small aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {filters === 0 ? "Filters" : `Filters (${filters})`}
          </Button>
        </span>
      )}
      {children}
    </div>
  )
}

/** The number of filters that are set. */
export const countFilters = (...filters: ReadonlyArray<unknown>): number =>
  filters.filter((one) => one !== undefined).length
