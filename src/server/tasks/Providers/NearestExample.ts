import { Array as Arr, Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { type ExamplesProvider, noUsage } from "../../../domain/tasks/Provider.ts"
import { findNearest } from "../Datasets/findNearest.ts"
import { findVersion } from "../Datasets/versionRows.ts"
import { NoAnswer, type ProviderAnswer, type ProviderRequest } from "./ProviderRequest.ts"

/**
 * Answers with the nearest example of the release's dataset: the one with this very input, else the one whose words overlap most.
 * The same input and version always have the same answer, whatever versions come after it.
 */
export class NearestExample extends Context.Service<
  NearestExample,
  {
    readonly answer: (request: ProviderRequest<ExamplesProvider>) => Effect.Effect<ProviderAnswer, NoAnswer>
  }
>()("countersign/server/tasks/Providers/NearestExample") {
  static readonly layer = Layer.effect(
    NearestExample,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return NearestExample.of({
        answer: Effect.fn("NearestExample.answer")(function* ({ answer, dataset_id, input, org_id }) {
          if (dataset_id === null) {
            return yield* none("The release has no dataset to take an answer from: make its first version")
          }
          const version = Option.getOrThrow(yield* Effect.orDie(findVersion(sql, org_id, dataset_id)))
          const nearest = yield* Effect.orDie(findNearest(sql, org_id, version, input))
          if (Option.isNone(nearest)) return yield* none("The release's dataset has no example")
          const faults = answer.shape.check(nearest.value.answer)
          if (Arr.isReadonlyArrayNonEmpty(faults)) {
            return yield* none("The nearest example's answer does not fit the task's answer shape")
          }
          return { answer: nearest.value.answer, usage: noUsage, calls: [] }
        })
      })
    })
  )
}

const none = (detail: string) => new NoAnswer({ detail, usage: noUsage, calls: [] })
