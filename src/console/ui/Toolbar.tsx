import type { ReactNode } from "react"

/** The filters of a list, in one row that wraps. */
export const Toolbar = ({ children, label }: { readonly label: string; readonly children: ReactNode }) => (
  <div className="toolbar" role="group" aria-label={label}>
    {children}
  </div>
)
