import { findAssignments } from "./assignments.ts"
import { encodedTexts, MAX_LAYERS } from "./encoded.ts"
import type { KnownValues } from "./KnownValues.ts"
import { findProviderSecrets } from "./providerSecrets.ts"
import { merged, type Span } from "./Span.ts"
import { findJwts, findPrivateKeys, findUrlCredentials } from "./structures.ts"
import { findTokens } from "./tokens.ts"
import { joined, original, plain, type View } from "./View.ts"

/** Shortest text that anything is looked for in. */
const MIN_TEXT = 8

/** Where secrets stand in a text, in order and apart. Linear in its length. */
export const findSecrets = (text: string, known: KnownValues, layer = 0): ReadonlyArray<Span> => {
  if (text.length < MIN_TEXT) return []
  const found = inView({ text }, known, layer)
  const clear = plain(text)
  if (clear !== undefined) found.push(...inView(clear, known, layer).map((span) => original(clear, span)))
  const base = clear ?? { text }
  const whole = joined(base, false)
  if (whole !== undefined) found.push(...inView(whole, known, layer).map((span) => original(whole, span)))
  if (known.size > 0) {
    const all = joined(base, true)
    if (all !== undefined) found.push(...known.find(all).map((span) => original(all, span)))
  }
  return merged(found)
}

const inView = (view: View, known: KnownValues, layer: number): Array<Span> => {
  const { text } = view
  return [
    ...known.find(view),
    ...findProviderSecrets(view),
    ...findTokens(text),
    ...findPrivateKeys(text),
    ...findJwts(text),
    ...findUrlCredentials(text),
    ...findAssignments(text),
    ...(layer < MAX_LAYERS
      ? encodedTexts(text).filter((inner) => findSecrets(inner.text, known, layer + 1).length > 0)
      : [])
  ]
}
