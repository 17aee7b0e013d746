/** A task while its form is edited. Numbers and schemas are text until the form is submitted. */
import { Redacted, Result } from "effect"
import type { NewTask, TaskChange } from "../../../api/Tasks.ts"
import {
  withProviderDefaults,
  type NewOpenAiProvider,
  type NewProvider,
  type OpenAiProvider
} from "../../../domain/tasks/Provider.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { jsonEquals } from "../../ui/Diff.tsx"
import { parseJsonObject, formatJson } from "../../ui/jsonText.ts"

/** The provider fields of the form. An empty number selects the server's default. */
export interface ProviderDraft {
  readonly kind: NewProvider["kind"]
  readonly min_score: string
  readonly base_url: string
  readonly model: string
  /** Empty: keep the stored key of the base URL, if there is one. */
  readonly api_key: string
  readonly structured_output: OpenAiProvider["structured_output"]
  readonly temperature: string
  /** Settings that the form does not show, and keeps. */
  readonly others: Pick<
    NewOpenAiProvider,
    "top_p" | "seed" | "max_tokens" | "reasoning_effort" | "send_traceparent"
  >
  readonly prompt_examples: string
  readonly prompt_tokens: string
  readonly timeout_seconds: string
  readonly input_price: string
  readonly output_price: string
}

/** All fields of the task form. */ export interface TaskDraft {
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
  model: "",
  api_key: "",
  structured_output: "json_schema",
  temperature: "",
  others: {},
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
  provider:
    provider.kind === "examples"
      ? { ...defaultProvider, min_score: numberText(provider.min_score) }
      : {
          ...defaultProvider,
          kind: "openai",
          base_url: provider.base_url,
          model: provider.model,
          structured_output: provider.structured_output,
          temperature: numberText(provider.temperature),
          others: {
            top_p: provider.top_p,
            seed: provider.seed,
            max_tokens: provider.max_tokens,
            reasoning_effort: provider.reasoning_effort,
            send_traceparent: provider.send_traceparent
          },
          prompt_examples: numberText(provider.few_shot.examples),
          prompt_tokens: numberText(provider.few_shot.max_tokens),
          timeout_seconds: numberText(provider.timeout_seconds),
          input_price: numberText(provider.price?.input_per_million),
          output_price: numberText(provider.price?.output_per_million)
        }
})

const parseNumber = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text))

const toProvider = (draft: ProviderDraft): NewProvider => {
  const min_score = parseNumber(draft.min_score)
  if (draft.kind === "examples")
    return { kind: "examples", ...(min_score === undefined ? {} : { min_score }) }
  const temperature = parseNumber(draft.temperature)
  const examples = parseNumber(draft.prompt_examples)
  const max_tokens = parseNumber(draft.prompt_tokens)
  const timeout_seconds = parseNumber(draft.timeout_seconds)
  const input_per_million = parseNumber(draft.input_price)
  const output_per_million = parseNumber(draft.output_price)
  return {
    kind: "openai",
    base_url: draft.base_url.trim(),
    model: draft.model.trim(),
    structured_output: draft.structured_output,
    ...draft.others,
    ...(draft.api_key === "" ? {} : { api_key: Redacted.make(draft.api_key.trim()) }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(examples === undefined && max_tokens === undefined
      ? {}
      : {
          few_shot: {
            ...(examples === undefined ? {} : { examples }),
            ...(max_tokens === undefined ? {} : { max_tokens })
          }
        }),
    ...(timeout_seconds === undefined ? {} : { timeout_seconds }),
    ...(input_per_million === undefined && output_per_million === undefined
      ? {}
      : {
          price: { input_per_million: input_per_million ?? 0, output_per_million: output_per_million ?? 0 }
        })
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
  const hasNewKey = provider.kind === "openai" && provider.api_key !== undefined
  return {
    ...(name === task.name ? {} : { name }),
    ...(draft.instructions === task.instructions ? {} : { instructions: draft.instructions }),
    ...(jsonEquals(input_schema, task.input_schema) ? {} : { input_schema }),
    ...(jsonEquals(answer_schema, task.answer_schema) ? {} : { answer_schema }),
    ...(draft.self_review === task.self_review ? {} : { self_review: draft.self_review }),
    ...(Math.abs(review_share - task.review_share) < 1e-9 ? {} : { review_share }),
    ...(!hasNewKey && jsonEquals(withProviderDefaults(provider), task.provider) ? {} : { provider })
  }
}
