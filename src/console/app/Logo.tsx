/** The product's logo. */
export const Logo = () => (
  <svg className="logo" viewBox="0 0 32 32" aria-hidden="true">
    <circle cx="16" cy="16" r="14" />
    <path d="M9 17.2 14 22l9.5-11" />
  </svg>
)
