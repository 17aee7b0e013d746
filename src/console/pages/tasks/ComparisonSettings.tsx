import type { Comparison } from "../../../domain/tasks/Comparison.ts"
import type { Evaluator } from "../../../domain/tasks/Evaluator.ts"
import type { HoldOut } from "../../../domain/tasks/HoldOut.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** The settings of a comparison, and its spending. */
export const ComparisonSettings = ({ comparison }: { readonly comparison: Comparison }) => {
  const { budget, evaluators, hold_out, judge, repeats, spent, summary } = comparison
  const limits = Object.entries(budget).flatMap(([name, limit]) =>
    limit === null ? [] : [`${limit.toLocaleString("en")} ${name.replace("max_", "")}`]
  )
  return (
    <section className="card padded stack" aria-label="Settings">
      <h2>How it was compared</h2>
      {hold_out.kind === "none" ? (
        <p className="notice">
          Examples may have been answered from themselves, so the agreement says nothing about other inputs.
        </p>
      ) : null}
      <dl className="facts">
        <div>
          <dt>Hold-out</dt>
          <dd>{describeHoldOut(hold_out)}</dd>
        </div>
        {repeats === 1 ? null : (
          <div>
            <dt>Repeats</dt>
            <dd>
              {repeats} answers to each example; they differ from one another on{" "}
              {(summary.candidate.repeats?.unstable ?? 0).toLocaleString("en")} examples of the candidate and{" "}
              {(summary.live.repeats?.unstable ?? 0).toLocaleString("en")} of the live release
            </dd>
          </div>
        )}
        <div>
          <dt>Spent</dt>
          <dd>
            {spent.calls.toLocaleString("en")} calls, {spent.input_tokens.toLocaleString("en")} input and{" "}
            {spent.output_tokens.toLocaleString("en")} output tokens
            {spent.cost === null
              ? ""
              : `, cost ${spent.cost.toLocaleString("en", { maximumFractionDigits: 4 })}`}
          </dd>
        </div>
        {limits.length === 0 ? null : (
          <div>
            <dt>Budget</dt>
            <dd>{limits.join(", ")}</dd>
          </div>
        )}
        {Object.entries(evaluators).map(([pointer, evaluator]) => (
          <div key={pointer}>
            <dt>
              <UntrustedText text={pointer} />
            </dt>
            <dd>{describeEvaluator(evaluator)}</dd>
          </div>
        ))}
        {judge === null ? null : (
          <div>
            <dt>Judge</dt>
            <dd>
              <UntrustedText text={judge.provider.model} />
              {summary.judge === null
                ? ""
                : `: ${summary.judge.agreed} of ${summary.judge.judged} judged answers agree, ${summary.judge.failed} without a verdict`}
            </dd>
          </div>
        )}
      </dl>
      {judge === null ? null : (
        <details>
          <summary>Judge's prompt</summary>
          <p className="prose">
            <UntrustedText text={judge.instructions} />
          </p>
        </details>
      )}
    </section>
  )
}

const describeHoldOut = (hold_out: HoldOut): string => {
  switch (hold_out.kind) {
    case "leave_one_out":
      return "leave one out"
    case "split":
      return `split: ${hold_out.test_share * 100} % compared, seed ${hold_out.seed}`
    case "benchmark":
      return `benchmark ${hold_out.dataset_id}`
    case "none":
      return "none"
  }
}

const describeEvaluator = (evaluator: Evaluator): string => {
  const weight = evaluator.kind === "ignore" || evaluator.weight === 1 ? "" : `, weight ${evaluator.weight}`
  switch (evaluator.kind) {
    case "ignore":
      return "not compared"
    case "equal":
      return `equal${weight}`
    case "unordered":
      return `list in any order${weight}`
    case "text":
      return `text${evaluator.ignore_case ? "" : ", case counts"}${evaluator.ignore_punctuation ? ", without punctuation" : ""}${weight}`
    case "number": {
      const { absolute_tolerance, relative_tolerance } = evaluator
      return `number within ${absolute_tolerance}${relative_tolerance > 0 ? ` or ${relative_tolerance * 100} %` : ""}${weight}`
    }
  }
}
