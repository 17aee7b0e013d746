import { Schema } from "effect"
import { documented } from "../documented.ts"
import { JsonValue } from "../json/JsonValue.ts"
import { pointerSegments } from "./CompiledRules/resolvePointer.ts"

/** Longest pointer, in characters, and most segments of one. */
const MAX_POINTER = 500
const MAX_SEGMENTS = 16

/** Longest text that a condition compares with, in characters. */
const MAX_TEXT = 1_000

/** Longest JSON text and deepest nesting of a value that a condition compares with. */
const MAX_VALUE_TEXT = 4_000
const MAX_VALUE_DEPTH = 8

/** Most values of a membership condition. */
const MAX_MEMBERS = 200

/** Most conditions on each element of an array. */
const MAX_ELEMENT_CONDITIONS = 10

/** Longest length that a condition can name: more than the body of a step can have. */
const MAX_LENGTH = 10_000_000

/** A pointer without invisible characters, because people read it in reasons and tell rules apart by it. */
const POINTER = /^(?:\/(?:[^~/\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]|~[01])*)*$/u

/** A JSON Pointer to a value of the arguments. */
export const ArgumentPointer = Schema.String.check(
  Schema.isMaxLength(MAX_POINTER),
  Schema.isPattern(POINTER, {
    expected: "a JSON Pointer such as /amount or /lines/0/sku, or an empty text for the whole value",
    toJsonSchema: () => [{ pattern: "^(?:/(?:[^~/]|~[01])*)*$" }, true]
  }),
  Schema.makeFilter((text) => pointerSegments(text).length <= MAX_SEGMENTS, {
    expected: `a JSON Pointer of at most ${MAX_SEGMENTS} segments`
  })
)

const pointer = ArgumentPointer.annotateKey({
  description:
    "JSON Pointer (RFC 6901) to the value: from the step's arguments, or within `every` and `some` from the element. At most 500 characters and 16 segments. Empty: the whole value."
})

/** Whether a condition can have this pointer. */
export const isConditionPointer = Schema.is(pointer)

/** Whether a value is nested at most `depth` levels deep. */
const isNestedWithin = (value: Schema.Json, depth: number): boolean =>
  typeof value !== "object" ||
  value === null ||
  (depth > 0 && Object.values(value).every((part: Schema.Json) => isNestedWithin(part, depth - 1)))

const comparedJson = JsonValue.check(
  Schema.makeFilter(
    (value) => isNestedWithin(value, MAX_VALUE_DEPTH) && JSON.stringify(value).length <= MAX_VALUE_TEXT,
    {
      expected: `a JSON value of at most ${MAX_VALUE_TEXT} characters and ${MAX_VALUE_DEPTH} levels`
    }
  )
)

const members = Schema.Array(comparedJson).check(Schema.isMinLength(1), Schema.isMaxLength(MAX_MEMBERS))

const text = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_TEXT))

const length = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_LENGTH }))

/** A condition without a value. */
const withoutValue = <const Op extends string>(op: Op, identifier: string, description: string) =>
  Schema.Struct({
    pointer,
    op: Schema.Literal(op).annotateKey({ description: `Always \`${op}\`.` })
  }).annotate({ identifier, description })

/** A condition that compares with a value. */
const withValue = <const Op extends string, Value extends Schema.Top>(
  op: Op,
  value: Value,
  identifier: string,
  description: string
) =>
  Schema.Struct({
    pointer,
    op: Schema.Literal(op).annotateKey({ description: `Always \`${op}\`.` }),
    value
  }).annotate({ identifier, description })

const described = (description: string) => ({ description })
const json = comparedJson.annotateKey(described("The JSON value to compare with, at most 4,000 characters."))
const list = members.annotateKey(described("1 to 200 JSON values."))
const number = Schema.Finite.annotateKey(described("The number to compare with."))
const affix = text.annotateKey(described("The text, compared exactly: 1 to 1,000 characters."))
const pattern = text.annotateKey(
  described(
    "Regular expression in RE2 syntax, 1 to 1,000 characters, which is searched anywhere in the text: `^` and `$` anchor it."
  )
)
const characters = length.annotateKey(described("Number of characters, as UTF-16 code units."))
const elements = length.annotateKey(described("Number of elements."))

// One schema for each `op`, so that a fault is found at the member that is wrong.

export const EqualsCondition = withValue(
  "equals",
  json,
  "EqualsCondition",
  "The value is equal as JSON, in any order of members. A value of another type cannot be judged."
)

export const NotEqualsCondition = withValue(
  "not_equals",
  json,
  "NotEqualsCondition",
  "The value has the same type and is not equal as JSON. With null: the value is not null."
)

export const LessThanCondition = withValue(
  "less_than",
  number,
  "LessThanCondition",
  "The value is a number less than this one."
)

export const AtMostCondition = withValue(
  "at_most",
  number,
  "AtMostCondition",
  "The value is a number of at most this one."
)

export const GreaterThanCondition = withValue(
  "greater_than",
  number,
  "GreaterThanCondition",
  "The value is a number greater than this one."
)

export const AtLeastCondition = withValue(
  "at_least",
  number,
  "AtLeastCondition",
  "The value is a number of at least this one."
)

