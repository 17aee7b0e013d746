import { Effect, Schema } from "effect"
import { Judge } from "../../domain/tasks/Judge.ts"
import { OpenAiProvider, Provider } from "../../domain/tasks/Provider.ts"

/** A member that stored rows may lack. */
const orElse = <S extends Schema.Constraint>(member: S, value: S["Encoded"]) =>
  Schema.withDecodingDefault<S>(Effect.succeed(value))(member)

const { fields } = OpenAiProvider

/** A provider that a version without these settings stored. It acted as if they were off. */
const OlderOpenAiProvider = Schema.Struct({
  ...fields,
  top_p: orElse(fields.top_p, null),
  seed: orElse(fields.seed, null),
  max_tokens: orElse(fields.max_tokens, null),
  reasoning_effort: orElse(fields.reasoning_effort, null),
  few_shot: orElse(fields.few_shot, { examples: 0, max_tokens: 4_000 }),
  send_traceparent: orElse(fields.send_traceparent, false),
  azure_api_version: orElse(fields.azure_api_version, null)
})

/**
 * A provider as a row has it. A migration cannot add the settings that older versions lack: during a rolling upgrade, replicas of an older
 * version still store providers without them after the migration. The complete kinds come first, because they decode faster.
 */
export const StoredProvider = Schema.Union([...Provider.members, OlderOpenAiProvider])

/** A judge as a row has it. */
export const StoredJudge = Schema.Struct({ ...Judge.fields, provider: StoredProvider })
