import type { OpenAiProvider } from "../../../domain/tasks/Provider.ts"
import { type Failure, fieldError } from "../../ui/Failure.ts"
import { Field } from "../../ui/Field.tsx"
import type { ProviderDraft } from "./TaskDraft.ts"

const kinds: ReadonlyArray<readonly [ProviderDraft["kind"], string, string]> = [
  ["examples", "the nearest example", "of the task's dataset: works at once, without a model"],
  ["openai", "a model", "of any server that speaks OpenAI's chat completions"]
]

const structures: ReadonlyArray<readonly [OpenAiProvider["structured_output"], string]> = [
  ["json_schema", "by the shape of answers"],
  ["json_object", "for any JSON object"],
  ["none", "in words alone"]
]

/** Who answers a task's runs. */
export const ProviderFields = ({
  failure,
  keySet,
  onChange,
  provider
}: {
  readonly provider: ProviderDraft
  /** Whether the service keeps a key for the provider already. */
  readonly keySet: boolean
  readonly failure: Failure | undefined
  readonly onChange: (provider: ProviderDraft) => void
}) => {
  const set = (change: Partial<ProviderDraft>) => onChange({ ...provider, ...change })
  return (
    <>
      <fieldset className="field">
        <legend className="legend">Who answers</legend>
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
            hint="Such as https://api.openai.com/v1"
            fault={fieldError(failure, "provider/base_url")}
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
          <Field label="Model" fault={fieldError(failure, "provider/model")}>
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
            label="API key of the provider"
            hint={
              keySet
                ? "One is kept, sealed. Empty: it stays."
                : "Kept sealed, and never shown. Empty: none is sent."
            }
            fault={fieldError(failure, "provider/api_key")}
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
          <Field label="Asks for JSON" fault={fieldError(failure, "provider/structured_output")}>
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
            <Field key={name} label={label} hint={hint} fault={fieldError(failure, pointer)}>
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
    hint: "0 to 2. Empty: the server's own.",
    pointer: "provider/temperature",
    max: 2,
    step: "any"
  },
  {
    name: "timeout_seconds",
    label: "Seconds that a run may take",
    hint: "Up to 120. Empty: 60.",
    pointer: "provider/timeout_seconds",
    max: 120,
    step: 1
  },
  {
    name: "input_price",
    label: "Price of a million tokens in",
    hint: "Optional; it makes the costs of comparisons.",
    pointer: "provider/price/input_per_million",
    max: undefined,
    step: "any"
  },
  {
    name: "output_price",
    label: "Price of a million tokens out",
    hint: "Optional, in the same currency.",
    pointer: "provider/price/output_per_million",
    max: undefined,
    step: "any"
  }
] as const
