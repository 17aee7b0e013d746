/** Conditions while they are edited, as texts of form fields. */
import { Result, Schema } from "effect"
import { type ConditionOp, RuleCondition } from "../../../domain/approvals/RuleCondition.ts"
import { parseJson } from "../../ui/jsonText.ts"

/** The operand of an operator, as the form edits it. */
type ValueKind = "json" | "list" | "number" | "text" | "conditions" | "none"

/** Every operator, in the order of the form. */
export const operators: Readonly<
  Record<ConditionOp, { readonly label: string; readonly kind: ValueKind; readonly hint: string }>
> = {
  equals: { label: "is", kind: "json", hint: 'JSON: "EUR", 100, true or null' },
  not_equals: { label: "is not", kind: "json", hint: 'JSON: "EUR", 100, true or null' },
  less_than: { label: "is less than", kind: "number", hint: "a number" },
  at_most: { label: "is at most", kind: "number", hint: "a number" },
  greater_than: { label: "is greater than", kind: "number", hint: "a number" },
  at_least: { label: "is at least", kind: "number", hint: "a number" },
  in: { label: "is one of", kind: "list", hint: 'a JSON array: ["EUR", "USD"]' },
  not_in: { label: "is none of", kind: "list", hint: 'a JSON array: ["EUR", "USD"]' },
  starts_with: { label: "begins with", kind: "text", hint: "a text" },
  ends_with: { label: "ends with", kind: "text", hint: "a text" },
  matches: { label: "matches", kind: "text", hint: "an RE2 pattern; ^ and $ anchor it" },
  not_matches: { label: "does not match", kind: "text", hint: "an RE2 pattern; ^ and $ anchor it" },
  min_length: { label: "has at least … characters", kind: "number", hint: "a number" },
  max_length: { label: "has at most … characters", kind: "number", hint: "a number" },
  min_items: { label: "has at least … elements", kind: "number", hint: "a number" },
  max_items: { label: "has at most … elements", kind: "number", hint: "a number" },
  exists: { label: "exists", kind: "none", hint: "" },
  absent: { label: "is absent", kind: "none", hint: "" },
  every: { label: "has only elements with", kind: "conditions", hint: "a JSON array of conditions" },
  some: { label: "has an element with", kind: "conditions", hint: "a JSON array of conditions" }
}

const isOp = (text: string): text is ConditionOp => Object.hasOwn(operators, text)

/** A condition in the edited list. */
export const ConditionDraft = Schema.Struct({
  key: Schema.Number,
  pointer: Schema.String,
  op: Schema.String.pipe(Schema.refine(isOp)),
  /** The value: a text as it is, anything else as JSON. */
  value: Schema.String
})
export type ConditionDraft = typeof ConditionDraft.Type

/** Starts editing a stored condition. */
export const toConditionDraft = (condition: RuleCondition, key: number): ConditionDraft => {
  const { op, pointer } = condition
  if (op === "exists" || op === "absent") return { key, pointer, op, value: "" }
  const { value } = condition
  return {
    key,
    pointer,
    op,
    value: operators[op].kind === "text" && typeof value === "string" ? value : JSON.stringify(value)
  }
}

const decode = Schema.decodeUnknownResult(RuleCondition)

/** The condition of a draft. Fails with a message that can be shown at the field. */
export const fromConditionDraft = ({
  op,
  pointer,
  value
}: ConditionDraft): Result.Result<RuleCondition, string> => {
  const { kind } = operators[op]
  if (kind === "none") return Result.mapError(decode({ pointer, op }), ({ message }) => message)
  const parsed = kind === "text" ? Result.succeed(value) : parseJson(value)
  return Result.flatMap(parsed, (one) =>
    Result.mapError(decode({ pointer, op, value: one }), ({ message }) => message)
  )
}

/** A condition as one line. */
export const describeCondition = (condition: RuleCondition): string => {
  const { op, pointer } = condition
  const at = pointer === "" ? "value" : pointer
  const { label } = operators[op]
  if (op === "exists" || op === "absent") return `${at} ${label}`
  if (op === "every" || op === "some") {
    return `${at} ${label} (${condition.value.map((inner) => describeCondition(inner)).join(" and ")})`
  }
  const value = JSON.stringify(condition.value)
  return label.includes("…") ? `${at} ${label.replace("…", value)}` : `${at} ${label} ${value}`
}
