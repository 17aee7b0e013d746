import type { ReactNode } from "react"

/** A checkbox with its text. */
export const Checkbox = ({
  checked,
  children,
  className = "",
  onChange
}: {
  readonly checked: boolean
  readonly children: ReactNode
  readonly className?: string
  readonly onChange: (isChecked: boolean) => void
}) => (
  <label className={`check ${className}`.trimEnd()}>
    <input type="checkbox" checked={checked} onChange={({ target }) => onChange(target.checked)} />
    <span>{children}</span>
  </label>
)
