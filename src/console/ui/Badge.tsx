import type { ReactNode } from "react"

/** The tone of a status. It selects both a symbol and a colour, so that no meaning depends on colour alone. */
export type Tone = "quiet" | "wait" | "good" | "bad" | "note"

const symbols: Record<Tone, string> = { quiet: "○", wait: "◔", good: "✓", bad: "✕", note: "◆" }

/** A status label with a symbol. */
export const Badge = ({ children, tone }: { readonly tone: Tone; readonly children: ReactNode }) => (
  <span className={`badge ${tone}`}>
    <span aria-hidden="true">{symbols[tone]}</span> {children}
  </span>
)
