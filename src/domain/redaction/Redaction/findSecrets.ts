import { findApiKeys } from "../../identity/ApiKeyFormat.ts"
import { assignmentTriggers, findAssignments } from "./findAssignments.ts"
import { findBelow } from "./findBelow.ts"
import { findColumns } from "./findColumns.ts"
import { findDigests, findHeaders, findSchemes } from "./findAuthorizations.ts"
import { commandTriggers, findCommandOptions } from "./findCommandOptions.ts"
import { findManifestSecrets } from "./findManifestSecrets.ts"
import { decodeBase64Runs, decodeHexRuns, MAX_LAYERS } from "./decodeBase64Runs.ts"
import type { KnownValues } from "./KnownValues.ts"
import { findMarkedTokens, markedTriggers } from "./findMarkedTokens.ts"
import { findSecretKinds } from "./findSecretKinds.ts"
import { hasSteps } from "./steps.ts"
import { makeTextScanner, ScanFlag, type TextScan } from "./TextScan.ts"
import { mergeRanges, type TextRange } from "./TextRange.ts"
import { findJwts, findPrivateKeys, findUrlCredentials } from "./structuredSecrets.ts"
import { findTokens, tokenTriggers } from "./findTokens.ts"
import { findProseSecrets, proseTriggers } from "./findProseSecrets.ts"
import { joinLines, joinLiterals, toOriginal, normalizeText, type TextView } from "./TextView.ts"
import { isOpaque } from "./opaque.ts"
import { isSecretName } from "./secretNames.ts"

/** An XML element without inner elements. */
const element = /<(?:\w{1,16}:)?([A-Za-z][\w.-]{0,64})(?:\s[^<>]{0,200})?>([^<>]{10,1024})<\//g

