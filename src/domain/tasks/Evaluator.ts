import { Effect, JsonPointer, Schema, SchemaGetter } from "effect"
import { documented } from "../documented.ts"

/** Most evaluators of one comparison. */
const MAX_EVALUATORS = 50

/** Longest pointer of an evaluator, in characters. */
const MAX_POINTER = 500

/** Most segments of a pointer. */
const MAX_SEGMENTS = 16

const tolerance = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

const weight = Schema.Finite.check(
  Schema.isBetween({ minimum: 0.001, maximum: 1_000 }, { expected: "a weight from 0.001 to 1000" })
).annotateKey({
  description:
    "Weight of a top-level field in `score`, 0.001 to 1,000. Refused below the top level. Default 1."
})

export const EqualEvaluator = Schema.Struct({
  kind: Schema.Literal("equal").annotateKey({ description: "Always `equal`." }),
  weight
}).annotate({
  identifier: "EqualEvaluator",
  description:
    "Equal as JSON, in any order of keys: integers exactly, other numbers within a relative difference of 1e-6. The default."
})

export const NumberEvaluator = Schema.Struct({
  kind: Schema.Literal("number").annotateKey({ description: "Always `number`." }),
  absolute_tolerance: tolerance.annotateKey({ description: "Largest difference that agrees. Default 0." }),
  relative_tolerance: tolerance.annotateKey({
    description: "Largest difference that agrees, as a share of the larger number. Default 0."
  }),
  weight
}).annotate({
  identifier: "NumberEvaluator",
  description: "Numbers agree within either tolerance, integers too."
})

export const TextEvaluator = Schema.Struct({
  kind: Schema.Literal("text").annotateKey({ description: "Always `text`." }),
  ignore_case: Schema.Boolean.annotateKey({
    description:
      "Whether texts agree that differ only by case, such as `Straße` and `STRASSE`, by Unicode's case folding. A dotted and a dotless `i` agree too. Default true."
  }),
  ignore_punctuation: Schema.Boolean.annotateKey({
    description: "Whether punctuation and symbols count as white space. Default false."
  }),
  weight
}).annotate({
  identifier: "TextEvaluator",
  description:
    "Texts agree if they are equal after normalization: Unicode form NFKC, white space collapsed and trimmed, and as the members say. Texts of which one comparison would normalize more than 131,072 characters are compared for equality, as are texts with more than 30 combining characters in a row."
})
export type TextEvaluator = typeof TextEvaluator.Type

export const UnorderedEvaluator = Schema.Struct({
  kind: Schema.Literal("unordered").annotateKey({ description: "Always `unordered`." }),
  weight
}).annotate({
  identifier: "UnorderedEvaluator",
  description:
    "Arrays agree if they have the same items in any order, each as often. The items are compared by their own evaluators; if that takes too long, as with over 100 items, for equality only."
})

export const IgnoreEvaluator = Schema.Struct({
  kind: Schema.Literal("ignore").annotateKey({ description: "Always `ignore`." })
}).annotate({
  identifier: "IgnoreEvaluator",
  description: "The value is not compared, whether it is there or not."
})

export const Evaluator = Schema.Union([
  EqualEvaluator,
  NumberEvaluator,
  TextEvaluator,
  UnorderedEvaluator,
  IgnoreEvaluator
]).annotate({
  identifier: "Evaluator",
  description: "How the values at one place of the answers are compared."
})
export type Evaluator = typeof Evaluator.Type

export const NewEqualEvaluator = Schema.Struct({
  kind: EqualEvaluator.fields.kind,
  weight: Schema.optionalKey(weight)
}).annotate({ identifier: "NewEqualEvaluator", description: "Compare a value for equality." })

export const NewNumberEvaluator = Schema.Struct({
  kind: NumberEvaluator.fields.kind,
  absolute_tolerance: Schema.optionalKey(NumberEvaluator.fields.absolute_tolerance),
  relative_tolerance: Schema.optionalKey(NumberEvaluator.fields.relative_tolerance),
  weight: Schema.optionalKey(weight)
}).annotate({ identifier: "NewNumberEvaluator", description: "Compare a number within a tolerance." })

export const NewTextEvaluator = Schema.Struct({
  kind: TextEvaluator.fields.kind,
  ignore_case: Schema.optionalKey(TextEvaluator.fields.ignore_case),
  ignore_punctuation: Schema.optionalKey(TextEvaluator.fields.ignore_punctuation),
  weight: Schema.optionalKey(weight)
}).annotate({ identifier: "NewTextEvaluator", description: "Compare a text after normalization." })

export const NewUnorderedEvaluator = Schema.Struct({
  kind: UnorderedEvaluator.fields.kind,
  weight: Schema.optionalKey(weight)
}).annotate({ identifier: "NewUnorderedEvaluator", description: "Compare an array in any order." })

