import type { TextRange } from "./TextRange.ts"
import { isAfterRemoval, type TextView } from "./TextView.ts"

/** Shortest value that is looked for: shorter ones stand in ordinary texts too. */
const MIN_KNOWN = 8
/** Values shorter than this are found as whole words only. */
const MIN_INSIDE = 16
/** Characters that are hashed to find a candidate. */
const WINDOW = 8
/**
 * Values with the same window that are compared at one place. One whose every window has as many is not looked for: values that differ
 * have windows that differ, so that it takes thousands that are made for it.
 */
const MAX_SAME_WINDOW = 8

interface Needle {
  readonly text: string
  /** Where its window starts. */
  readonly offset: number
}

/**
 * Secrets that are known, and their base64 in each of the three ways in which it can fall on the text around it. A text is searched for all
 * at once, in time linear in its length: a hash of eight characters rolls over it, and only where one of theirs is met are they compared.
 */
export class KnownValues {
  readonly #needles = new Map<number, Array<Needle>>()
  readonly #values = new Set<string>()

  constructor(values: Iterable<string>) {
    this.add(values)
  }

  /** How many values are known. */
  get size(): number {
    return this.#values.size
  }

  /** More values: for who makes it of many, with pauses. Some 10 µs each. */
  add(values: Iterable<string>): void {
    for (const value of values) {
      if (value.length < MIN_KNOWN || this.#values.has(value)) continue
      this.#values.add(value)
      this.#add(value)
      for (const encoded of encodings(value)) this.#add(encoded)
    }
  }

  /** Where values that are known stand. */
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
   * With the first window from the middle on that no other has, away from the prefix that secrets of one kind share; else with the one
   * that the fewest have.
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
/** The base to the power of one less than the window. */
const TOP = Array.from({ length: WINDOW - 1 }).reduce<number>((power) => Math.imul(power, BASE), 1)

const hashOf = (text: string, start: number): number => {
  let hash = 0
  for (let index = start; index < start + WINDOW; index++) {
    hash = (Math.imul(hash, BASE) + text.charCodeAt(index)) | 0
  }
  return hash
}

/** Whether a short value stands by itself, or a long one anywhere. */
const isMatchAt = (view: TextView, start: number, value: string): boolean =>
  value.length >= MIN_INSIDE ||
  ((!isWord(view.text.charCodeAt(start - 1)) || isAfterRemoval(view, start)) &&
    (!isWord(view.text.charCodeAt(start + value.length)) || isAfterRemoval(view, start + value.length)))

const isWord = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)

/**
 * The base64 of a value, and its URL-safe form, as it reads after 0, 1 or 2 bytes of something else: without the characters at its
 * ends that its neighbours have a part in.
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
