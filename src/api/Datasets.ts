import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Deletion } from "../domain/deletion/Deletion.ts"
import { CreatedDataset, Dataset, Example, JsonObject } from "../domain/tasks/Dataset.ts"
import { ChatExample, PreferenceForm, PreferencePair } from "../domain/tasks/TrainingExample.ts"
import { DatasetId, ExampleId, ReleaseId, TaskId } from "../domain/Ids.ts"
import { Authentication, requires } from "./Authorization.ts"
import { describeLines, linesQuery } from "./describeLines.ts"
import { Idempotent, idempotencyHeaders, RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"
import {
  DatasetBaseChanged,
  DatasetBusy,
  DatasetInUse,
  InvalidInput,
  LimitReached,
  NotFound
} from "./Problems.ts"

export const NewDatasetExample = Schema.Struct({
  input: JsonObject.annotateKey({ description: "An input, valid against the task's input schema." }),
  answer: JsonObject.annotateKey({
    description: "The right answer to it, valid against the task's answer schema."
  })
}).annotate({ identifier: "NewDatasetExample", description: "An example to add." })

export const NewDataset = Schema.Struct({
  base_dataset_id: Schema.optionalKey(Schema.NullOr(DatasetId)).annotateKey({
    description: "The newest version of the task's dataset. Default null, for the first version."
  }),
  examples: Schema.optionalKey(Schema.Array(NewDatasetExample)).annotateKey({
    description:
      "Examples to add. An example with the same input as one of the base replaces it. Of several with the same input, the last one counts. Required without `remove` and `remove_inputs`."
  }),
  remove: Schema.optionalKey(Schema.Array(ExampleId)).annotateKey({
    description:
      "Examples of the base to leave out. Earlier versions keep them. An ID that the base does not have gets 422 `INVALID_INPUT`. Default none."
  }),
  remove_inputs: Schema.optionalKey(Schema.Array(JsonObject)).annotateKey({
    description:
      "Inputs whose examples to leave out, like `remove`. An input that the base does not have gets 422 `INVALID_INPUT`. Default none."
  })
}).annotate({ identifier: "NewDataset", description: "A dataset version to create." })
export type NewDataset = typeof NewDataset.Type

/** A page of versions of a dataset. */
export const DatasetPage = page("datasets", Dataset, DatasetId)

/** A page of examples of a dataset version. */
export const ExamplePage = page("examples", Example, ExampleId)

const promptRelease = Schema.optionalKey(ReleaseId).annotateKey({
  description: "The release whose instructions the prompts have. Default: the task's live release."
})

export class DatasetsApi extends HttpApiGroup.make("datasets")
  .add(
    HttpApiEndpoint.get("list", "/tasks/:id/datasets", {
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      query: pageQuery(DatasetId),
      success: DatasetPage,
      error: NotFound
    })
      .middleware(requires("datasets.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listDatasets",
          summary: "List dataset versions",
          description: "Lists the versions of a task's dataset, newest first."
        })
      ),
    HttpApiEndpoint.post("create", "/tasks/:id/datasets", {
      headers: idempotencyHeaders,
      params: { id: TaskId.annotateKey({ description: "The task's ID." }) },
      payload: NewDataset,
      success: CreatedDataset.pipe(HttpApiSchema.status(201)),
      error: [NotFound, InvalidInput, DatasetBaseChanged, DatasetBusy, LimitReached]
    })
      .middleware(Idempotent)
      .middleware(requires("datasets.write"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "createDataset",
          summary: "Create a dataset version",
          description:
            "Creates the task's first version, or the next one by adding examples to `base_dataset_id`, which must be the newest, or removing some. A first version is used by the task's first release immediately; a later one does not change the live release. Protected values are removed from the examples before they are stored; `redaction_warning` then names the fields."
        })
      ),
    HttpApiEndpoint.get("get", "/datasets/:id", {
      params: { id: DatasetId.annotateKey({ description: "The dataset version's ID." }) },
      success: Dataset,
      error: NotFound
    })
      .middleware(requires("datasets.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getDataset",
          summary: "Get a dataset version",
          description: "Returns one version: its number, size and digest."
        })
      ),
    HttpApiEndpoint.delete("remove", "/datasets/:id", {
      params: { id: DatasetId.annotateKey({ description: "The dataset version's ID." }) },
      success: Deletion.pipe(HttpApiSchema.status(202)),
      error: [NotFound, DatasetInUse, DatasetBusy]
    })
      .middleware(requires("data.delete"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "deleteDataset",
          summary: "Delete a dataset version",
          description:
            "Deletes one version of a dataset; the other versions keep their examples. From this response on, it gets 404; a background worker deletes the examples that no other version has, and the results of comparisons over it, and `GET /v1/deletions/:id` returns the progress. A version that the live release or a running comparison uses, or the newest version, gets 409 `DATASET_IN_USE`. An earlier release that used it can no longer be restored. It cannot be undone."
        })
      ),
    HttpApiEndpoint.get("listExamples", "/datasets/:id/examples", {
      params: { id: DatasetId.annotateKey({ description: "The dataset version's ID." }) },
      query: pageQuery(ExampleId),
      success: ExamplePage,
      error: NotFound
    })
      .middleware(requires("datasets.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listDatasetExamples",
          summary: "List the examples of a version",
          description:
            "Lists the examples of one version, newest first. A page of large examples can hold fewer than `limit`; continue until `next_cursor` is null."
        })
      ),
    HttpApiEndpoint.get("export", "/datasets/:id/export", {
      params: { id: DatasetId.annotateKey({ description: "The dataset version's ID." }) },
      query: linesQuery(ExampleId),
      // 8 MiB of numbers such as 1e20 take five times as much when written out.
      success: HttpApiSchema.StreamNdjson({ schema: Example, maxElementBytes: "64 MiB" }),
      error: NotFound
    })
      .middleware(requires("datasets.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "exportDataset",
          summary: "Export a dataset version",
          description: "Streams the whole version as JSON Lines, one example per line, newest first.",
          transform: describeLines("The examples.", { noun: "examples" })
        })
      ),
    HttpApiEndpoint.get("exportChats", "/datasets/:id/export/chats", {
      params: { id: DatasetId.annotateKey({ description: "The dataset version's ID." }) },
      query: { ...linesQuery(ExampleId), release_id: promptRelease },
      success: HttpApiSchema.StreamNdjson({ schema: ChatExample, maxElementBytes: "64 MiB" }),
      error: NotFound
    })
      .middleware(requires("datasets.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "exportDatasetChats",
          summary: "Export chats for fine-tuning",
          description:
            "Streams the whole version as JSON Lines for supervised fine-tuning of a chat model, newest first: the messages that a run of the release sends for the example's input, with the instructions and without other examples, and the right answer. Protected values are removed.",
          transform: describeLines("The chats.", { noun: "chats" })
        })
      ),
    HttpApiEndpoint.get("exportPreferences", "/datasets/:id/export/preferences", {
      params: { id: DatasetId.annotateKey({ description: "The dataset version's ID." }) },
      query: {
        ...linesQuery(ExampleId),
        release_id: promptRelease,
        form: Schema.optionalKey(PreferenceForm).annotateKey({
          description: "The form of the lines. Default `openai`."
        })
      },
      success: HttpApiSchema.StreamNdjson({ schema: PreferencePair, maxElementBytes: "64 MiB" }),
      error: NotFound
    })
      .middleware(requires("feedback.read"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "exportDatasetPreferences",
          summary: "Export preference pairs",
          description:
            "Streams the version's promoted corrections beside the answers that they correct, as JSON Lines for direct preference optimization (DPO), newest first. The prompts are those of exported chats. A correction of a run that failed, or that has been deleted, has no pair. Protected values are removed.",
          transform: describeLines("The pairs.", { noun: "pairs" })
        })
      )
  )
  .prefix("/v1")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Datasets",
      description: "A dataset holds examples of right answers to a task, in versions that never change."
    })
  ) {}
