/** A task as it is filled in, before it is sent: what is written by hand is text until then. */
import { Redacted, Result } from "effect"
import type { NewTask, TaskChange } from "../../../api/Tasks.ts"
import {
  withProviderDefaults,
  type NewProvider,
  type OpenAiProvider
} from "../../../domain/tasks/Provider.ts"
import type { Task } from "../../../domain/tasks/Task.ts"
import { jsonEquals } from "../../ui/Diff.tsx"
import { parseJsonObject, formatJson } from "../../ui/jsonText.ts"

/** Who answers, as it is filled in. A number that is left empty is the service's default. */
export interface ProviderDraft {
  readonly kind: NewProvider["kind"]
  readonly base_url: string
  readonly model: string
  /** Empty: the key that the task has for the address, if it has one. */
  readonly api_key: string
  readonly structured_output: OpenAiProvider["structured_output"]
  readonly temperature: string
  readonly timeout_seconds: string
  readonly input_price: string
  readonly output_price: string
}

export interface TaskDraft {
  readonly name: string
  readonly instructions: string
  readonly input_schema: string
  readonly answer_schema: string
  readonly provider: ProviderDraft
}

const exampleProvider: ProviderDraft = {
  kind: "examples",
  base_url: "https://",
  model: "",
  api_key: "",
  structured_output: "json_schema",
  temperature: "",
  timeout_seconds: "",
  input_price: "",
  output_price: ""
}

/** A task that works as it stands, to be written over. */
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
  provider: exampleProvider
}

const numberText = (number: number | null | undefined): string =>
  number === null ? "" : String(number ?? "")

/** The working copy of a task, to be changed. */
export const toTaskDraft = ({
  answer_schema,
  input_schema,
  instructions,
  name,
  provider
}: Task): TaskDraft => ({
  name,
  instructions,
  input_schema: formatJson(input_schema),
  answer_schema: formatJson(answer_schema),
  provider:
    provider.kind === "examples"
      ? exampleProvider
      : {
          kind: "openai",
          base_url: provider.base_url,
          model: provider.model,
          api_key: "",
          structured_output: provider.structured_output,
          temperature: numberText(provider.temperature),
          timeout_seconds: numberText(provider.timeout_seconds),
          input_price: numberText(provider.price?.input_per_million),
          output_price: numberText(provider.price?.output_per_million)
        }
})

const parseNumber = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text))

const toProvider = (draft: ProviderDraft): NewProvider => {
  if (draft.kind === "examples") return { kind: "examples" }
  const temperature = parseNumber(draft.temperature)
  const timeout_seconds = parseNumber(draft.timeout_seconds)
  const input_per_million = parseNumber(draft.input_price)
  const output_per_million = parseNumber(draft.output_price)
  return {
    kind: "openai",
    base_url: draft.base_url.trim(),
    model: draft.model.trim(),
    structured_output: draft.structured_output,
    ...(draft.api_key === "" ? {} : { api_key: Redacted.make(draft.api_key.trim()) }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(timeout_seconds === undefined ? {} : { timeout_seconds }),
    ...(input_per_million === undefined && output_per_million === undefined
      ? {}
      : {
          price: { input_per_million: input_per_million ?? 0, output_per_million: output_per_million ?? 0 }
        })
  }
}

/** What is sent to make the task; undefined while a shape is no JSON object. */
export const toNewTask = (draft: TaskDraft): NewTask | undefined => {
  const inputs = parseJsonObject(draft.input_schema)
  const answers = parseJsonObject(draft.answer_schema)
  if (Result.isFailure(inputs) || Result.isFailure(answers)) return undefined
  return {
    name: draft.name.trim(),
    instructions: draft.instructions,
    input_schema: inputs.success,
    answer_schema: answers.success,
    provider: toProvider(draft.provider)
  }
}

/** What is sent to change the task: what differs, and so nothing where nothing does; undefined while a shape is no JSON object. */
export const toTaskChange = (task: Task, draft: TaskDraft): TaskChange | undefined => {
  const wanted = toNewTask(draft)
  if (wanted?.provider === undefined) return undefined
  const { answer_schema, input_schema, name, provider } = wanted
  const keyed = provider.kind === "openai" && provider.api_key !== undefined
  return {
    ...(name === task.name ? {} : { name }),
    ...(draft.instructions === task.instructions ? {} : { instructions: draft.instructions }),
    ...(jsonEquals(input_schema, task.input_schema) ? {} : { input_schema }),
    ...(jsonEquals(answer_schema, task.answer_schema) ? {} : { answer_schema }),
    ...(!keyed && jsonEquals(withProviderDefaults(provider), task.provider) ? {} : { provider })
  }
}
