import type { ReactNode } from "react"

/** The title of a page, a one-line description, and the page's actions. */
export const PageHeader = ({
  aside,
  children,
  title
}: {
  readonly title: ReactNode
  readonly aside?: ReactNode
  readonly children?: ReactNode
}) => (
  <div className="page-head">
    <div>
      <h1>{title}</h1>
      {children === undefined ? null : <div className="quiet">{children}</div>}
    </div>
    {aside === undefined ? null : <div className="page-aside">{aside}</div>}
  </div>
)
