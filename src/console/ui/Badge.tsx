import type { ReactNode } from "react"

/** How something stands: a word, a mark before it and a colour, so that none is alone. */
export type Tone = "quiet" | "wait" | "good" | "bad" | "note"

const marks: Record<Tone, string> = { quiet: "○", wait: "◔", good: "✓", bad: "✕", note: "◆" }

export const Badge = ({ children, tone }: { readonly tone: Tone; readonly children: ReactNode }) => (
  <span className={`badge ${tone}`}>
    <span aria-hidden="true">{marks[tone]}</span> {children}
  </span>
)