/** Credentials in the text of an element: a secret is often one of several words, such as `{acme 5f3a…}` in a configuration of Jenkins. */
const findElementSecrets = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const match of text.matchAll(element)) {
    const [whole, name = "", content = ""] = match
    if (!isSecretName(name)) continue
    const start = match.index + whole.length - 2 - content.length
    for (const run of content.matchAll(/[^\s{}"',;|]{10,512}/g)) {
      if (isOpaque(run[0])) found.push({ start: start + run.index, end: start + run.index + run[0].length })
    }
  }
  return found
}

/** Minimum length of a searched text. */
const MIN_TEXT = 8

/** Minimum length of a run of Base64 that is decoded, of hexadecimal digits, and of the longest run of a token. */
const MIN_BASE64 = 20
const MIN_HEX = 32
const MIN_TOKEN = 12

/** A text must contain one of these literals, in any case, before a search is made. */
const searches = [
  assignmentTriggers,
  ["bearer", "basic", "token ", "apikey", "api-key", "ssws", "geniekey", "negotiate", "jwt"],
  ["authorization", "cookie", "curl"],
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
const FIRST_PROSE = FIRST_COMMAND + commandTriggers.length

const scan = makeTextScanner([...searches, ...tokenTriggers, ...commandTriggers, ...proseTriggers])

/**
 * Whether one pass shows that {@link findSecrets} finds nothing: the text has no trigger and no long word, and nothing to
 * decode or to join. That settles most member names and many short values without the searches.
 */
export const isOrdinary = (text: string, known: KnownValues): boolean => {
  if (text.length < MIN_TEXT) return true
  if (hasSteps(text) || text.startsWith("-") || text.includes("@")) return false
  const { flags, hasAny, longestRun } = scan(text)
  return (
    flags === 0 &&
    !hasAny &&
    longestRun < MIN_TOKEN &&
    (known.size === 0 || known.find({ text }).length === 0)
  )
}

/**
 * Finds the secrets of a text as ordered, disjoint ranges. Linear in the text's length. Yields between its searches, and
 * within long ones, so that the caller can yield to other work: a part of 64 KiB may take 100 ms.
 */
export function* findSecrets(
  text: string,
  known: KnownValues,
  layer = 0
): Generator<void, ReadonlyArray<TextRange>> {
  if (text.length < MIN_TEXT) return []
  const isLong = hasSteps(text)
  const scanned = scan(text)
  const { flags } = scanned
  const isDecoded = (flags & (ScanFlag.special | ScanFlag.escape)) !== 0 || scanned.has(QUOTED_PRINTABLE)
  const isBroken = (flags & ScanFlag.lineBreak) !== 0
  // Appended one by one instead of as call arguments: a text may contain more findings than the stack holds.
  const found: Array<TextRange> = []
  const add = (ranges: ReadonlyArray<TextRange>, view: TextView = { text }) => {
    for (const range of ranges) found.push(toOriginal(view, range))
  }
  add(yield* findInView({ text }, scanned, known, layer))
  // Only in the original text, because these searches rely on its lines.
  if (scanned.has(ASSIGNMENT) && scanned.has(MANIFEST)) add(findManifestSecrets(text))
  const hasRows = isBroken || scanned.has(ELEMENT) || text.includes("\t")
  if (
    hasRows &&
    (scanned.has(ASSIGNMENT) || scanned.has(FIRST_PROSE) || (flags & ScanFlag.otherScript) !== 0)
  ) {
    add(yield* findBelow(text))
    add(yield* findColumns(text))
  }
  if (isLong) yield
  const normalized = isDecoded ? normalizeText(text) : undefined
  const base = normalized ?? { text }
  if (normalized !== undefined)
    add(yield* findInView(normalized, scan(normalized.text), known, layer), normalized)
  if (isBroken) {
    if (isLong) yield
    const joined = joinLines(base, false)
    if (joined !== undefined) add(yield* findInView(joined, scan(joined.text), known, layer), joined)
    if (isLong) yield
    // Known values and checksummed keys never occur by chance, so they are found across any line break.
    const fullyJoined = joinLines(base, true)
    if (fullyJoined !== undefined) {
      add(known.find(fullyJoined), fullyJoined)
      add(findApiKeys(fullyJoined.text), fullyJoined)
    }
  }
  if ((flags & ScanFlag.quote) !== 0) {
    if (isLong) yield
    const literals = joinLiterals(base)
    if (literals !== undefined) {
      add(known.find(literals), literals)
      add(yield* findInRuns(literals, scan(literals.text), known, MAX_LAYERS), literals)
    }
  }
  return mergeRanges(found)
}

function* findInView(
  view: TextView,
  scanned: TextScan,
  known: KnownValues,
  layer: number
): Generator<void, ReadonlyArray<TextRange>> {
  const { text } = view
  const isLong = hasSteps(text)
  const found: Array<TextRange> = []
  const add = (ranges: ReadonlyArray<TextRange>) => {
    for (const range of ranges) found.push(range)
  }
  if (known.size > 0) add(known.find(view))
  if (isLong) yield
  add(yield* findInRuns(view, scanned, known, layer))
  if (isLong) yield
  add(findUrlCredentials(text))
  if (scanned.has(SCHEME)) add(findSchemes(text))
  if (scanned.has(HEADER)) add(findHeaders(text))
  if (scanned.has(DIGEST)) add(findDigests(text))
  if (isLong) yield
  if (scanned.has(ASSIGNMENT)) {
    add(yield* findAssignments(text))
    if (scanned.has(ELEMENT)) add(findElementSecrets(text))
  }
  add(yield* findCommandOptions(text, scanned, FIRST_COMMAND))
  add(yield* findProseSecrets(text, scanned, FIRST_PROSE))
  return found
}

function* findInRuns(
  view: TextView,
  scanned: TextScan,
  known: KnownValues,
  layer: number
): Generator<void, ReadonlyArray<TextRange>> {
  const { text } = view
  const isLong = hasSteps(text)
  const found: Array<TextRange> = []
  const add = (ranges: ReadonlyArray<TextRange>) => {
    for (const range of ranges) found.push(range)
  }
  if (scanned.longestRun >= MIN_TOKEN) {
    add(yield* findSecretKinds(view))
    if (isLong) yield
    if (scanned.has(MARKED)) add(findMarkedTokens(text))
    if (isLong) yield
  }
  add(yield* findTokens(text, scanned, FIRST_TOKEN))
  if (scanned.has(PRIVATE_KEY)) add(findPrivateKeys(text))
  if (scanned.has(JWT)) add(yield* findJwts(text))
  if (layer < MAX_LAYERS) {
    if (isLong) yield
    const runs = [
      ...(scanned.longestRun >= MIN_BASE64 ? yield* decodeBase64Runs(text) : []),
      ...(scanned.longestHexRun >= MIN_HEX ? decodeHexRuns(text) : [])
    ]
    for (const run of runs) {
      if ((yield* findSecrets(run.text, known, layer + 1)).length > 0) found.push(run)
    }
  }
  return found
}
