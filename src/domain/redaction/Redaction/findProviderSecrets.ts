import { crc32 } from "node:zlib"
import { base62Checksum, findApiKeys } from "../../identity/ApiKeyFormat.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { type FormCheck, type ProviderForm, providerForms } from "./providerForms.ts"
import { looksRandom } from "./looksRandom.ts"
import type { TextRange } from "./TextRange.ts"
import { isAfterRemoval, type TextView } from "./TextView.ts"

/** Formats by the first two characters of their prefix: few share them. */
const byStart = new Map<string, Array<ProviderForm>>()
for (const form of providerForms) {
  const start = form.prefix.slice(0, 2)
  byStart.set(start, [...(byStart.get(start) ?? []), form])
}
for (const forms of byStart.values()) forms.sort((left, right) => right.prefix.length - left.prefix.length)

const escapeRegExp = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")

/** Any prefix, as literals only, so that one pass over the text finds all candidates. */
const anyPrefix = new RegExp(
  [...new Set(providerForms.map(({ prefix }) => escapeRegExp(prefix)))]
    .toSorted((left, right) => right.length - left.length)
    .join("|"),
  "g"
)

/** Finds Countersign's own keys and secrets of providers, by format and, if the format has one, checksum. */
export const findProviderSecrets = (view: TextView): ReadonlyArray<TextRange> => {
  const { text } = view
  const found: Array<TextRange> = text.includes("csk_") ? [...findApiKeys(text)] : []
  /** Where a run without a secret ended, by format: the run is not searched again from its middle. */
  const searchedUntil = new Map<ProviderForm, number>()
  anyPrefix.lastIndex = 0
  for (let hit = anyPrefix.exec(text); hit !== null; hit = anyPrefix.exec(text)) {
    const start = hit.index
    // A prefix in the middle of a word does not count, unless characters were removed before it.
    if (isWordCode(text.charCodeAt(start - 1)) && !isAfterRemoval(view, start)) {
      anyPrefix.lastIndex = start + 1
      continue
    }
    let next = start + 1
    for (const form of byStart.get(text.slice(start, start + 2)) ?? []) {
      if ((searchedUntil.get(form) ?? 0) > start || !text.startsWith(form.prefix, start)) continue
      const end = bodyEnd(view, form, start + form.prefix.length)
      if (end === undefined) continue
      if (passesCheck(form.check, text.slice(start, end), form.prefix)) {
        found.push({ start, end })
        next = end
        break
      }
      searchedUntil.set(form, end)
    }
    anyPrefix.lastIndex = next
  }
  return found
}

/** Returns the end of a format's body after its prefix; undefined if the body does not match or the word continues. */
const bodyEnd = (view: TextView, { body }: ProviderForm, from: number): number | undefined => {
  body.lastIndex = from
  if (!body.test(view.text)) return undefined
  const end = body.lastIndex
  return !isWordCode(view.text.charCodeAt(end)) || isAfterRemoval(view, end) ? end : undefined
}

const passesCheck = (check: FormCheck | undefined, secret: string, prefix: string): boolean => {
  const body = secret.slice(prefix.length)
  switch (check) {
    case "crc":
      return base62Checksum(body.slice(0, -6)) === body.slice(-6)
    case "crc32hex":
      return (
        crc32(secret.slice(0, secret.lastIndexOf("_")))
          .toString(16)
          .padStart(8, "0") === secret.slice(-8)
      )
    case "random":
      return looksRandom(body) || looksRandom(secret)
    case "digit":
      return /[0-9]/.test(body) && !isPlaceholder(body)
    case undefined:
      return !isPlaceholder(body)
  }
}

const isWordCode = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)
