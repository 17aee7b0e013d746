/**
 * Measures the redaction over texts that were made apart from its rules: every file of a folder that ends in `.jsonl`. A
 * line is `{"kind": …, "text": …, "secrets": […]}`; without secrets, the text is an ordinary one. Prints the share of
 * secrets found, and of ordinary texts changed. A secret is found if fewer than 8 of its characters in a row, and fewer
 * than 40 % of them, are left.
 *
 *     node scripts/redaction.ts FOLDER            the shares, also of each kind with a miss
 *     node scripts/redaction.ts FOLDER --show     the missed and the wrongly changed texts too
 */
import { Schema } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { noKnownValues, redactText } from "../src/domain/redaction/Redaction.ts"
import { failUsage, parseOptions } from "./parseOptions.ts"

/** Maximum number of characters in a row that may be left of a secret, and maximum share of its characters. */
const MAX_ROW = 8
const MAX_SHARE = 0.4

const { positionals, values } = parseOptions(import.meta.filename, {
  allowPositionals: true,
  options: { show: { type: "boolean", default: false } }
})
const folder = positionals[0] ?? failUsage(import.meta.filename, "Name the folder of the texts")

const decode = Schema.decodeUnknownSync(
  Schema.fromJsonString(
    Schema.Struct({
      kind: Schema.optionalKey(Schema.String),
      text: Schema.String,
      secrets: Schema.optionalKey(Schema.Array(Schema.String))
    })
  )
)

/** Length of the longest part of a secret that a text contains. */
const longestLeft = (secret: string, text: string): number => {
  let longest = 0
  for (let start = 0; start + longest < secret.length; start++) {
    while (start + longest < secret.length && text.includes(secret.slice(start, start + longest + 1)))
      longest++
  }
  return longest
}

const isFound = (secret: string, text: string): boolean => {
  const left = longestLeft(secret, text)
  return left < MAX_ROW && left < Math.max(MAX_SHARE * secret.length, 1)
}

const say = (line: string) => process.stdout.write(`${line}\n`)
const percent = (part: number, all: number): string =>
  `${part} of ${all} (${all === 0 ? "–" : ((100 * part) / all).toFixed(1)} %)`

const kinds = new Map<string, { found: number; all: number }>()
const ordinary = { changed: 0, all: 0 }
for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted()) {
  if (!file.endsWith(".jsonl")) continue
  for (const line of readFileSync(path.join(folder, file), "utf8").split("\n")) {
    if (line.trim() === "") continue
    const { kind = "other", secrets = [], text } = decode(line)
    const clean = redactText(text, noKnownValues)
    if (secrets.length === 0) {
      ordinary.all++
      if (clean === text) continue
      ordinary.changed++
      if (values.show) say(`changed  ${JSON.stringify(text)}\n      => ${JSON.stringify(clean)}`)
      continue
    }
    const counts = kinds.get(kind) ?? { found: 0, all: 0 }
    kinds.set(kind, counts)
    for (const secret of secrets) {
      counts.all++
      if (isFound(secret, clean)) counts.found++
      else if (values.show) say(`missed   ${kind}: ${JSON.stringify(secret)} in ${JSON.stringify(text)}`)
    }
  }
}

const total = { found: 0, all: 0 }
for (const [kind, { all, found }] of kinds) {
  total.found += found
  total.all += all
  if (found < all) say(`${kind}: ${percent(found, all)}`)
}
say(`secrets found: ${percent(total.found, total.all)}`)
say(`ordinary texts changed: ${percent(ordinary.changed, ordinary.all)}`)
