import { recognise } from "../../identity/ApiKeyFormat.ts"
import { findAssignments } from "./assignments.ts"
import { findAuthorizations } from "./authorization.ts"
import { findOptions } from "./commands.ts"
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
  const clear = plain(text)
  const base = clear ?? { text }
  const whole = joined(base, false)
  // What no ordinary text holds is found however it is cut: known values, and by their checksum keys of ours.
  const all = joined(base, true)
  // Lists, and no arguments of a call: a text may hold more than the stack does.
  return merged([
    ...inView({ text }, known, layer),
    ...(clear === undefined ? [] : inView(clear, known, layer).map((span) => original(clear, span))),
    ...(whole === undefined ? [] : inView(whole, known, layer).map((span) => original(whole, span))),
    ...(all === undefined
      ? []
      : [...known.find(all), ...recognise(all.text)].map((span) => original(all, span)))
  ])
}

/** Shortest run that may be a token: no secret with a form, and no base64 that is decoded, is shorter. */
const LONG_RUN = 16

const inRun = new Uint8Array(128)
for (const character of "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.~$%+/=-") {
  inRun[character.charCodeAt(0)] = 1
}

/** One pass without an expression: nearly every text of a correction is looked at this far and no further. */
const hasLongRun = (text: string): boolean => {
  let run = 0
  for (let at = 0; at < text.length; at++) {
    run = inRun[text.charCodeAt(at)] === 1 ? run + 1 : 0
    if (run === LONG_RUN) return true
  }
  return false
}

/** What stands between a name and its value, or before a credential. */
const GIVEN =
  /[=:>]|^-|\s(?:is|was|ist|lautet|es|est|["'`]|-)|(?:word|pwd|phrase)\sto\s|\b(?:bearer|basic|token|api-?key|ssws|geniekey|negotiate|jwt|login)[ \t]/i

const inView = (view: View, known: KnownValues, layer: number): ReadonlyArray<Span> => {
  const { text } = view
  return [
    ...(known.size === 0 ? [] : known.find(view)),
    // Most texts have neither, and nothing else need be looked for.
    ...(hasLongRun(text) ? inRuns(view, known, layer) : []),
    ...(GIVEN.test(text)
      ? [
          ...findUrlCredentials(text),
          ...findAuthorizations(text),
          ...findAssignments(text),
          ...findOptions(text)
        ]
      : [])
  ]
}

const inRuns = (view: View, known: KnownValues, layer: number): Array<Span> => {
  const { text } = view
  return [
    ...findProviderSecrets(view),
    ...findTokens(text),
    ...findPrivateKeys(text),
    ...findJwts(text),
    ...(layer < MAX_LAYERS
      ? encodedTexts(text).filter((inner) => findSecrets(inner.text, known, layer + 1).length > 0)
      : [])
  ]
}
