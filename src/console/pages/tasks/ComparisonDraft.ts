/** The options of a comparison while their form is edited. Numbers are text until the form is submitted. */
import { JsonPointer, Predicate, Redacted } from "effect"
import type { NewComparison } from "../../../api/Comparisons.ts"
import type { NewBudget } from "../../../domain/tasks/Budget.ts"
import type { NewEvaluator } from "../../../domain/tasks/Evaluator.ts"
import type { HoldOut } from "../../../domain/tasks/HoldOut.ts"
import { DatasetId } from "../../../domain/Ids.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"

/** How one top-level field of the answers is compared. */
export interface FieldDraft {
  readonly kind: NewEvaluator["kind"]
  /** Absolute tolerance of a number. */
  readonly tolerance: string
  readonly weight: string
}

export interface JudgeDraft {
  readonly base_url: string
  readonly model: string
  readonly api_key: string
  readonly instructions: string
}

/** All options. An empty text selects the default. */
export interface ComparisonDraft {
  readonly hold_out: HoldOut["kind"]
  /** Answers of each side to each example. */
  readonly repeats: string
  /** The dataset version of a benchmark. */
  readonly benchmark: string
  readonly test_percent: string
  readonly seed: string
  readonly fields: Readonly<Record<string, FieldDraft>>
  readonly budget: Readonly<Record<keyof NewBudget, string>>
  /** Undefined: no judge. */
  readonly judge: JudgeDraft | undefined
}

export const defaultField: FieldDraft = { kind: "equal", tolerance: "", weight: "" }

export const emptyJudge: JudgeDraft = { base_url: "https://", model: "", api_key: "", instructions: "" }

export const defaultDraft: ComparisonDraft = {
  hold_out: "leave_one_out",
  benchmark: "",
  repeats: "",
  test_percent: "",
  seed: "",
  fields: {},
  budget: { max_calls: "", max_tokens: "", max_cost: "", max_failures: "" },
  judge: undefined
}

/** The top-level fields that an answer schema declares itself. */
export const fieldsOf = ({ properties }: JsonSchema): ReadonlyArray<string> =>
  Predicate.isReadonlyObject(properties) ? Object.keys(properties) : []

/** The JSON pointer of a top-level field. */
const pointerOf = (field: string): string => `/${JsonPointer.escapeToken(field)}`

/** The pointer of a top-level field's evaluator in the request, without `#/`. */
export const pointerOfEvaluator = (field: string): string =>
  JsonPointer.formatUriFragment(["evaluators", pointerOf(field)]).slice(2)

const parseNumber = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text))

/** A member with the number of a text; none if the text is empty. */
const numberMember = <Name extends string>(name: Name, text: string, scale = 1) => {
  const value = parseNumber(text)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a computed key widens to `string`; the name is the one key
  return (value === undefined ? {} : { [name]: value / scale }) as { readonly [N in Name]?: number }
}

const toEvaluator = ({ kind, tolerance, weight }: FieldDraft): NewEvaluator => {
  switch (kind) {
    case "ignore":
      return { kind }
    case "number":
      return { kind, ...numberMember("absolute_tolerance", tolerance), ...numberMember("weight", weight) }
    case "equal":
    case "text":
    case "unordered":
      return { kind, ...numberMember("weight", weight) }
  }
}

const isChanged = ({ kind, weight }: FieldDraft): boolean => kind !== "equal" || weight.trim() !== ""

/** The request that starts a comparison of the working copy with these options. */
export const toNewComparison = ({
  benchmark,
  budget,
  fields,
  hold_out,
  judge,
  repeats,
  seed,
  test_percent
}: ComparisonDraft): NewComparison => {
  const evaluators = Object.fromEntries(
    Object.entries(fields)
      .filter(([, field]) => isChanged(field))
      .map(([name, field]) => [pointerOf(name), toEvaluator(field)])
  )
  const limits = {
    ...numberMember("max_calls", budget.max_calls),
    ...numberMember("max_tokens", budget.max_tokens),
    ...numberMember("max_cost", budget.max_cost),
    ...numberMember("max_failures", budget.max_failures)
  }
  return {
    hold_out:
      hold_out === "split"
        ? { kind: hold_out, ...numberMember("test_share", test_percent, 100), ...numberMember("seed", seed) }
        : hold_out === "benchmark"
          ? { kind: hold_out, dataset_id: DatasetId.make(benchmark.trim(), { disableChecks: true }) }
          : { kind: hold_out },
    ...numberMember("repeats", repeats),
    ...(Object.keys(evaluators).length === 0 ? {} : { evaluators }),
    ...(Object.keys(limits).length === 0 ? {} : { budget: limits }),
    ...(judge === undefined
      ? {}
      : {
          judge: {
            ...(judge.instructions.trim() === "" ? {} : { instructions: judge.instructions }),
            provider: {
              kind: "openai",
              base_url: judge.base_url.trim(),
              model: judge.model.trim(),
              ...(judge.api_key === "" ? {} : { api_key: Redacted.make(judge.api_key.trim()) })
            }
          }
        })
  }
}
