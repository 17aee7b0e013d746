import type { ButtonHTMLAttributes, ReactNode } from "react"

/** A button. While `pending`, it shows a spinner and ignores clicks. */
export const Button = ({
  children,
  kind = "plain",
  pending = false,
  small = false,
  wide = false,
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & {
  readonly children: ReactNode
  readonly kind?: "plain" | "primary" | "good" | "bad" | "bare"
  readonly pending?: boolean
  readonly small?: boolean
  readonly wide?: boolean
}) => (
  <button
    type="button"
    {...rest}
    className={["button", kind, small ? "small" : "", wide ? "wide" : ""].filter(Boolean).join(" ")}
    aria-disabled={pending || undefined}
    aria-busy={pending || undefined}
    onClick={pending ? (event) => event.preventDefault() : rest.onClick}
  >
    {pending ? <span className="spinner" aria-hidden="true" /> : null}
    {children}
  </button>
)
