import type { ReactNode } from "react"
import { Link } from "../../app/router.tsx"

/** A figure of the overview, which links to the list that it counts. */
export const Figure = ({
  children,
  isBad = false,
  label,
  to
}: {
  readonly label: string
  readonly to: string
  /** Whether the figure needs a person now. */
  readonly isBad?: boolean
  /** The value. */
  readonly children: ReactNode
}) => (
  <Link to={to} className="card overview-figure">
    <span className="quiet small">{label}</span>
    <strong className={isBad ? "failing" : undefined}>{children}</strong>
  </Link>
)
