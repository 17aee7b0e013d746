import type { Schema } from "effect"
import { clip, describeText } from "./SummaryTemplate/describeValue.ts"
import { isSecretName } from "../redaction/Redaction/secretNames.ts"

/** Longest line, and longest value in it, in characters. */
const MAX_LINE = 80
const MAX_VALUE = 40

/** Most values of the line. */
const MAX_VALUES = 3

/** The first values of a session's metadata on one line, such as `SUP-9001 · “Maria Weber”`; null if there are none. */
export const describeMetadata = (metadata: Readonly<Record<string, Schema.Json>>): string | null => {
  const values: Array<string> = []
  for (const [name, value] of Object.entries(metadata)) {
    if (values.length === MAX_VALUES) break
    if (isSecretName(name)) continue
    if (typeof value === "string" && value.trim() !== "") values.push(describeText(value, MAX_VALUE))
    else if (typeof value === "number") values.push(`${describeText(name, MAX_VALUE)} ${value}`)
  }
  return values.length === 0 ? null : clip(values.join(" · "), MAX_LINE)
}
