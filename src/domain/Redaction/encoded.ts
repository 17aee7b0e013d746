import type { Span } from "./Span.ts"

/** Shortest run of base64 that is decoded, and how deep one in another is looked for. */
const MIN_ENCODED = 20
export const MAX_LAYERS = 3

/** Share of a decoded text that is visible: what is not text is a picture or a key. */
const VISIBLE = 0.95

/** Runs of base64 that are text, and that text. */
export const encodedTexts = (text: string): ReadonlyArray<Span & { readonly text: string }> => {
  const found: Array<Span & { readonly text: string }> = []
  for (const match of text.matchAll(/[0-9A-Za-z+/_-]{20,}={0,2}/g)) {
    const [run] = match
    // A word, however long, is none.
    if (run.length < MIN_ENCODED || /^[a-z]+$|^[A-Z]?[a-z_-]+$/.test(run)) continue
    const decoded = Buffer.from(run, "base64").toString("utf8")
    if (isText(decoded)) found.push({ start: match.index, end: match.index + run.length, text: decoded })
  }
  return found
}

/** Most characters that are looked at to tell a text from bytes. */
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
