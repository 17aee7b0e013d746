/** A task while its form is edited. Numbers and schemas are text until the form is submitted. */
import { Redacted, Result } from "effect"
import type { NewTask, TaskChange } from "../../../api/Tasks.ts"
import {
  withProviderDefaults,
  type AnthropicProvider,
  type NewProvider,
  type OpenAiProvider,
  type Provider
} from "../../../domain/tasks/Provider.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { jsonEquals } from "../../ui/Diff.tsx"
import { parseJsonObject, formatJson } from "../../ui/jsonText.ts"

/** The provider fields of the form. An empty number or text selects the server's default. */
export interface ProviderDraft {
  readonly kind: NewProvider["kind"]
  readonly min_score: string
  readonly base_url: string
  readonly azure_api_version: string
  readonly model: string
  /** Empty: keep the stored key of the base URL, if there is one. */
  readonly api_key: string
  /** Extra headers, one `Name: value` per line. Empty: keep the stored ones of the base URL, if there are any. */
  readonly headers: string
  readonly removes_headers: boolean
  readonly structured_output: OpenAiProvider["structured_output"]
  readonly tool_output: AnthropicProvider["structured_output"]
  readonly reasoning_effort: NonNullable<OpenAiProvider["reasoning_effort"]> | ""
  readonly temperature: string
  readonly top_p: string
  readonly max_tokens: string
  readonly seed: string
  /** A setting that the form does not show, and keeps. */
  readonly send_traceparent: boolean
  readonly prompt_examples: string
  readonly prompt_tokens: string
  readonly timeout_seconds: string
  readonly input_price: string
  readonly output_price: string
}

/** All fields of the task form. */
export interface TaskDraft {
  readonly name: string
  readonly instructions: string
  readonly input_schema: string
  readonly answer_schema: string
  readonly self_review: boolean
  readonly provider: ProviderDraft
  /** Percentage of runs that is sampled for review. */
  readonly review_percent: string
}

const defaultProvider: ProviderDraft = {
  kind: "examples",
  min_score: "",
  base_url: "https://",
  azure_api_version: "",
  model: "",
  api_key: "",
  headers: "",
  removes_headers: false,
  structured_output: "json_schema",
  tool_output: "tool",
  reasoning_effort: "",
  temperature: "",
  top_p: "",
  max_tokens: "",
  seed: "",
  send_traceparent: false,
  prompt_examples: "",
  prompt_tokens: "",
  timeout_seconds: "",
  input_price: "",
  output_price: ""
}

/** The initial form of a new task, with working example schemas. */
export const newTaskDraft: TaskDraft = {
  name: "",
  instructions: "",
  input_schema: formatJson({
    type: "object",
    properties: { text: { type: "string" } },
    required: ["text"],
    additionalProperties: false
  }),
  answer_schema: formatJson({
    type: "object",
    properties: { category: { enum: ["billing", "shipping", "other"] } },
    required: ["category"],
    additionalProperties: false
  }),
  self_review: true,
  provider: defaultProvider,
  review_percent: "0"
}

const numberText = (number: number | null | undefined): string =>
  number === null ? "" : String(number ?? "")

/** The form of a task's working copy. */
export const toTaskDraft = ({
  answer_schema,
  input_schema,
  instructions,
  name,
  provider,
  review_share,
  self_review
}: Task): TaskDraft => ({
  name,
  review_percent: String(Number((review_share * 100).toFixed(6))),
  instructions,
  input_schema: formatJson(input_schema),
  answer_schema: formatJson(answer_schema),
  self_review,
  provider: toProviderDraft(provider)
})

const toProviderDraft = (provider: Provider): ProviderDraft => {
  if (provider.kind === "examples") return { ...defaultProvider, min_score: numberText(provider.min_score) }
  return {
    ...defaultProvider,
    kind: provider.kind,
    base_url: provider.base_url,
    model: provider.model,
    ...(provider.kind === "openai"
      ? {
          azure_api_version: provider.azure_api_version ?? "",
          structured_output: provider.structured_output,
          reasoning_effort: provider.reasoning_effort ?? "",
          seed: numberText(provider.seed)
        }
      : { tool_output: provider.structured_output }),
    temperature: numberText(provider.temperature),
    top_p: numberText(provider.top_p),
    max_tokens: numberText(provider.max_tokens),
    prompt_examples: numberText(provider.few_shot.examples),
    prompt_tokens: numberText(provider.few_shot.max_tokens),
    timeout_seconds: numberText(provider.timeout_seconds),
    send_traceparent: provider.send_traceparent,
    input_price: numberText(provider.price?.input_per_million),
    output_price: numberText(provider.price?.output_per_million)
  }
}

const parseNumber = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text))

