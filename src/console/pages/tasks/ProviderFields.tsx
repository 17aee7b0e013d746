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
      {provider.kind === "examples" ? null : (
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
          {numbers.map(({ hint, label, max, name, pointer, step }) => (
            <Field key={name} label={label} hint={hint} error={fieldError(failure, pointer)}>
              {(field) => (
                <input
                  {...field}
                  type="number"
                  min={name === "timeout_seconds" ? 1 : 0}
                  max={max}
                  step={step}
                  value={provider[name]}
                  onChange={({ target }) => set({ [name]: target.value })}
                />
              )}
            </Field>
          ))}
        </div>
      )}
    </>
  )
}

const numbers = [
  {
    name: "temperature",
    label: "Temperature",
    hint: "0 to 2. Defaults to the server's value.",
    pointer: "provider/temperature",
    max: 2,
    step: "any"
  },
  {
    name: "timeout_seconds",
    label: "Timeout in seconds",
    hint: "1 to 120. Defaults to 60.",
    pointer: "provider/timeout_seconds",
    max: 120,
    step: 1
  },
  {
    name: "input_price",
    label: "Price per million input tokens",
    hint: "Optional. Used for the cost of comparisons.",
    pointer: "provider/price/input_per_million",
    max: undefined,
    step: "any"
  },
  {
    name: "output_price",
    label: "Price per million output tokens",
    hint: "Optional. In the same currency.",
    pointer: "provider/price/output_per_million",
    max: undefined,
    step: "any"
  }
] as const
