import type { Redacted } from "effect"
import type { SchemaFault } from "../../../domain/tasks/CompiledSchema.ts"
import type { JsonObject } from "../../../domain/tasks/Dataset.ts"
import type { ModelProvider, Usage } from "../../../domain/tasks/Provider.ts"
import type { JsonSchema } from "../../../domain/tasks/Task.ts"
import type { ModelResponse } from "../../../domain/telemetry/SpanConventions.ts"
import type { PromptMessage } from "./ProviderRequest.ts"

/** Maximum content parts of one answer: reading them takes about 10 ms. */
export const MAX_CONTENT_PARTS = 10_000

/** The request to a model: the instructions, examples as earlier turns, and the input. */
export interface Conversation {
  readonly instructions: string
  /** Nearest first. */
  readonly examples: ReadonlyArray<{ readonly input: JsonObject; readonly answer: JsonObject }>
  readonly input: JsonObject
  /** The answer schema. */
  readonly schema: JsonSchema
  /** The model's answer that does not match the schema, and its faults, if the model is asked to repair it. */
  readonly repair?: { readonly answer: string; readonly faults: ReadonlyArray<SchemaFault> }
}

/** An HTTP request without the headers that all APIs have. */
export interface ModelRequest {
  /** The messages for spans with content. They never quote an invalid answer. */
  readonly messages: ReadonlyArray<PromptMessage>
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A model's answer in a response. */
export interface ParsedCompletion {
  readonly usage: Usage
  readonly response: ModelResponse
  /** The text of the answer, or the input of the tool by which the model answers, as it was parsed. */
  readonly content: string | { readonly input: unknown }
  /** Why the content is not a usable answer; null if it is one. */
  readonly stopped: "refused" | "truncated" | null
}

/** A response: an answer, or an error that the server reports in a response with the status 200. */
export type ParsedResponse =
  | { readonly _tag: "Completion"; readonly completion: ParsedCompletion }
  | { readonly _tag: "Error"; readonly status: number; readonly usage: Usage }

/** The API of a kind of model server. */
export interface ModelApi<P extends ModelProvider> {
  /** The API's name of a response, such as "chat completion". */
  readonly responseName: string
  readonly request: (
    provider: P,
    conversation: Conversation,
    api_key: Redacted.Redacted | undefined
  ) => ModelRequest
  /** Parses the body of a response with a 2xx status, within the limits of JSON; `undefined` if it is none of this API. */
  readonly parse: (body: string) => ParsedResponse | undefined
}
