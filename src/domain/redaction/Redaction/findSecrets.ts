import { findApiKeys } from "../../identity/ApiKeyFormat.ts"
import { findAssignments } from "./findAssignments.ts"
import { findAuthorizations } from "./findAuthorizations.ts"
import { findCommandOptions } from "./findCommandOptions.ts"
import { decodeBase64Runs, MAX_LAYERS } from "./decodeBase64Runs.ts"
import type { KnownValues } from "./KnownValues.ts"
import { findMarkedTokens } from "./findMarkedTokens.ts"
import { findSecretKinds } from "./findSecretKinds.ts"
import { mergeRanges, type TextRange } from "./TextRange.ts"
import { findJwts, findPrivateKeys, findUrlCredentials } from "./structuredSecrets.ts"
import { findTokens } from "./findTokens.ts"
import { findSpokenSecrets } from "./findSpokenSecrets.ts"
import { joinLines, joinLiterals, toOriginal, normalizeText, type TextView } from "./TextView.ts"

/** Minimum length of a searched text. */
const MIN_TEXT = 8

/** Finds the secrets of a text as ordered, disjoint ranges. Linear in the text's length. */
export const findSecrets = (text: string, known: KnownValues, layer = 0): ReadonlyArray<TextRange> => {
  if (text.length < MIN_TEXT) return []
  const normalized = normalizeText(text)
  const base = normalized ?? { text }
  const joined = joinLines(base, false)
  // Known values and checksummed keys never occur by chance, so they are found across any line break.
  const fullyJoined = joinLines(base, true)
  const literals = joinLiterals(base)
  // Spread into arrays, not into call arguments: a text may contain more findings than the stack holds.
  return mergeRanges([
    ...findInView({ text }, known, layer),
    ...(normalized === undefined
      ? []
      : findInView(normalized, known, layer).map((span) => toOriginal(normalized, span))),
    ...(joined === undefined ? [] : findInView(joined, known, layer).map((span) => toOriginal(joined, span))),
    ...(literals === undefined
      ? []
      : [...known.find(literals), ...findInRuns(literals, known, MAX_LAYERS)].map((span) =>
          toOriginal(literals, span)
        )),
    ...(fullyJoined === undefined
      ? []
      : [...known.find(fullyJoined), ...findApiKeys(fullyJoined.text)].map((span) =>
          toOriginal(fullyJoined, span)
        ))
  ])
}

/** Minimum length of a token: no formatted secret and no decoded base64 is shorter. */
const LONG_RUN = 16

const isTokenCharacter = new Uint8Array(128)
for (const character of "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.~$%+/=-") {
  isTokenCharacter[character.charCodeAt(0)] = 1
}

/** A scan without regular expressions: it settles nearly all texts of corrections. */
const hasLongRun = (text: string): boolean => {
  let run = 0
  for (let at = 0; at < text.length; at++) {
    run = isTokenCharacter[text.charCodeAt(at)] === 1 ? run + 1 : 0
    if (run === LONG_RUN) return true
  }
  return false
}

/** A sign between a name and a value, or a word for a secret: texts without either need no search by context. */
const CONTEXT =
  /[=:>：]|^-|\s(?:["'`]|-)|pass|pwd|kenn|secret|token|bearer|basic|api|key|login|ssws|negotiate|jwt|cred|wachtwoord|has[lł]|hesl|ş?ifre|parol|senha|contrase|clave|clé|chiave|chave|sleutel|klucz|schlüssel|l[öo]senord|kod|salasana|jelsz|lozink|geslo|mật|sandi|identified|seed|mnemonic|community|rabbitmq|wifi|psexec|ldap|sql|smb|setx|pin\b|[\u0250-\uffff]/i

const findInView = (view: TextView, known: KnownValues, layer: number): ReadonlyArray<TextRange> => {
  const { text } = view
  return [
    ...(known.size === 0 ? [] : known.find(view)),
    // Most texts have neither and need no further search.
    ...(hasLongRun(text) ? findInRuns(view, known, layer) : []),
    ...(CONTEXT.test(text)
      ? [
          ...findUrlCredentials(text),
          ...findAuthorizations(text),
          ...findAssignments(text),
          ...findCommandOptions(text),
          ...findSpokenSecrets(text)
        ]
      : [])
  ]
}

const findInRuns = (view: TextView, known: KnownValues, layer: number): Array<TextRange> => {
  const { text } = view
  return [
    ...findSecretKinds(view),
    ...findMarkedTokens(text),
    ...findTokens(text),
    ...findPrivateKeys(text),
    ...findJwts(text),
    ...(layer < MAX_LAYERS
      ? decodeBase64Runs(text).filter((inner) => findSecrets(inner.text, known, layer + 1).length > 0)
      : [])
  ]
}