/** A number of the request, by its name; nothing if its field is empty. */
const optionalNumber = <const Name extends string>(
  name: Name,
  text: string
): { readonly [N in Name]?: number } => {
  const number = parseNumber(text)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an object with a computed name has any string as its type of names
  return number === undefined ? {} : ({ [name]: number } as { readonly [N in Name]?: number })
}

/** The headers of the request: the ones of the text, none to remove the stored ones, or undefined to keep them. */
const parseHeaders = ({ headers, removes_headers }: ProviderDraft) => {
  const lines = headers.split("\n").filter((line) => line.trim() !== "")
  if (lines.length === 0) return removes_headers ? {} : undefined
  return Object.fromEntries(
    lines.map((line) => {
      const [name = "", ...value] = line.split(":")
      return [name.trim(), Redacted.make(value.join(":").trim())]
    })
  )
}

/** The settings that every kind of model has. */
const modelSettings = (draft: ProviderDraft) => {
  const headers = parseHeaders(draft)
  const few_shot = {
    ...optionalNumber("examples", draft.prompt_examples),
    ...optionalNumber("max_tokens", draft.prompt_tokens)
  }
  const input_per_million = parseNumber(draft.input_price)
  const output_per_million = parseNumber(draft.output_price)
  return {
    model: draft.model.trim(),
    ...(draft.api_key === "" ? {} : { api_key: Redacted.make(draft.api_key.trim()) }),
    ...(headers === undefined ? {} : { headers }),
    ...optionalNumber("temperature", draft.temperature),
    ...optionalNumber("top_p", draft.top_p),
    ...optionalNumber("max_tokens", draft.max_tokens),
    ...(Object.keys(few_shot).length === 0 ? {} : { few_shot }),
    ...optionalNumber("timeout_seconds", draft.timeout_seconds),
    ...(draft.send_traceparent ? { send_traceparent: true } : {}),
    ...(input_per_million === undefined && output_per_million === undefined
      ? {}
      : {
          price: { input_per_million: input_per_million ?? 0, output_per_million: output_per_million ?? 0 }
        })
  }
}

/** The provider of a draft as the API accepts it. */
export const toProvider = (draft: ProviderDraft): NewProvider => {
  const base_url = draft.base_url.trim()
  switch (draft.kind) {
    case "examples":
      return { kind: "examples", ...optionalNumber("min_score", draft.min_score) }
    case "openai": {
      const version = draft.azure_api_version.trim()
      return {
        kind: "openai",
        base_url,
        ...(version === "" ? {} : { azure_api_version: version }),
        ...modelSettings(draft),
        ...optionalNumber("seed", draft.seed),
        ...(draft.reasoning_effort === "" ? {} : { reasoning_effort: draft.reasoning_effort }),
        structured_output: draft.structured_output
      }
    }
    case "anthropic":
      return {
        kind: "anthropic",
        ...(base_url === "" || base_url === defaultProvider.base_url ? {} : { base_url }),
        ...modelSettings(draft),
        structured_output: draft.tool_output
      }
  }
}

/** The request that creates the task; undefined while a schema is not a JSON object. */
export const toNewTask = (draft: TaskDraft): NewTask | undefined => {
  const inputSchema = parseJsonObject(draft.input_schema)
  const answerSchema = parseJsonObject(draft.answer_schema)
  if (Result.isFailure(inputSchema) || Result.isFailure(answerSchema)) return undefined
  return {
    name: draft.name.trim(),
    instructions: draft.instructions,
    input_schema: inputSchema.success,
    answer_schema: answerSchema.success,
    provider: toProvider(draft.provider),
    self_review: draft.self_review,
    review_share: (parseNumber(draft.review_percent) ?? 0) / 100
  }
}

/** The request that updates the task: only changed members. Undefined while a schema is not a JSON object. */
export const toTaskChange = (task: Task, draft: TaskDraft): TaskChange | undefined => {
  const edited = toNewTask(draft)
  if (edited?.provider === undefined) return undefined
  const { answer_schema, input_schema, name, provider, review_share = 0 } = edited
  const hasNewSecret =
    provider.kind !== "examples" && (provider.api_key !== undefined || provider.headers !== undefined)
  return {
    ...(name === task.name ? {} : { name }),
    ...(draft.instructions === task.instructions ? {} : { instructions: draft.instructions }),
    ...(jsonEquals(input_schema, task.input_schema) ? {} : { input_schema }),
    ...(jsonEquals(answer_schema, task.answer_schema) ? {} : { answer_schema }),
    ...(draft.self_review === task.self_review ? {} : { self_review: draft.self_review }),
    ...(Math.abs(review_share - task.review_share) < 1e-9 ? {} : { review_share }),
    ...(!hasNewSecret && jsonEquals(withProviderDefaults(provider), task.provider) ? {} : { provider })
  }
}
