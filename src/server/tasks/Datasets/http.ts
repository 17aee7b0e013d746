import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../../api/Api.ts"
import { DatasetPage, ExamplePage } from "../../../api/Datasets.ts"
import { jsonResponse } from "../../../api/jsonResponse.ts"
import { Datasets } from "../Datasets.ts"
import { TrainingExports } from "../TrainingExports.ts"

const respondDatasetPage = jsonResponse(DatasetPage)
const respondExamplePage = jsonResponse(ExamplePage)

/** The handlers of the `datasets` group. */
export const DatasetsHttp = HttpApiBuilder.group(
  Api,
  "datasets",
  Effect.fnUntraced(function* (handlers) {
    const datasets = yield* Datasets
    const training = yield* TrainingExports
    return handlers.handleAll({
      list: ({ params, query }) =>
        Effect.flatMap(datasets.list(params.id, query), ({ items, next_cursor }) =>
          respondDatasetPage({ datasets: items, next_cursor })
        ),
      create: ({ params, payload }) => datasets.create(params.id, payload),
      get: ({ params }) => datasets.get(params.id),
      remove: ({ params }) => datasets.remove(params.id),
      listExamples: ({ params, query }) =>
        Effect.flatMap(datasets.examples(params.id, query), ({ items, next_cursor }) =>
          respondExamplePage({ examples: items, next_cursor })
        ),
      export: ({ params }) => datasets.export(params.id),
      exportChats: ({ params, query }) => training.chats(params.id, query),
      exportPreferences: ({ params, query: { form = "openai", ...options } }) =>
        training.preferences(params.id, { ...options, form })
    })
  })
)
