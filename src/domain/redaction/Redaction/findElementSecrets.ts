import { isOpaque } from "./opaque.ts"
import { isSecretName } from "./secretNames.ts"
import type { TextRange } from "./TextRange.ts"

/** An XML element without inner elements. */
const element = /<(?:\w{1,16}:)?([A-Za-z][\w.-]{0,64})(?:\s[^<>]{0,200})?>([^<>]{10,1024})<\//g

/** Credentials in the text of an element: a secret is often one of several words, such as `{acme 5f3a…}` in a configuration of Jenkins. */
export const findElementSecrets = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const match of text.matchAll(element)) {
    const [whole, name = "", content = ""] = match
    if (!isSecretName(name)) continue
    const start = match.index + whole.length - 2 - content.length
    for (const run of content.matchAll(/[^\s{}"',;|]{10,512}/g)) {
      if (isOpaque(run[0])) found.push({ start: start + run.index, end: start + run.index + run[0].length })
    }
  }
  return found
}
