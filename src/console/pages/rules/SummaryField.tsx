import { Result, type Schema } from "effect"
import {
  formatTemplateFault,
  MAX_TEMPLATE,
  parseSummaryTemplate,
  renderSummary
} from "../../../domain/approvals/SummaryTemplate.ts"
import { Field } from "../../ui/Field.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** The most recent steps whose sentences are shown. */
const MAX_PREVIEWS = 3

/** The fault of a template, as the rule's dialog shows it; undefined: none, or no template. */
export const summaryFault = (template: string | null): string | undefined => {
  const parsed = template === null ? undefined : parseSummaryTemplate(template)
  return parsed !== undefined && Result.isFailure(parsed) ? formatTemplateFault(parsed.failure) : undefined
}

/** The template of a rule's sentence, with the sentences that recent steps of its tool would have. */
export const SummaryField = ({
  examples,
  onChange,
  template
}: {
  readonly template: string | null
  /** Arguments of recent steps that the rule can match. */
  readonly examples: ReadonlyArray<Schema.Json>
  readonly onChange: (template: string | null) => void
}) => {
  const fault = summaryFault(template)
  const sentences = template === null || fault !== undefined ? [] : render(template, examples)
  return (
    <>
      <Field
        label="Summary (optional)"
        hint={
          <>
            One sentence for the people who decide, made from the arguments:{" "}
            <code>{"Refund {amount_cents|money:currency} on order {order}"}</code>. Formats:{" "}
            <code>number</code>, <code>date</code>, <code>count</code>, <code>money:EUR</code>.
          </>
        }
        error={fault}
      >
        {(field) => (
          <input
            {...field}
            maxLength={MAX_TEMPLATE}
            spellCheck={false}
            value={template ?? ""}
            onChange={({ target }) => onChange(target.value === "" ? null : target.value)}
          />
        )}
      </Field>
      {template === null || fault !== undefined ? null : (
        <div className="summary-preview" role="status" aria-label="Preview of the summary">
          {sentences.length === 0 ? (
            <p className="quiet small">No recent approval of this tool to preview it with.</p>
          ) : (
            <ul>
              {sentences.map((sentence) => (
                <li key={sentence}>
                  <UntrustedText text={sentence} />
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
    </>
  )
}

/** The different sentences of the examples. */
const render = (template: string, examples: ReadonlyArray<Schema.Json>): ReadonlyArray<string> => {
  const parsed = parseSummaryTemplate(template)
  return Result.isFailure(parsed)
    ? []
    : [...new Set(examples.slice(0, 20).map((example) => renderSummary(parsed.success, example)))].slice(
        0,
        MAX_PREVIEWS
      )
}
