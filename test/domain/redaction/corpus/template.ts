import { SeededRandom } from "../Redaction/corpus.ts"

const digits = "0123456789"
const lower = "abcdefghijklmnopqrstuvwxyz"
const upper = lower.toUpperCase()

/** Alphabets by the letter that stands for them in a template. */
const alphabets: Readonly<Record<string, string>> = {
  /** Base62. */
  A: digits + upper + lower,
  /** Base64url. */
  U: `${digits}${upper}${lower}-_`,
  /** Base64. */
  B: `${digits}${upper}${lower}+/`,
  /** Hexadecimal, lower case. */
  h: "0123456789abcdef",
  /** Hexadecimal, upper case. */
  H: "0123456789ABCDEF",
  /** Digits. */
  d: digits,
  /** Lower case. */
  l: lower,
  /** Lower case and digits. */
  n: digits + lower,
  /** Upper case and digits. */
  N: digits + upper,
  /** Letters. */
  L: upper + lower,
  /** Base32. */
  s: `${upper}234567`,
  /** Base32, lower case. */
  t: `${lower}234567`
}

/**
 * Fills a template: `{A:36}` is 36 random base62 characters, `{uuid}` a random UUID. Each call draws new values, so
 * that no source contains a secret that a scanner would report.
 */
export const fill = (template: string, draw: SeededRandom): string =>
  template.replace(
    /\{(?:uuid|([A-Za-z]):([0-9]+))\}/g,
    (whole: string, letter: string | undefined, count: string | undefined) => {
      if (whole === "{uuid}")
        return [8, 4, 4, 4, 12].map((length) => draw.of(alphabets["h"] ?? "", length)).join("-")
      return draw.of(alphabets[letter ?? ""] ?? "", Number(count))
    }
  )

export { SeededRandom }
