import { MATCHES_PER_STEP } from "./steps.ts"
import type { TextRange } from "./TextRange.ts"

/** Maximum depth of nested base64. Runs shorter than 20 characters are not decoded. */
export const MAX_LAYERS = 3

/** Minimum share of visible characters in decoded text: the rest is binary data, such as an image or a key. */
const VISIBLE = 0.95

/** A range and the text that it decodes to. */
export type DecodedRange = TextRange & { readonly text: string }

/** Finds runs of base64 that decode to text. Yields after some runs. */
export function* decodeBase64Runs(text: string): Generator<void, ReadonlyArray<DecodedRange>> {
  const found: Array<DecodedRange> = []
  let runs = 0
  for (const match of text.matchAll(/(?<![0-9A-Za-z+/_-])[0-9A-Za-z+/_-]{20,}={0,2}/g)) {
    if (++runs % MATCHES_PER_STEP === 0) yield
    const [run] = match
    // A word of any length is not base64.
    if (!beginsVisibly(run) || /^[A-Z]?[a-z_-]+$/.test(run)) continue
    const bytes = Buffer.from(run, "base64")
    // PowerShell encodes commands as UTF-16.
    const decoded = bytes.toString(bytes[1] === 0 && bytes[3] === 0 ? "utf16le" : "utf8")
    if (isText(decoded)) found.push({ start: match.index, end: match.index + run.length, text: decoded })
  }
  return found
}

/** Finds runs of hexadecimal digits that decode to text: each byte is a visible character, which digests practically never have. */
export const decodeHexRuns = (text: string): ReadonlyArray<DecodedRange> =>
  Array.from(
    text.matchAll(/(?<=(?<![0-9A-Za-z])(?:0x)?)(?:[2-7][0-9A-Fa-f]|0[9ad]){16,}(?![0-9A-Za-z])/gi),
    ({ 0: run, index }) => ({
      start: index,
      end: index + run.length,
      text: Buffer.from(run, "hex").toString("latin1")
    })
  )

/**
 * Whether a run's first bytes are visible characters, tabs or line breaks, possibly each followed by a zero as in
 * UTF-16: this rejects nearly all paths and identifiers before decoding.
 */
const beginsVisibly = (run: string): boolean => {
  const isWide =
    (value(run, 1) & 0x0f) === 0 &&
    value(run, 2) >> 2 === 0 &&
    value(run, 4) === 0 &&
    value(run, 5) >> 4 === 0
  if (isWide) return isVisible((value(run, 0) << 2) | (value(run, 1) >> 4))
  for (let at = 0; at < 12; at += 4) {
    const bits =
      (value(run, at) << 18) | (value(run, at + 1) << 12) | (value(run, at + 2) << 6) | value(run, at + 3)
    if (!isVisible(bits >> 16) || !isVisible((bits >> 8) & 0xff) || !isVisible(bits & 0xff)) return false
  }
  return true
}

/** The value of a base64 digit, in either alphabet. */
const value = (run: string, at: number): number => {
  const code = run.charCodeAt(at)
  if (code >= 0x61) return code - 0x47
  if (code >= 0x41 && code <= 0x5a) return code - 0x41
  if (code >= 0x30 && code <= 0x39) return code + 4
  return code === 0x2b || code === 0x2d ? 62 : 63
}

/** Bytes of characters beyond ASCII are visible too. */
const isVisible = (byte: number): boolean => (byte >= 0x20 && byte !== 0x7f) || (byte >= 0x09 && byte <= 0x0d)

/** Number of characters inspected to distinguish text from binary data. */
const SAMPLE = 256

const isText = (decoded: string): boolean => {
  const sample = decoded.slice(0, SAMPLE)
  let visible = 0
  for (let index = 0; index < sample.length; index++) {
    const code = sample.charCodeAt(index)
    if ((code >= 0x20 && code < 0x7f) || code === 0x0a || code === 0x0d || code === 0x09) visible++
  }
  return sample.length >= 8 && visible / sample.length >= VISIBLE
}
