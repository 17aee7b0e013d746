import type { OpenAiProvider } from "../../../domain/tasks/Provider.ts"
import { type Failure, fieldError } from "../../ui/Failure.ts"
import { Field } from "../../ui/Field.tsx"
import type { ProviderDraft } from "./TaskDraft.ts"

const kinds: ReadonlyArray<readonly [ProviderDraft["kind"], string, string]> = [
  ["examples", "Nearest example", "answers with the most similar example of the dataset; needs no model"],
  ["openai", "OpenAI-compatible model", "any server with a chat completions API"]
]

const structures: ReadonlyArray<readonly [OpenAiProvider["structured_output"], string]> = [
  ["json_schema", "JSON matching the answer schema"],
  ["json_object", "Any JSON object"],
  ["none", "Prompt only"]
]

/** The form fields of a task's provider. */
export const ProviderFields = ({
  failure,
  hasProviderKey,
  onChange,
  provider
}: {
  readonly provider: ProviderDraft
  /** Whether an API key is already stored for the provider. */ readonly hasProviderKey: boolean
  readonly failure: Failure | undefined
  readonly onChange: (provider: ProviderDraft) => void
}) => {
  const set = (change: Partial<ProviderDraft>) => onChange({ ...provider, ...change })
  return (
    <>
      <fieldset className="field">
        <legend className="legend">Provider</legend>
        {kinds.map(([kind, name, meaning]) => (
          <label key={kind} className="check">
            <input
              type="radio"
              name="provider"
              checked={provider.kind === kind}
              onChange={() => set({ kind })}
            />
            <span>
              <strong>{name}</strong> <span className="quiet">{meaning}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {provider.kind === "examples" ? (
        <NumberField
          {...minScore}
          error={fieldError(failure, minScore.pointer)}
          value={provider.min_score}
          onChange={(min_score) => set({ min_score })}
        />
      ) : (
        <div className="field-pairs">
          <Field
            label="Base URL"
            hint="For example https://api.openai.com/v1"
            error={fieldError(failure, "provider/base_url")}
          >
            {(field) => (
              <input
                {...field}
                type="url"
                required
                maxLength={2_000}
                spellCheck={false}
                value={provider.base_url}
                onChange={({ target }) => set({ base_url: target.value })}
              />
            )}
          </Field>
          <Field label="Model" error={fieldError(failure, "provider/model")}>
            {(field) => (
              <input
                {...field}
                required
                maxLength={200}
                spellCheck={false}
                value={provider.model}
                onChange={({ target }) => set({ model: target.value })}
              />
            )}
          </Field>
          <Field
            label="Provider API key"
            hint={
              hasProviderKey
                ? "A key is stored, encrypted. Leave empty to keep it."
                : "Stored encrypted and never shown. Leave empty to send none."
            }
            error={fieldError(failure, "provider/api_key")}
          >
            {(field) => (
              <input
                {...field}
                type="password"
                autoComplete="off"
                maxLength={4_096}
                value={provider.api_key}
                onChange={({ target }) => set({ api_key: target.value })}
              />
            )}
          </Field>
          <Field label="Structured output" error={fieldError(failure, "provider/structured_output")}>
            {(field) => (
              <select
                {...field}
                value={provider.structured_output}
                onChange={({ target }) => {
                  const found = structures.find(([name]) => name === target.value)
                  if (found !== undefined) set({ structured_output: found[0] })
                }}
              >
                {structures.map(([name, text]) => (
                  <option key={name} value={name}>
                    {text}
                  </option>
                ))}
              </select>
            )}
          </Field>
          {numbers.map(({ name, ...number }) => (
            <NumberField
              key={name}
              {...number}
              error={fieldError(failure, number.pointer)}
              value={provider[name]}
              onChange={(value) => set({ [name]: value })}
            />
          ))}
        </div>
      )}
    </>
  )
}

/** A number that is text until the form is submitted. */
const NumberField = ({
  error,
  hint,
  label,
  max,
  min,
  onChange,
  step,
  value
}: {
  readonly label: string
  readonly hint: string
  readonly error: ReturnType<typeof fieldError>
  readonly min: number
  readonly max: number | undefined
  readonly step: number | "any"
  readonly value: string
  readonly onChange: (value: string) => void
}) => (
  <Field label={label} hint={hint} error={error}>
    {(field) => (
      <input
        {...field}
        type="number"
        min={min}
        max={max}
        step={step}
        value={value}
        onChange={({ target }) => onChange(target.value)}
      />
    )}
  </Field>
)

const minScore = {
  label: "Lowest score",
  hint: "0 to 1. A run whose nearest example has a lower score fails. Defaults to 0: every run is answered.",
  pointer: "provider/min_score",
  min: 0,
  max: 1,
  step: "any"
} as const

const numbers = [
  {
    name: "temperature",
    label: "Temperature",
    hint: "0 to 2. Defaults to the server's value.",
    pointer: "provider/temperature",
    min: 0,
    max: 2,
    step: "any"
  },
  {
    name: "prompt_examples",
    label: "Examples in the prompt",
    hint: "0 to 50: the nearest ones of the release's dataset. Defaults to 5.",
    pointer: "provider/few_shot/examples",
    min: 0,
    max: 50,
    step: 1
  },
  {
    name: "prompt_tokens",
    label: "Tokens of these examples",
    hint: "At most, 0 to 100,000. Defaults to 4,000.",
    pointer: "provider/few_shot/max_tokens",
    min: 0,
    max: 100_000,
    step: 1
  },
  {
    name: "timeout_seconds",
    label: "Timeout in seconds",
    hint: "1 to 120. Defaults to 60.",
    pointer: "provider/timeout_seconds",
    min: 1,
    max: 120,
    step: 1
  },
  {
    name: "input_price",
    label: "Price per million input tokens",
    hint: "Optional. Used for the cost of comparisons.",
    pointer: "provider/price/input_per_million",
    min: 0,
    max: undefined,
    step: "any"
  },
  {
    name: "output_price",
    label: "Price per million output tokens",
    hint: "Optional. In the same currency.",
    pointer: "provider/price/output_per_million",
    min: 0,
    max: undefined,
    step: "any"
  }
] as const
