import type { ReactNode } from "react"
import { Link } from "../../app/router.tsx"

/** A figure of the overview, which links to the list that it counts. */
export const Figure = ({
  children,
  label,
  to
}: {
  readonly label: string
  readonly to: string
  /** The value. */
  readonly children: ReactNode
}) => (
  <Link to={to} className="card overview-figure">
    <span className="quiet small">{label}</span>
    <strong>{children}</strong>
  </Link>
)
