import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { noHoldOut } from "../../../domain/tasks/HoldOut.ts"
import { type ExamplesProvider, noUsage } from "../../../domain/tasks/Provider.ts"
import { findNearest } from "../Datasets/findNearest.ts"
import { NoAnswer, type ProviderAnswer, type ProviderRequest } from "./ProviderRequest.ts"
import { requireVersion } from "./requireVersion.ts"

/**
 * Answers with the nearest example of the release's dataset version: the one with exactly this input, else the one with the highest
 * similarity, unless none has anything in common with the input. The same input and version always get the same answer, whatever versions are created later.
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
        answer: Effect.fn("NearestExample.answer")(function* ({
          answer,
          dataset_id,
          holdOut = noHoldOut,
          input,
          org_id,
          provider: { min_score }
        }) {
          if (dataset_id === null) {
            return yield* noAnswer("The release has no dataset. Create the task's first dataset version.")
          }
          const version = yield* requireVersion(sql, org_id, dataset_id)
          const [nearest] = yield* Effect.orDie(findNearest(sql, org_id, version, input, { k: 1, holdOut }))
          if (nearest === undefined) {
            return yield* noAnswer(
              holdOut.kind === "none"
                ? "The release's dataset has no examples."
                : "The release's dataset has no examples besides those that the comparison holds out."
            )
          }
          const { id, score } = nearest
          if (score === 0) {
            return yield* noAnswer(
              "No example of the release's dataset has anything in common with the input.",
              "no_near_example"
            )
          }
          if (score < min_score) {
            return yield* noAnswer(
              `The nearest example has the score ${score}, and the release's provider answers from ${min_score}.`,
              "no_near_example"
            )
          }
          if (answer.compiled.check(nearest.answer).length > 0) {
            return yield* noAnswer("The nearest example's answer does not match the task's answer schema.")
          }
          return { answer: nearest.answer, usage: noUsage, calls: [], examples: [{ id, score }] }
        })
      })
    })
  )
}

const noAnswer = (detail: string, reason: NoAnswer["reason"] = "no_example") =>
  new NoAnswer({ reason, detail, usage: noUsage, calls: [], examples: [] })
