import { useEffect, useRef } from "react"

/** The properties of the row of a record that the address names: it is marked, scrolled to and focused once it is shown. */
export const useLinkedRow = (isLinked: boolean) => {
  const row = useRef<HTMLTableRowElement>(null)
  useEffect(() => {
    if (!isLinked) return
    row.current?.scrollIntoView({ block: "center" })
    row.current?.focus({ preventScroll: true })
  }, [isLinked])
  return isLinked
    ? { ref: row, tabIndex: -1, "aria-current": "true" as const, className: "linked-row" }
    : undefined
}
