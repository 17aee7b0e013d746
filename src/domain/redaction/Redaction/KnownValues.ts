import { noPolicy, type RedactionPolicy } from "../RedactionPolicy.ts"
import type { TextRange } from "./TextRange.ts"
import { isAfterRemoval, type TextView } from "./TextView.ts"

/** Minimum length of a known value: shorter ones occur in ordinary texts. */
const MIN_KNOWN = 8
/** Values shorter than this match as whole words only. */
const MIN_INSIDE = 16
/** Length of the hashed window, in characters. */
const WINDOW = 8
/**
 * Maximum number of values compared per window hash. A value whose every window has that many is not searched: different values have
 * different windows, so this takes thousands of crafted values.
 */
const MAX_SAME_WINDOW = 8

interface Needle {
  readonly text: string
  /** Where the value's hashed window starts. */
  readonly offset: number
}

/**
 * An organization's known secrets, and its policy for what else is redacted. Finds the secrets and their base64, in
 * each of the three alignments of the surrounding text. One pass over a text finds all of them in linear time: a
 * rolling hash of eight characters selects the values to compare (Rabin-Karp).
 */
export class KnownValues {
  #needles = new Map<number, Array<Needle>>()
  #values = new Set<string>()

  /** The organization's own rules, besides secrets. */
  readonly policy: RedactionPolicy

  constructor(values: Iterable<string>, policy: RedactionPolicy = noPolicy) {
    this.policy = policy
    this.add(values)
  }

  /** Number of known values. */
  get size(): number {
    return this.#values.size
  }

  /** The same values with another policy. They share their index: add no values to either. */
  withPolicy(policy: RedactionPolicy): KnownValues {
    const other = new KnownValues([], policy)
    other.#needles = this.#needles
    other.#values = this.#values
    return other
  }

  /** Adds values; a caller with many can add them in parts with pauses in between. About 10 µs each. */
  add(values: Iterable<string>): void {
    for (const value of values) {
      if (value.length < MIN_KNOWN || this.#values.has(value)) continue
      this.#values.add(value)
      this.#add(value)
      for (const encoded of encodings(value)) this.#add(encoded)
    }
  }

  /** Finds the ranges of known values. */
  find(view: TextView): ReadonlyArray<TextRange> {
    if (this.#needles.size === 0 || view.text.length < WINDOW) return []
    const { text } = view
    const found: Array<TextRange> = []
    let hash = hashOf(text, 0)
    for (let at = 0; ; at++) {
      const needles = this.#needles.get(hash)
      if (needles !== undefined) {
        for (const { offset, text: value } of needles) {
          const start = at - offset
          if (start >= 0 && text.startsWith(value, start) && isMatchAt(view, start, value)) {
            found.push({ start, end: start + value.length })
          }
        }
      }
      if (at + WINDOW >= text.length) return found
      hash = (Math.imul(hash - Math.imul(text.charCodeAt(at), TOP), BASE) + text.charCodeAt(at + WINDOW)) | 0
    }
  }

  /**
   * Registers a text under its first unique window from the middle on, away from the prefix that secrets of one kind share; otherwise under
   * its rarest window.
   */
  #add(text: string): void {
    const windows = text.length - WINDOW + 1
    let least = MAX_SAME_WINDOW
    let place: { readonly offset: number; readonly hash: number } | undefined
    for (let step = 0; step < windows && least > 0; step++) {
      const offset = (((windows - 1) >> 1) + step) % windows
      const hash = hashOf(text, offset)
      const same = this.#needles.get(hash)?.length ?? 0
      if (same < least) {
        least = same
        place = { offset, hash }
      }
    }
    if (place === undefined) return
    const { hash, offset } = place
    this.#needles.set(hash, [...(this.#needles.get(hash) ?? []), { text, offset }])
  }
}

const BASE = 0x01000193
/** The base to the power of the window length minus one. */
const TOP = Array.from({ length: WINDOW - 1 }).reduce<number>((power) => Math.imul(power, BASE), 1)

const hashOf = (text: string, start: number): number => {
  let hash = 0
  for (let index = start; index < start + WINDOW; index++) {
    hash = (Math.imul(hash, BASE) + text.charCodeAt(index)) | 0
  }
  return hash
}

/** Whether a short value is a whole word; a long one matches anywhere. */
const isMatchAt = (view: TextView, start: number, value: string): boolean =>
  value.length >= MIN_INSIDE ||
  ((!isWord(view.text.charCodeAt(start - 1)) || isAfterRemoval(view, start)) &&
    (!isWord(view.text.charCodeAt(start + value.length)) || isAfterRemoval(view, start + value.length)))

const isWord = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)

/**
 * Returns the base64 of a value and its URL-safe form after 0, 1 or 2 preceding bytes, without the characters at the ends that depend on
 * neighbouring bytes.
 */
const encodings = (value: string): ReadonlyArray<string> => {
  const forms: Array<string> = []
  for (let before = 0; before < 3; before++) {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(value)])
    const encoded = bytes.toString("base64")
    const start = before === 0 ? 0 : before + 1
    const end = Math.floor((bytes.length * 8) / 6)
    const form = encoded.slice(start, end)
    forms.push(form)
    const safe = form.replaceAll("+", "-").replaceAll("/", "_")
    if (safe !== form) forms.push(safe)
  }
  return forms
}
