import type { AnthropicProvider, OpenAiProvider } from "../../../domain/tasks/Provider.ts"
import { Checkbox } from "../../ui/Checkbox.tsx"
import { type Failure, fieldError } from "../../ui/Failure.ts"
import { RadioField } from "../../ui/RadioField.tsx"
import { SelectField } from "../../ui/Select.tsx"
import { NumberField, TextAreaField, TextField } from "../../ui/TextField.tsx"
import type { ProviderDraft } from "./TaskDraft.ts"

const kinds: ReadonlyArray<readonly [ProviderDraft["kind"], string, string]> = [
  ["examples", "Nearest example", "answers with the most similar example of the dataset; needs no model"],
  [
    "openai",
    "OpenAI-compatible model",
    "any server with a chat completions API, Azure OpenAI and OpenRouter too"
  ],
  ["anthropic", "Anthropic model", "the Messages API"]
]

const structures: ReadonlyArray<readonly [OpenAiProvider["structured_output"], string]> = [
  ["json_schema", "JSON matching the answer schema"],
  ["json_object", "Any JSON object"],
  ["none", "Prompt only"]
]

const toolOutputs: ReadonlyArray<readonly [AnthropicProvider["structured_output"], string]> = [
  ["tool", "A tool with the answer schema"],
  ["none", "Prompt only"]
]

const efforts: ReadonlyArray<readonly [ProviderDraft["reasoning_effort"], string]> = [
  ["", "The server's default"],
  ["none", "None"],
  ["minimal", "Minimal"],
  ["low", "Low"],
  ["medium", "Medium"],
  ["high", "High"],
  ["xhigh", "Extra high"]
]

/** The form fields of a task's provider. */
export const ProviderFields = ({
  failure,
  hasProviderHeaders,
  hasProviderKey,
  onChange,
  provider
}: {
  readonly provider: ProviderDraft
  /** Whether an API key is already stored for the provider. */ readonly hasProviderKey: boolean
  /** Whether extra headers are already stored for the provider. */ readonly hasProviderHeaders: boolean
  readonly failure: Failure | undefined
  readonly onChange: (provider: ProviderDraft) => void
}) => {
  const set = (change: Partial<ProviderDraft>) => onChange({ ...provider, ...change })
  return (
    <>
      <RadioField
        legend="Provider"
        options={kinds}
        value={provider.kind}
        onChange={(kind) => set({ kind })}
      />
      {provider.kind === "examples" ? (
        <NumberField
          className="short"
          label="Lowest score"
          hint="0 to 1. A run whose nearest example has a lower score fails. Defaults to 0: every run is answered."
          error={fieldError(failure, "provider/min_score")}
          min={0}
          max={1}
          value={provider.min_score}
          onChange={(min_score) => set({ min_score })}
        />
      ) : (
        <div className="field-pairs">
          <TextField
            label="Base URL"
            hint={
              provider.kind === "anthropic"
                ? "Leave https:// for Anthropic's own API."
                : "For example https://api.openai.com/v1 or https://openrouter.ai/api/v1"
            }
            error={fieldError(failure, "provider/base_url")}
            type="url"
            required={provider.kind === "openai"}
            maxLength={2_000}
            spellCheck={false}
            value={provider.base_url}
            onChange={(base_url) => set({ base_url })}
          />
          <TextField
            label="Model"
            error={fieldError(failure, "provider/model")}
            required
            maxLength={200}
            spellCheck={false}
            value={provider.model}
            onChange={(model) => set({ model })}
          />
          <TextField
            label="Provider API key"
            hint={
              hasProviderKey
                ? "A key is stored, encrypted. Leave empty to keep it."
                : "Stored encrypted and never shown. Leave empty to send none."
            }
            error={fieldError(failure, "provider/api_key")}
            type="password"
            autoComplete="off"
            maxLength={4_096}
            value={provider.api_key}
            onChange={(api_key) => set({ api_key })}
          />
          {provider.kind === "openai" ? (
            <>
              <TextField
                label="Azure API version"
                hint="Only for the URL of a deployment of Azure OpenAI, such as 2024-10-21."
                error={fieldError(failure, "provider/azure_api_version")}
                maxLength={40}
                spellCheck={false}
                value={provider.azure_api_version}
                onChange={(azure_api_version) => set({ azure_api_version })}
              />
              <SelectField
                label="Structured output"
                error={fieldError(failure, "provider/structured_output")}
                options={structures}
                value={provider.structured_output}
                onChange={(structured_output) => set({ structured_output })}
              />
              <SelectField
                label="Reasoning effort"
                error={fieldError(failure, "provider/reasoning_effort")}
                options={efforts}
                value={provider.reasoning_effort}
                onChange={(reasoning_effort) => set({ reasoning_effort })}
              />
              <NumberField
                className="short"
                label="Seed"
                hint="A whole number, for servers that have one."
                error={fieldError(failure, "provider/seed")}
                step={1}
                value={provider.seed}
                onChange={(seed) => set({ seed })}
              />
            </>
          ) : (
            <SelectField
              label="Structured output"
              error={fieldError(failure, "provider/structured_output")}
              options={toolOutputs}
              value={provider.tool_output}
              onChange={(tool_output) => set({ tool_output })}
            />
          )}
          <TextAreaField
            label="Extra headers"
            hint={
              hasProviderHeaders
                ? "One per line: Name: value. Headers are stored, encrypted. Leave empty to keep them."
                : "One per line: Name: value. Stored encrypted and never shown."
            }
            error={fieldError(failure, "provider/headers")}
            rows={2}
            spellCheck={false}
            autoComplete="off"
            value={provider.headers}
            onChange={(headers) => set({ headers })}
          />
          {hasProviderHeaders ? (
            <Checkbox
              checked={provider.removes_headers}
              onChange={(isChecked) => set({ removes_headers: isChecked })}
            >
              Remove the stored headers
            </Checkbox>
          ) : null}
          {numbers.map(({ name, pointer, ...number }) => (
            <NumberField
              key={name}
              className="short"
              {...number}
              {...(provider.kind === "anthropic" ? anthropicNumbers[name] : undefined)}
              error={fieldError(failure, pointer)}
              value={provider[name]}
              onChange={(value) => set({ [name]: value })}
            />
          ))}
        </div>
      )}
    </>
  )
}

/** Limits that differ for Anthropic's models. */
const anthropicNumbers: {
  readonly [Name in (typeof numbers)[number]["name"]]?: { hint: string; max: number }
} = {
  temperature: { hint: "0 to 1. Defaults to the server's value.", max: 1 },
  max_tokens: { hint: "1 to 1,000,000. Defaults to 4,096.", max: 1_000_000 }
}

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
    name: "top_p",
    label: "Top p",
    hint: "0 to 1: share of the most probable tokens. Defaults to the server's value.",
    pointer: "provider/top_p",
    min: 0,
    max: 1,
    step: "any"
  },
  {
    name: "max_tokens",
    label: "Tokens of an answer",
    hint: "At most, 1 to 1,000,000, reasoning included. Defaults to the server's value.",
    pointer: "provider/max_tokens",
    min: 1,
    max: 1_000_000,
    step: 1
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
