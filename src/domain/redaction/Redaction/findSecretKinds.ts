import { findApiKeys } from "../../identity/ApiKeyFormat.ts"
import { isFiller } from "./isPlaceholder.ts"
import { isDrawn } from "./looksRandom.ts"
import { secretKinds } from "./secretKinds.ts"
import type { Grammar } from "./secretKinds/SecretKind.ts"
import type { TextRange } from "./TextRange.ts"
import { isAfterRemoval, type TextView } from "./TextView.ts"

interface Candidate {
  readonly prefix: string
  readonly grammar: Grammar
}

/** Candidates by the first two UTF-16 code units of their prefix: one look-up per start of a word. */
const byStart = new Map<number, Array<Candidate>>()
const startOf = (text: string, at: number): number => text.charCodeAt(at) * 0x10000 + text.charCodeAt(at + 1)
for (const { grammars, prefixes } of secretKinds) {
  for (const prefix of prefixes) {
    const start = startOf(prefix, 0)
    const candidates = byStart.get(start) ?? []
    byStart.set(start, [...candidates, ...grammars.map((grammar) => ({ prefix, grammar }))])
  }
}

/** Whether a prefix begins with an ASCII character: rules out most places quickly. */
const isBeginning = new Uint8Array(128)
for (const start of byStart.keys()) isBeginning[start >>> 16] = 1

/** Shorter prefixes occur by chance behind a slash or plus within base64, and as a word of a longer prefix: `pk_live_`. */
const MIN_INSIDE = 5
const MIN_JOINED = 8

/** Characters between two places where a search is interrupted. */
const CHARACTERS_PER_STEP = 4 * 1024

/** Finds secrets that begin with a fixed prefix, and Countersign's own keys anywhere. Yields after some characters. */
export function* findSecretKinds(view: TextView): Generator<void, ReadonlyArray<TextRange>> {
  const { text } = view
  const found: Array<TextRange> = text.includes("csk_") ? [...findApiKeys(text)] : []
  /** Where a run without a secret ended, by form: the run is not searched again from its middle. */
  const searchedUntil = new Map<Grammar, number>()
  let stepEnd = CHARACTERS_PER_STEP
  for (let start = 0; start + 1 < text.length; start++) {
    if (start >= stepEnd) {
      stepEnd = start + CHARACTERS_PER_STEP
      yield
    }
    if (isBeginning[text.charCodeAt(start)] !== 1) continue
    // A prefix in the middle of a word does not count, unless characters were removed before it.
    if (isWordCode(text.charCodeAt(start - 1)) && !isAfterRemoval(view, start) && !isAfterEscape(text, start))
      continue
    const candidates = byStart.get(startOf(text, start))
    if (candidates === undefined) continue
    let last = start
    for (const { grammar, prefix } of candidates) {
      if (!text.startsWith(prefix, start) || (searchedUntil.get(grammar) ?? 0) > start) continue
      if (isPartOfWord(text, start, prefix)) continue
      const { form } = grammar
      form.lastIndex = start + prefix.length
      const match = form.exec(text)
      if (match === null) continue
      const end = form.lastIndex
      const isWhole = !isWordCode(text.charCodeAt(end)) || isAfterRemoval(view, end)
      if (
        isWhole &&
        isDrawn(match.slice(1), grammar.nats, Math.min(prefix.length, MIN_INSIDE) - 2) &&
        !isFiller(text.slice(start + prefix.length, end)) &&
        (prefix.length > 2 || !uuid.test(text.slice(start, end)))
      ) {
        last = Math.max(last, end)
      } else searchedUntil.set(grammar, end)
    }
    if (last > start) {
      found.push({ start, end: last })
      start = last - 1
    }
  }
  return found
}

/** Whether the character before a prefix makes it a part of a longer word, prefix or run of base64. */
const isPartOfWord = (text: string, start: number, prefix: string): boolean => {
  const before = text.charAt(start - 1)
  return (
    ((before === "+" || before === "/") &&
      prefix.length < MIN_INSIDE &&
      // Base64 has neither sign, and hardly a path of words.
      !/[_-]/.test(prefix) &&
      !/(?<![0-9A-Za-z+])[a-z]{3,24}\/$/.test(text.slice(Math.max(0, start - 26), start))) ||
    ((before === "_" || before === "-") && prefix.endsWith(before) && prefix.length < MIN_JOINED)
  )
}

/** A UUID, which is the random part of a name behind a short prefix: `00012-<uuid>` after `00`. */
const uuid = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/

/**
 * Whether a position follows an escaped line break or tab, or a terminal's colour sequence: their last letter is not
 * part of a word.
 */
const isAfterEscape = (text: string, start: number): boolean =>
  (text.charAt(start - 2) === "\\" && /[nrt]/.test(text.charAt(start - 1))) ||
  (text.charAt(start - 1) === "m" && /\[[0-9;]{1,12}m$/.test(text.slice(Math.max(0, start - 14), start)))

const isWordCode = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)
