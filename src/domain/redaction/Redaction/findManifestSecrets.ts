import { isPlaceholder } from "./isPlaceholder.ts"
import type { TextRange } from "./TextRange.ts"

/** A manifest of the kind Secret, in YAML or JSON. */
const kind = /(?:^|[\n{,])[ \t]*["']?kind["']?:[ \t]*["']?secret["']?[ \t]*(?=[\r\n,}]|$)/i

/** The start of its data. */
const data = /(?:^|[\n{,])([ \t]*)["']?(?:data|stringData|binaryData)["']?:[ \t]*(?:\{|\r?\n)/g

/** A line of the data: a name, and a value that may be on the next lines. */
const entry =
  /([ \t]+)["']?[\w.-]{1,128}["']?:[ \t]*(?:[|>][-+]?[ \t]*\r?\n[ \t]*)?["']?([^\s"',}]{6,4096})["']?[ \t]*(?:\r?\n|,|(?=[}])|$)/y

/** A blank line or a comment, which does not end the data. */
const skipped = /[ \t]*(?:#[^\n]{0,512})?\r?\n/y

/** Finds the values of Kubernetes secrets, whatever they look like: in Base64 or, under `stringData`, as plain text. */
export const findManifestSecrets = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  if (!kind.test(text)) return found
  for (const match of text.matchAll(data)) {
    let at = match.index + match[0].length
    for (;;) {
      entry.lastIndex = at
      const line = entry.exec(text)
      if (line !== null && (line[1] ?? "").length > (match[1] ?? "").length) {
        const value = line[2] ?? ""
        const start = at + line[0].lastIndexOf(value)
        if (!isPlaceholder(value)) found.push({ start, end: start + value.length })
        at = entry.lastIndex
        continue
      }
      skipped.lastIndex = at
      if (!skipped.test(text)) break
      at = skipped.lastIndex
    }
  }
  return found
}
