import type { ReactNode } from "react"

/** A placeholder for an empty list or a missing page: what is missing, and what to do about it. */
export const EmptyState = ({
  children,
  title
}: {
  readonly title: string
  readonly children?: ReactNode
}) => (
  <div className="empty">
    <h2>{title}</h2>
    {children === undefined ? null : <div className="quiet">{children}</div>}
  </div>
)
