/** The console's playground: one input, answered by a release or by a task's working copy, without a run in the log. */
import { ByteSize, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { DatasetId, ReleaseId, TaskId } from "../../domain/Ids.ts"
import { JsonObject } from "../../domain/tasks/Dataset.ts"
import { Provider, Usage } from "../../domain/tasks/Provider.ts"
import { UsedExample } from "../../domain/tasks/Run.ts"
import { Authentication, requires } from "../Authorization.ts"
import { BodyLimit, RequestBody } from "../Middleware.ts"
import { InvalidInput, NotFound, RateLimited } from "../Problems.ts"

/** Inputs of one organization that one replica tries at the same time. */
export const MAX_CONCURRENT_TRIES = 4

/** The most characters of a message of a prompt that are returned. */
export const MAX_MESSAGE_TEXT = 20_000

export const PlaygroundRequest = Schema.Struct({
  input: JsonObject,
  /** The release that answers. Absent: the working copy. */
  release_id: Schema.optionalKey(ReleaseId),
  /** The dataset version that it uses; null: none. Absent: that of the release; of the working copy, the newest one. */
  dataset_id: Schema.optionalKey(Schema.NullOr(DatasetId))
})
export type PlaygroundRequest = typeof PlaygroundRequest.Type

/** An example that the answer was made from. */
export const RecalledExample = Schema.Struct({
  ...UsedExample.fields,
  /** Null if it is too large to be shown, was deleted meanwhile, or the key lacks the scope `datasets.read`. */
  content: Schema.NullOr(Schema.Struct({ input: JsonObject, answer: JsonObject }))
})

export const PromptMessage = Schema.Struct({
  role: Schema.String,
  text: Schema.String,
  /** Characters that follow `text`. */
  omitted: Schema.Int
})

export const PlaygroundAnswer = Schema.Struct({
  provider: Provider,
  dataset_version: Schema.NullOr(Schema.Int),
  answer: Schema.NullOr(JsonObject),
  /** Why there is no answer: a sentence of this service, without words of the model's server. */
  failure: Schema.NullOr(Schema.String),
  examples: Schema.Array(RecalledExample),
  /** The messages of the first call to the model. Null without a call, or without the scope `datasets.read`, because they contain examples. */
  prompt: Schema.NullOr(Schema.Array(PromptMessage)),
  /** Calls to the model, retries and the repair of an invalid answer included. */
  calls: Schema.Int,
  usage: Usage,
  /** In the currency of the provider's price. Null without a price, or without a count of tokens. */
  cost: Schema.NullOr(Schema.Finite),
  duration_ms: Schema.Int
}).annotate({ identifier: "PlaygroundAnswer" })
export type PlaygroundAnswer = typeof PlaygroundAnswer.Type

/** The playground. It needs the scope of comparisons, because it calls models as they do. */
export class ConsolePlaygroundApi extends HttpApiGroup.make("playground")
  .add(
    HttpApiEndpoint.post("answer", "/:id", {
      params: { id: TaskId },
      payload: PlaygroundRequest,
      success: PlaygroundAnswer,
      error: [NotFound, InvalidInput, RateLimited]
    })
      .middleware(requires("tasks.write"))
      .annotate(BodyLimit, ByteSize.mebibytes(1))
  )
  .prefix("/console/playground")
  .middleware(RequestBody)
  .middleware(Authentication) {}
