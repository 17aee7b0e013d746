import { findApiKeys } from "../../identity/ApiKeyFormat.ts"
import { assignmentTriggers, findAssignments } from "./findAssignments.ts"
import { findDigests, findHeaders, findSchemes } from "./findAuthorizations.ts"
import { commandTriggers, findCommandOptions } from "./findCommandOptions.ts"
import { findElementSecrets } from "./findElementSecrets.ts"
import { findManifestSecrets } from "./findManifestSecrets.ts"
import { decodeBase64Runs, decodeHexRuns, MAX_LAYERS } from "./decodeBase64Runs.ts"
import type { KnownValues } from "./KnownValues.ts"
import { findMarkedTokens, markedTriggers } from "./findMarkedTokens.ts"
import { findSecretKinds } from "./findSecretKinds.ts"
import { makeTextScanner, ScanFlag, type TextScan } from "./TextScan.ts"
import { mergeRanges, type TextRange } from "./TextRange.ts"
import { findJwts, findPrivateKeys, findUrlCredentials } from "./structuredSecrets.ts"
import { findTokens, tokenTriggers } from "./findTokens.ts"
import { findSpokenSecrets, spokenTriggers } from "./findSpokenSecrets.ts"
import { joinLines, joinLiterals, toOriginal, normalizeText, type TextView } from "./TextView.ts"

/** Minimum length of a searched text. */
const MIN_TEXT = 8

/** Literals of which a text must contain one, in any case, before a search is made. */
const searches = [
  assignmentTriggers,
  ["bearer", "basic", "token ", "apikey", "api-key", "ssws", "geniekey", "negotiate", "jwt"],
  ["authorization", "cookie"],
  ["response="],
  markedTriggers,
  ["private key", "private-lines:"],
  ["eyj"],
  ["=3d", "=\n", "=\r"],
  ["</"],
  ["kind:", 'kind"']
]
const [ASSIGNMENT, SCHEME, HEADER, DIGEST, MARKED, PRIVATE_KEY, JWT, QUOTED_PRINTABLE, ELEMENT, MANIFEST] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9
] as const
const FIRST_TOKEN = searches.length
const FIRST_COMMAND = FIRST_TOKEN + tokenTriggers.length
const FIRST_SPOKEN = FIRST_COMMAND + commandTriggers.length

const scan = makeTextScanner([...searches, ...tokenTriggers, ...commandTriggers, ...spokenTriggers])

/** Finds the secrets of a text as ordered, disjoint ranges. Linear in the text's length. */
export const findSecrets = (text: string, known: KnownValues, layer = 0): ReadonlyArray<TextRange> => {
  if (text.length < MIN_TEXT) return []
  const scanned = scan(text)
  const { flags } = scanned
  const isDecoded = (flags & (ScanFlag.special | ScanFlag.escape)) !== 0 || scanned.has(QUOTED_PRINTABLE)
  const normalized = isDecoded ? normalizeText(text) : undefined
  const base = normalized ?? { text }
  const isBroken = (flags & ScanFlag.lineBreak) !== 0
  const joined = isBroken ? joinLines(base, false) : undefined
  // Known values and checksummed keys never occur by chance, so they are found across any line break.
  const fullyJoined = isBroken ? joinLines(base, true) : undefined
  const literals = (flags & ScanFlag.quote) !== 0 ? joinLiterals(base) : undefined
  const found = [
    ...findInView({ text }, scanned, known, layer),
    // Only in the original text, because the search relies on its lines.
    ...(scanned.has(ASSIGNMENT) && scanned.has(MANIFEST) ? findManifestSecrets(text) : [])
  ]
  if (
    normalized === undefined &&
    joined === undefined &&
    fullyJoined === undefined &&
    literals === undefined
  ) {
    return mergeRanges(found)
  }
  // Spread into arrays, not into call arguments: a text may contain more findings than the stack holds.
  return mergeRanges([
    ...found,
    ...(normalized === undefined ? [] : findInOriginal(normalized, known, layer)),
    ...(joined === undefined ? [] : findInOriginal(joined, known, layer)),
    ...(literals === undefined
      ? []
      : [...known.find(literals), ...findInRuns(literals, scan(literals.text), known, MAX_LAYERS)].map(
          (span) => toOriginal(literals, span)
        )),
    ...(fullyJoined === undefined
      ? []
      : [...known.find(fullyJoined), ...findApiKeys(fullyJoined.text)].map((span) =>
          toOriginal(fullyJoined, span)
        ))
  ])
}

const findInOriginal = (view: TextView, known: KnownValues, layer: number): ReadonlyArray<TextRange> =>
  findInView(view, scan(view.text), known, layer).map((span) => toOriginal(view, span))

const findInView = (
  view: TextView,
  scanned: TextScan,
  known: KnownValues,
  layer: number
): ReadonlyArray<TextRange> => {
  const { text } = view
  const found: Array<TextRange> = []
  const add = (ranges: ReadonlyArray<TextRange>) => {
    for (const range of ranges) found.push(range)
  }
  if (known.size > 0) add(known.find(view))
  add(findInRuns(view, scanned, known, layer))
  add(findUrlCredentials(text))
  if (scanned.has(SCHEME)) add(findSchemes(text))
  if (scanned.has(HEADER)) add(findHeaders(text))
  if (scanned.has(DIGEST)) add(findDigests(text))
  if (scanned.has(ASSIGNMENT)) {
    add(findAssignments(text))
    if (scanned.has(ELEMENT)) add(findElementSecrets(text))
  }
  add(findCommandOptions(text, scanned, FIRST_COMMAND))
  add(findSpokenSecrets(text, scanned, FIRST_SPOKEN))
  return found
}

/** Minimum length of a run of Base64 that is decoded, of hexadecimal digits, and of the longest word of a token. */
const MIN_BASE64 = 20
const MIN_HEX = 32
const MIN_WORD = 12

const findInRuns = (
  view: TextView,
  scanned: TextScan,
  known: KnownValues,
  layer: number
): ReadonlyArray<TextRange> => {
  const { text } = view
  const found: Array<TextRange> = []
  const add = (ranges: ReadonlyArray<TextRange>) => {
    for (const range of ranges) found.push(range)
  }
  if (scanned.longestWord >= MIN_WORD) {
    add(findSecretKinds(view))
    if (scanned.has(MARKED)) add(findMarkedTokens(text))
  }
  add(findTokens(text, scanned, FIRST_TOKEN))
  if (scanned.has(PRIVATE_KEY)) add(findPrivateKeys(text))
  if (scanned.has(JWT)) add(findJwts(text))
  if (layer < MAX_LAYERS) {
    const runs = [
      ...(scanned.longestRun >= MIN_BASE64 ? decodeBase64Runs(text) : []),
      ...(scanned.longestHexRun >= MIN_HEX ? decodeHexRuns(text) : [])
    ]
    add(runs.filter((inner) => findSecrets(inner.text, known, layer + 1).length > 0))
  }
  return found
}
