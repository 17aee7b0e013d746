import type { Schema } from "effect"
import { isSecretName } from "../redaction/Redaction/secretNames.ts"
import { isArray } from "./CompiledRules/resolvePointer.ts"
import { clip, describeText } from "./SummaryTemplate/describeValue.ts"

/** Longest line, and longest value in it, in characters. */
export const MAX_ARGUMENTS_LINE = 160
const MAX_VALUE = 60

/** Most members of the line, and most that are looked at. */
const MAX_SHOWN = 4
const MAX_SEEN = 200

/** Names of members that show the effect of a step, the most important first. */
const IMPORTANT: ReadonlyArray<RegExp> = [
  /amount|total|price|cents|sum|quantity|qty|count/iu,
  /^(?:to|cc|bcc)$|recipient|e?mail|customer|user|account|owner|name$/iu,
  /(?:^|_)(?:order|invoice|ticket|issue|case|contract|payment)|(?:^|_|[a-z])(?:id|number|no|ref)$/iu,
  /command|cmd|path|file|url|host|domain|query|sql|branch|table|repo|bucket|environment|env$/iu,
  /subject|title|reason|currency|status|action/iu
]

interface Member {
  readonly name: string
  readonly value: string
  readonly rank: number
}

/** The members of an object, with the members of nested objects. Likely secrets and objects are null. */
function* membersOf(
  value: Schema.JsonObject,
  prefix = ""
): Generator<readonly [name: string, value: Schema.Json]> {
  for (const [name, member] of Object.entries(value)) {
    const isObject = typeof member === "object" && member !== null && !isArray(member)
    const isSecret = isSecretName(name)
    yield [`${prefix}${name}`, isObject || isSecret ? null : member]
    if (isObject && !isSecret && prefix === "") yield* membersOf(member, `${name}.`)
  }
}

const describe = (value: Schema.Json): string | undefined => {
  if (typeof value === "string") return value.trim() === "" ? undefined : describeText(value, MAX_VALUE)
  if (typeof value === "number" || typeof value === "boolean") return String(value)
  if (isArray(value)) return value.length === 0 ? undefined : `${value.length.toLocaleString("en")} elements`
  return undefined
}

const rankOf = (name: string): number => {
  const rank = IMPORTANT.findIndex((pattern) => pattern.test(name))
  return rank < 0 ? IMPORTANT.length : rank
}

/**
 * The most important arguments of a step on one line, such as `amount_cents 129000 · order 4711`; null if there are none. For lists in which
 * steps of the same tool must be told apart, without reading their arguments.
 */
export const describeArguments = (stepArguments: Schema.Json | undefined): string | null => {
  if (stepArguments === undefined || stepArguments === null) return null
  if (typeof stepArguments !== "object" || isArray(stepArguments)) return describe(stepArguments) ?? null
  const members: Array<Member> = []
  let seen = 0
  for (const [name, member] of membersOf(stepArguments)) {
    if (++seen > MAX_SEEN) break
    const value = describe(member)
    if (value !== undefined) members.push({ name: describeText(name, MAX_VALUE), value, rank: rankOf(name) })
  }
  const line = members
    .toSorted((left, right) => left.rank - right.rank)
    .slice(0, MAX_SHOWN)
    .map(({ name, value }) => `${name} ${value}`)
    .join(" · ")
  return line === "" ? null : clip(line, MAX_ARGUMENTS_LINE)
}
