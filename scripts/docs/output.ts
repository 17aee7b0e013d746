/** Compares the output that a document shows with the output of its commands. */

/** Values that differ from run to run, each with the form that stands for it. */
const VARIABLE: ReadonlyArray<readonly [pattern: RegExp, stands: string]> = [
  [/\b([a-z]{3})_[0-9a-f]{32}\b/g, "$1_<id>"],
  [/\bcsk_\w{16,}/g, "csk_<key>"],
  [/\bwhsec_[\w+/=-]{16,}/g, "whsec_<secret>"],
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "<time>"],
  [/\b\d{4}-\d\d-\d\d \d\d:\d\d UTC/g, "<minute>"],
  [/\b[0-9a-f]{64}\b/g, "<digest>"],
  [/\b[0-9a-f]{32}\b/g, "<trace>"],
  [/\b1[78]\d{8}\b/g, "<seconds>"],
  [/\bv1,[\w+/]{43}=/g, "v1,<signature>"]
]

const stable = (text: string): string =>
  VARIABLE.reduce((line, [pattern, stands]) => line.replaceAll(pattern, stands), text.trimEnd())

const escape = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)

/** JSON in one form: a document's formatter breaks its lines elsewhere than the commands do. */
const inOneForm = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

const linesOf = (text: string): ReadonlyArray<string> =>
  inOneForm(text)
    .replaceAll(/^\n+|\s+$/g, "")
    .split("\n")
    .map(stable)

/** The lines as one pattern. `…` stands for the rest of a value, and alone on a line for any number of lines. */
const patternOf = (shown: string): string =>
  linesOf(shown)
    .map((line) =>
      line.trim() === "…" ? String.raw`(?:[^\n]*\n)*?` : `${line.split("…").map(escape).join("[^\\n]*")}\\n`
    )
    .join("")

/** Whether the output matches the document: ids, times, digests and keys may differ. */
export const isOutput = (shown: string, actual: string): boolean =>
  new RegExp(`^${patternOf(shown)}$`).test(`${linesOf(actual).join("\n")}\n`)

/** Whether the output contains the lines that the document shows, one after the other. */
export const containsOutput = (shown: string, actual: string): boolean =>
  new RegExp(`(?:^|\\n)${patternOf(shown)}`).test(`${linesOf(actual).join("\n")}\n`)
