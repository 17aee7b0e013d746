import type { NewBudget } from "../../../domain/tasks/Budget.ts"
import type { Evaluator } from "../../../domain/tasks/Evaluator.ts"
import type { HoldOut } from "../../../domain/tasks/HoldOut.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import { Checkbox } from "../../ui/Checkbox.tsx"
import { type Failure, fieldError } from "../../ui/Failure.ts"
import { RadioField } from "../../ui/RadioField.tsx"
import { SelectField } from "../../ui/Select.tsx"
import { NumberField, TextAreaField, TextField } from "../../ui/TextField.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import {
  type ComparisonDraft,
  defaultField,
  emptyJudge,
  type FieldDraft,
  fieldsOf,
  pointerOfEvaluator
} from "./ComparisonDraft.ts"

const holdOuts: ReadonlyArray<readonly [HoldOut["kind"], string, string]> = [
  ["leave_one_out", "Leave one out", "every example is compared, and none is answered from itself"],
  ["split", "Split", "a part of the examples is compared, and answered from the other part only"],
  ["benchmark", "Benchmark", "the examples of another task's dataset are compared, which no prompt uses"],
  ["none", "None", "examples can be answered from themselves: it proves nothing about other inputs"]
]

const evaluators: ReadonlyArray<readonly [Evaluator["kind"], string]> = [
  ["equal", "Equal"],
  ["number", "Number within a tolerance"],
  ["text", "Text, any case and spacing"],
  ["unordered", "List in any order"],
  ["ignore", "Not compared"]
]

const limits: ReadonlyArray<readonly [keyof NewBudget, string, number | "any"]> = [
  ["max_calls", "Calls at most", 1],
  ["max_tokens", "Tokens at most", 1],
  ["max_cost", "Cost at most", "any"],
  ["max_failures", "Failed answers at most", 1]
]

/** The form fields of a comparison's options. */
export const ComparisonOptions = ({
  answer_schema,
  draft,
  failure,
  onChange
}: {
  readonly draft: ComparisonDraft
  readonly answer_schema: JsonSchema
  readonly failure: Failure | undefined
  readonly onChange: (draft: ComparisonDraft) => void
}) => {
  const set = (change: Partial<ComparisonDraft>) => onChange({ ...draft, ...change })
  const fields = fieldsOf(answer_schema)
  return (
    <div className="stack">
      <RadioField
        legend="Hold-out"
        options={holdOuts}
        value={draft.hold_out}
        onChange={(hold_out) => set({ hold_out })}
      />
      {draft.hold_out === "benchmark" ? (
        <TextField
          label="Dataset version of the benchmark"
          hint="Its ID, dst_…, of another task with the same schemas."
          error={fieldError(failure, "hold_out/dataset_id")}
          required
          pattern="dst_[0-9a-f]{32}"
          value={draft.benchmark}
          onChange={(benchmark) => set({ benchmark })}
        />
      ) : null}
      {draft.hold_out === "split" ? (
        <div className="field-pairs">
          <NumberField
            label="Compared part in percent"
            hint="1 to 99. Defaults to 20."
            error={fieldError(failure, "hold_out/test_share")}
            value={draft.test_percent}
            onChange={(test_percent) => set({ test_percent })}
          />
          <NumberField
            label="Seed"
            hint="Another seed makes another split. Defaults to 0."
            error={fieldError(failure, "hold_out/seed")}
            step={1}
            value={draft.seed}
            onChange={(seed) => set({ seed })}
          />
        </div>
      ) : null}
      <NumberField
        label="Answers to each example"
        hint="1 to 10. More than one shows how much the model itself varies; each costs as much. Defaults to 1."
        error={fieldError(failure, "repeats")}
        step={1}
        value={draft.repeats}
        onChange={(repeats) => set({ repeats })}
      />
      {fields.length === 0 ? null : (
        <fieldset className="field">
          <legend className="legend">Fields of the answers</legend>
          {fields.map((name) => (
            <FieldRow
              key={name}
              name={name}
              field={draft.fields[name] ?? defaultField}
              error={fieldError(failure, pointerOfEvaluator(name))}
              onChange={(field) => set({ fields: { ...draft.fields, [name]: field } })}
            />
          ))}
        </fieldset>
      )}
      <fieldset className="field">
        <legend className="legend">Budget</legend>
        <div className="field-pairs">
          {limits.map(([name, label, step]) => (
            <NumberField
              key={name}
              label={label}
              hint="Defaults to no limit."
              error={fieldError(failure, `budget/${name}`)}
              step={step}
              value={draft.budget[name]}
              onChange={(value) => set({ budget: { ...draft.budget, [name]: value } })}
            />
          ))}
        </div>
      </fieldset>
      <JudgeFields draft={draft} failure={failure} onChange={onChange} />
    </div>
  )
}

