import { findApiKeys } from "../../identity/ApiKeyFormat.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { looksRandom } from "./looksRandom.ts"
import { secretKinds } from "./secretKinds.ts"
import type { SecretKind } from "./secretKinds/SecretKind.ts"
import type { TextRange } from "./TextRange.ts"
import { isAfterRemoval, type TextView } from "./TextView.ts"

interface Candidate {
  readonly prefix: string
  readonly kind: SecretKind
}

/** Candidates by the first two UTF-16 code units of their prefix, longest prefix first: one look-up per start of a word. */
const byStart = new Map<number, Array<Candidate>>()
const startOf = (text: string, at: number): number => text.charCodeAt(at) * 0x10000 + text.charCodeAt(at + 1)
for (const kind of secretKinds) {
  for (const prefix of kind.prefixes) {
    const start = startOf(prefix, 0)
    byStart.set(start, [...(byStart.get(start) ?? []), { prefix, kind }])
  }
}
for (const candidates of byStart.values())
  candidates.sort((left, right) => right.prefix.length - left.prefix.length)

/** Shorter prefixes occur by chance behind a slash or plus within base64. */
const LONG_PREFIX = 5

/** Characters between two places where a search is interrupted. */
const CHARACTERS_PER_STEP = 4 * 1024

/** Finds secrets that begin with a fixed prefix, and Countersign's own keys anywhere. Yields after some characters. */
export function* findSecretKinds(view: TextView): Generator<void, ReadonlyArray<TextRange>> {
  const { text } = view
  const found: Array<TextRange> = text.includes("csk_") ? [...findApiKeys(text)] : []
  /** Where a run without a secret ended, by kind: the run is not searched again from its middle. */
  const searchedUntil = new Map<SecretKind, number>()
  let stepEnd = CHARACTERS_PER_STEP
  for (let start = 0; start + 1 < text.length; start++) {
    if (start >= stepEnd) {
      stepEnd = start + CHARACTERS_PER_STEP
      yield
    }
    // A prefix in the middle of a word does not count, unless characters were removed before it.
    if (isWordCode(text.charCodeAt(start - 1)) && !isAfterRemoval(view, start) && !isAfterEscape(text, start))
      continue
    const candidates = byStart.get(startOf(text, start))
    if (candidates === undefined) continue
    const isWithinBase64 = /[+/]/.test(text.charAt(start - 1))
    for (const { kind, prefix } of candidates) {
      if (isWithinBase64 && prefix.length < LONG_PREFIX) continue
      if (!text.startsWith(prefix, start) || (searchedUntil.get(kind) ?? 0) > start) continue
      const end = bodyEnd(view, kind, start + prefix.length)
      if (end === undefined) {
        if (kind.body.lastIndex > 0) searchedUntil.set(kind, kind.body.lastIndex)
        continue
      }
      if (passesCheck(kind, text.slice(start, end), prefix)) {
        found.push({ start, end })
        start = end - 1
        break
      }
      searchedUntil.set(kind, end)
    }
  }
  return found
}

/**
 * Whether a position follows an escaped line break or tab, or a terminal's colour sequence: their last letter is not
 * part of a word.
 */
const isAfterEscape = (text: string, start: number): boolean =>
  (text.charAt(start - 2) === "\\" && /[nrt]/.test(text.charAt(start - 1))) ||
  (text.charAt(start - 1) === "m" && /\[[0-9;]{1,12}m$/.test(text.slice(Math.max(0, start - 14), start)))

/** Returns the end of a kind's body after its prefix; undefined if the body does not match or the word continues. */
const bodyEnd = (view: TextView, { body }: SecretKind, from: number): number | undefined => {
  body.lastIndex = from
  if (!body.test(view.text)) return undefined
  const end = body.lastIndex
  return !isWordCode(view.text.charCodeAt(end)) || isAfterRemoval(view, end) ? end : undefined
}

const passesCheck = ({ check }: SecretKind, secret: string, prefix: string): boolean => {
  const body = secret.slice(prefix.length)
  switch (check) {
    case "random":
      return (looksRandom(body) || looksRandom(secret)) && !isPlaceholder(body)
    case "digit":
      return /[0-9]/.test(body) && !isPlaceholder(body)
    case "any":
      return !isPlaceholder(body)
  }
}

const isWordCode = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)
