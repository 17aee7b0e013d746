import { findApiKeys } from "../../identity/ApiKeyFormat.ts"
import { findAssignments } from "./findAssignments.ts"
import { findAuthorizations } from "./findAuthorizations.ts"
import { findCommandOptions } from "./findCommandOptions.ts"
import { decodeBase64Runs, MAX_LAYERS } from "./decodeBase64Runs.ts"
import type { KnownValues } from "./KnownValues.ts"
import { findProviderSecrets } from "./findProviderSecrets.ts"
import { mergeRanges, type TextRange } from "./TextRange.ts"
import { findJwts, findPrivateKeys, findUrlCredentials } from "./structuredSecrets.ts"
import { findTokens } from "./findTokens.ts"
import { joinLines, toOriginal, normalizeText, type TextView } from "./TextView.ts"

/** Shortest text that anything is looked for in. */
const MIN_TEXT = 8

/** Where secrets stand in a text, in order and apart. Linear in its length. */
export const findSecrets = (text: string, known: KnownValues, layer = 0): ReadonlyArray<TextRange> => {
  if (text.length < MIN_TEXT) return []
  const clear = normalizeText(text)
  const base = clear ?? { text }
  const whole = joinLines(base, false)
  // What no ordinary text holds is found however it is cut: known values, and by their checksum keys of ours.
  const all = joinLines(base, true)
  // Lists, and no arguments of a call: a text may hold more than the stack does.
  return mergeRanges([
    ...inView({ text }, known, layer),
    ...(clear === undefined ? [] : inView(clear, known, layer).map((span) => toOriginal(clear, span))),
    ...(whole === undefined ? [] : inView(whole, known, layer).map((span) => toOriginal(whole, span))),
    ...(all === undefined
      ? []
      : [...known.find(all), ...findApiKeys(all.text)].map((span) => toOriginal(all, span)))
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

const inView = (view: TextView, known: KnownValues, layer: number): ReadonlyArray<TextRange> => {
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
          ...findCommandOptions(text)
        ]
      : [])
  ]
}

const inRuns = (view: TextView, known: KnownValues, layer: number): Array<TextRange> => {
  const { text } = view
  return [
    ...findProviderSecrets(view),
    ...findTokens(text),
    ...findPrivateKeys(text),
    ...findJwts(text),
    ...(layer < MAX_LAYERS
      ? decodeBase64Runs(text).filter((inner) => findSecrets(inner.text, known, layer + 1).length > 0)
      : [])
  ]
}