/** How one field is compared. */
const FieldRow = ({
  error,
  field,
  name,
  onChange
}: {
  readonly name: string
  readonly field: FieldDraft
  readonly error: string | undefined
  readonly onChange: (field: FieldDraft) => void
}) => (
  <div className="field-pairs">
    <SelectField
      label={<UntrustedText text={name} />}
      error={error}
      options={evaluators}
      value={field.kind}
      onChange={(kind) => onChange({ ...field, kind })}
    />
    {field.kind === "number" ? (
      <NumberField
        label="Tolerance"
        hint="Largest difference that agrees. Defaults to 0."
        value={field.tolerance}
        onChange={(tolerance) => onChange({ ...field, tolerance })}
      />
    ) : null}
    {field.kind === "ignore" ? null : (
      <NumberField
        label="Weight"
        hint="Weight in the score. Defaults to 1."
        value={field.weight}
        onChange={(weight) => onChange({ ...field, weight })}
      />
    )}
  </div>
)

/** The model that decides about answers that differ. */
const JudgeFields = ({
  draft,
  failure,
  onChange
}: {
  readonly draft: ComparisonDraft
  readonly failure: Failure | undefined
  readonly onChange: (draft: ComparisonDraft) => void
}) => {
  const { judge } = draft
  return (
    <fieldset className="field">
      <legend className="legend">Judge</legend>
      <Checkbox
        checked={judge !== undefined}
        onChange={(isChecked) => onChange({ ...draft, judge: isChecked ? emptyJudge : undefined })}
      >
        <strong>A model judges answers that differ</strong>{" "}
        <span className="quiet">an answer agrees if it does, or if the judge says so</span>
      </Checkbox>
      {judge === undefined ? null : (
        <div className="field-pairs">
          {judgeTexts.map(({ name, pointer, required, ...text }) => (
            <TextField
              key={name}
              label={text.label}
              hint={text.hint}
              error={fieldError(failure, pointer)}
              type={name === "api_key" ? "password" : "text"}
              autoComplete="off"
              spellCheck={false}
              required={required}
              value={judge[name]}
              onChange={(text) => onChange({ ...draft, judge: { ...judge, [name]: text } })}
            />
          ))}
          <TextAreaField
            label="Judge's prompt"
            hint="Its input has the members input, expected and answer. Defaults to a prompt that asks whether both tell the same."
            error={fieldError(failure, "judge/instructions")}
            rows={3}
            maxLength={20_000}
            value={judge.instructions}
            onChange={(instructions) => onChange({ ...draft, judge: { ...judge, instructions } })}
          />
        </div>
      )}
    </fieldset>
  )
}

const judgeTexts = [
  {
    name: "base_url",
    label: "Judge's base URL",
    hint: "For example https://api.openai.com/v1",
    pointer: "judge/provider/base_url",
    required: true
  },
  { name: "model", label: "Judge's model", hint: "", pointer: "judge/provider/model", required: true },
  {
    name: "api_key",
    label: "Judge's API key",
    hint: "Stored encrypted. Leave empty to use the task's key for this base URL.",
    pointer: "judge/provider/api_key",
    required: false
  }
] as const
