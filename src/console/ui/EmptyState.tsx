import type { ReactNode } from "react"

/** A placeholder for an empty list or a missing page. The children say how to proceed. */
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