export const InCondition = withValue(
  "in",
  list,
  "InCondition",
  "The value is equal to one of these. If they have several types beside null, another value cannot be judged."
)

export const NotInCondition = withValue(
  "not_in",
  list,
  "NotInCondition",
  "The value is equal to none of these, which have its type. If they have several types beside null, it cannot be judged."
)

export const StartsWithCondition = withValue(
  "starts_with",
  affix,
  "StartsWithCondition",
  "The value is a string that begins with this text."
)

export const EndsWithCondition = withValue(
  "ends_with",
  affix,
  "EndsWithCondition",
  "The value is a string that ends with this text."
)

export const MatchesCondition = withValue(
  "matches",
  pattern,
  "MatchesCondition",
  "The value is a string in which the pattern is found."
)

export const NotMatchesCondition = withValue(
  "not_matches",
  pattern,
  "NotMatchesCondition",
  "The value is a string in which the pattern is not found."
)

export const MinLengthCondition = withValue(
  "min_length",
  characters,
  "MinLengthCondition",
  "The value is a string of at least this length."
)

export const MaxLengthCondition = withValue(
  "max_length",
  characters,
  "MaxLengthCondition",
  "The value is a string of at most this length."
)

export const MinItemsCondition = withValue(
  "min_items",
  elements,
  "MinItemsCondition",
  "The value is an array of at least this many elements."
)

export const MaxItemsCondition = withValue(
  "max_items",
  elements,
  "MaxItemsCondition",
  "The value is an array of at most this many elements."
)

export const ExistsCondition = withoutValue(
  "exists",
  "ExistsCondition",
  "There is a value, which can be null."
)

export const AbsentCondition = withoutValue("absent", "AbsentCondition", "There is no value, not even null.")

/** The conditions on one value. */
const leaves = [
  EqualsCondition,
  NotEqualsCondition,
  LessThanCondition,
  AtMostCondition,
  GreaterThanCondition,
  AtLeastCondition,
  InCondition,
  NotInCondition,
  StartsWithCondition,
  EndsWithCondition,
  MatchesCondition,
  NotMatchesCondition,
  MinLengthCondition,
  MaxLengthCondition,
  MinItemsCondition,
  MaxItemsCondition,
  ExistsCondition,
  AbsentCondition
] as const

const everyDescription =
  "The value is an array, and all conditions hold for each of its elements. An empty array cannot be judged."
const someDescription = "The value is an array, and all conditions hold for at least one of its elements."

const ofElements = <Condition extends Schema.Top>(condition: Condition) =>
  Schema.Array(condition)
    .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_ELEMENT_CONDITIONS))
    .annotateKey(described("1 to 10 conditions; their pointers begin at the element."))

const valueCondition = Schema.Union(leaves).annotate({
  identifier: "ValueCondition",
  description: "A condition on one value."
})
export type ValueCondition = typeof valueCondition.Type

// Interfaces, because declarations name them. They repeat the whole type of a constant wherever it is a part of another.

export interface ValueConditionSchema extends Schema.Codec<ValueCondition, typeof valueCondition.Encoded> {}
export const ValueCondition: ValueConditionSchema = valueCondition

const leafConditions = ofElements(ValueCondition)

export const InnerEveryCondition = withValue("every", leafConditions, "InnerEveryCondition", everyDescription)

export const InnerSomeCondition = withValue("some", leafConditions, "InnerSomeCondition", someDescription)

const elementCondition = Schema.Union([...leaves, InnerEveryCondition, InnerSomeCondition]).annotate({
  identifier: "ElementCondition",
  description: "A condition on an element of an array."
})
export type ElementCondition = typeof elementCondition.Type

export interface ElementConditionSchema extends Schema.Codec<
  ElementCondition,
  typeof elementCondition.Encoded
> {}
export const ElementCondition: ElementConditionSchema = elementCondition

const elementConditions = ofElements(ElementCondition)

export const EveryCondition = withValue("every", elementConditions, "EveryCondition", everyDescription)

export const SomeCondition = withValue("some", elementConditions, "SomeCondition", someDescription)

const ruleCondition = Schema.Union([...leaves, EveryCondition, SomeCondition]).annotate({
  identifier: "RuleCondition",
  description:
    "A condition on the step's arguments. If the value is missing or has another type, the condition cannot be judged: a rule that allows does not match then, and a rule that rejects or requires approval makes the step wait for a person."
})
export type RuleCondition = typeof ruleCondition.Type

export interface RuleConditionSchema extends Schema.Codec<RuleCondition, typeof ruleCondition.Encoded> {}

/**
 * A condition on a step's arguments. It holds, does not hold, or cannot be judged, because the value is missing, of another type or too
 * large: see `judgeCondition`.
 */
export const RuleCondition: RuleConditionSchema = ruleCondition

export type ConditionOp = RuleCondition["op"]

/** Most conditions of one rule. The server checks it, with a problem of its own. */
export const MAX_RULE_CONDITIONS = 20

export const RuleConditions = Schema.Array(RuleCondition)
  .check(documented({ maxItems: MAX_RULE_CONDITIONS }))
  .annotateKey({
    description:
      "Conditions on the step's arguments, at most 20. The rule matches only if all hold. Default: none."
  })