export const NewEvaluator = Schema.Union([
  NewEqualEvaluator,
  NewNumberEvaluator,
  NewTextEvaluator,
  NewUnorderedEvaluator,
  IgnoreEvaluator
]).annotate({
  identifier: "NewEvaluator",
  description: "How to compare the values at one place of the answers."
})
export type NewEvaluator = typeof NewEvaluator.Type

/** Stands for an evaluator of an unknown kind. */
const UNKNOWN: string = "unknown"
const UnknownEvaluator = Schema.Struct({ kind: Schema.Literal("unknown") })

/** Without an inner issue, no kind matches. */
const withUnknownKinds = NewEvaluator.pipe(
  Schema.decodeTo(Schema.Union([Schema.toType(NewEvaluator), UnknownEvaluator]), {
    decode: SchemaGetter.passthrough({ strict: false }),
    encode: SchemaGetter.passthrough({ strict: false })
  }),
  Schema.catchDecoding((issue) => {
    const cause = issue._tag === "Encoding" ? issue.issue : issue
    return cause._tag === "AnyOf" && cause.issues.length === 0
      ? Effect.succeedSome({ kind: "unknown" } as const)
      : Effect.fail(issue)
  })
)

/** An evaluator, or one of an unknown kind, which `evaluatorFaults` names, so that it is refused with 422 like others that do not fit. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an unknown kind is refused before an evaluator is used
const DecodedEvaluator = withUnknownKinds as Schema.Codec<NewEvaluator, typeof NewEvaluator.Encoded>

/** How the values of answers are compared, by JSON pointer (RFC 6901). `*` in place of an index means every item of an array. */
export const Evaluators = Schema.Record(Schema.String, Evaluator)
export type Evaluators = typeof Evaluators.Type

export const NewEvaluators = Schema.Record(
  Schema.String.check(
    Schema.isMaxLength(MAX_POINTER),
    Schema.isPattern(/^(?:\/(?:[^~/]|~[01])*)+$/u, {
      expected: "a JSON pointer such as /total or /lines/*/amount"
    })
  ),
  DecodedEvaluator
).check(
  Schema.makeFilter((evaluators) => Object.keys(evaluators).length <= MAX_EVALUATORS, {
    expected: `at most ${MAX_EVALUATORS} evaluators`
  }),
  Schema.makeFilter(
    (evaluators) =>
      Object.keys(evaluators).every((pointer) => pointerSegments(pointer).length <= MAX_SEGMENTS),
    { expected: `JSON pointers of at most ${MAX_SEGMENTS} segments` }
  ),
  documented({ maxProperties: MAX_EVALUATORS })
)
export type NewEvaluators = typeof NewEvaluators.Type

const withDefaults = (given: NewEvaluator): Evaluator => {
  switch (given.kind) {
    case "ignore":
      return given
    case "equal":
    case "unordered":
      return { weight: 1, ...given }
    case "number":
      return { absolute_tolerance: 0, relative_tolerance: 0, weight: 1, ...given }
    case "text":
      return { ignore_case: true, ignore_punctuation: false, weight: 1, ...given }
  }
}

/** The evaluators to store: defaults filled in. */
export const withEvaluatorDefaults = (given: NewEvaluators): Evaluators =>
  Object.fromEntries(Object.entries(given).map(([pointer, evaluator]) => [pointer, withDefaults(evaluator)]))

/** The evaluators below a value: its own, and its members'. */
export interface EvaluatorTree {
  readonly evaluator: Evaluator | undefined
  readonly members: ReadonlyMap<string, EvaluatorTree>
}

/** Whether an evaluator that was decoded is of a known kind. */
export const isKnownKind = ({ kind }: NewEvaluator): boolean => kind !== UNKNOWN

/** The segments of a JSON pointer, unescaped. */
export const pointerSegments = (pointer: string): ReadonlyArray<string> =>
  pointer.split("/").slice(1).map(JsonPointer.unescapeToken)

interface Node {
  evaluator: Evaluator | undefined
  readonly members: Map<string, Node>
}

const emptyNode = (): Node => ({ evaluator: undefined, members: new Map() })

/** Arranges evaluators by the segments of their pointers. */
export const evaluatorTree = (evaluators: Evaluators): EvaluatorTree => {
  const root = emptyNode()
  for (const [pointer, evaluator] of Object.entries(evaluators)) {
    let node = root
    for (const segment of pointerSegments(pointer)) {
      const next = node.members.get(segment) ?? emptyNode()
      node.members.set(segment, next)
      node = next
    }
    node.evaluator = evaluator
  }
  return root
}
