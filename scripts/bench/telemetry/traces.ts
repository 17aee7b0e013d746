/** The spans that both sides export: a model call with typical attributes. */
import type { Attributes } from "../../../src/domain/telemetry/Span.ts"

/** Attributes of a model call. */
export const attributesOf = (number: number) =>
  ({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-small",
    "gen_ai.output.type": "json",
    "gen_ai.usage.input_tokens": 1_000 + (number % 500),
    "gen_ai.usage.output_tokens": 100 + (number % 50),
    "gen_ai.conversation.id": `ses_0192f0c1a2b37c4d8e5f60718293a${(number % 1_000).toString().padStart(3, "0")}`,
    "svc.task.id": "tsk_0192f0c1a2b37c4d8e5f60718293a4b5",
    "svc.release.id": "rel_0192f0c1a2b37c4d8e5f60718293a4b5",
    "svc.run.source": "provider"
  }) satisfies Attributes
