import { trimTrailing } from "./trimTrailing.ts"

/** Words used in place of a secret. */
const words = new Set(
  (
    "pass password passwd passwort pwd passphrase secret secrets token apikey api_key api-key key value string text " +
    "user username name none null nil undefined empty unset true false yes no on off required optional default example " +
    "sample placeholder dummy fake hidden masked redacted removed omitted protected encrypted unknown missing invalid " +
    "expired revoked reset changed changeme change_me unchanged todo tbd see your my the here test prompt stdin env yield*"
  ).split(" ")
)

/** Whether a text is a placeholder for a secret: `${TOKEN}`, `<your key>`, `***`, `xxxx`, `changeme`, `[REDACTED]`. */
export const isPlaceholder = (text: string): boolean => {
  if (/^[<[{(%]|^ENC[([]|^@@|^\$[A-Za-z_{(]|[>\]})%]$|\.\.\.|…|\\u2026|\{\{|\$\{/.test(text)) return true
  const lower = trimTrailing(text.toLowerCase().replace(/^['"`]+/, ""), "'\"`.,;:!?")
  if (words.has(lower) || /^(.)\1*$/.test(lower)) return true
  return (
    /^(?:your|my|insert|enter|put|some|example|sample|dummy|fake)[-_ ]/.test(lower) ||
    /x{6,}|\*{3,}|•{3,}|example|placeholder|redacted/.test(lower) ||
    countsUp(lower)
  )
}

/** Whether a token of a vendor's form is filled with a placeholder. Random tokens practically never are. */
export const isFiller = (token: string): boolean =>
  /(.)\1{15,}|x{6,}|example|placeholder|redacted/i.test(token) || countsUp(token.toLowerCase())

/** Ordered runs of letters or digits, as in examples. */
const counting = /(?:01)?23456(?:789?0?)?|12345(?:6789?0?)?|abcde(?:f(?:gh[a-z]{0,18})?)?/g

/** Minimum share of a placeholder's characters in ordered runs. A password may contain a short one. */
const COUNTED = 0.8

/** Whether a text consists of ordered runs of letters or digits: `1234567890abcdef`. */
const countsUp = (lower: string): boolean => {
  let counted = 0
  for (const [run] of lower.matchAll(counting)) counted += run.length
  return counted >= 8 && counted >= COUNTED * lower.length
}
