import { hasDigit, hasLetter, hasSign } from "./opaque.ts"
import { isPlaceholder } from "./isPlaceholder.ts"
import { looksRandom } from "./looksRandom.ts"
import type { TextRange } from "./TextRange.ts"

/** Secrets in command lines: `needs` is a cheap test whether the text can contain `form`. */
const options: ReadonlyArray<{ readonly needs: RegExp; readonly form: RegExp }> = [
  {
    needs: /(?:^|\s)(?:--|-u)/,
    form: /(?:^|\s)(?:--(?:password|passwd|token|secret|api-key|auth-token|access-token)[ \t]+|(?:-u|--user)[ \t]+["']?[\w.@-]{1,64}:(?!\/\/))["']?([^\s"']{4,512})/g
  },
  // MySQL clients accept the password in the same word as the option.
  { needs: /\b(?:mysql|mariadb)/i, form: /\s-p["']?((?=[^\s"']*[A-Za-z])[^\s"']{4,128})/g },
  { needs: /\bsshpass\s/, form: /\bsshpass[ \t]+-p[ \t]{0,3}["']?([^\s"']{4,128})/g },
  { needs: /\bredis-cli\s/, form: /\bredis-cli[^\n|;&]{0,80}?[ \t]-a[ \t]{1,3}["']?([^\s"']{4,128})/g },
  // A line of `.netrc`.
  { needs: /\blogin\s/, form: /\blogin[ \t]{1,8}\S{1,128}\s{1,8}password[ \t]{1,8}(\S{4,128})/g }
]

/** Finds secrets in command options, as pasted from a terminal. */
export const findCommandOptions = (text: string): ReadonlyArray<TextRange> => {
  const found: Array<TextRange> = []
  for (const { form, needs } of options) {
    if (!needs.test(text)) continue
    for (const match of text.matchAll(form)) {
      const value = match[1] ?? ""
      const end = match.index + match[0].length
      if (
        !isPlaceholder(value) &&
        hasLetter(value) &&
        (hasDigit(value) || looksRandom(value) || hasSign(value))
      ) {
        found.push({ start: end - value.length, end })
      }
    }
  }
  return found
}
