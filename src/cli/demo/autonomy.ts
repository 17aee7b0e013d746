import { Console, Effect } from "effect"
import { playAutonomy } from "./playAutonomy.ts"
import { startReviewerModel } from "./reviewerModel.ts"
import { startService } from "./service.ts"

/** Plays the life of a reviewer model against a service and a model server of its own. */
export const autonomy = Effect.fnUntraced(function* () {
  yield* Console.log("Starting a service and a model server …")
  const model = yield* startReviewerModel
  const service = yield* startService({ COUNTERSIGN_PROVIDER_ALLOW: new URL(model.url).host })
  yield* playAutonomy(service, model)
}, Effect.scoped)
