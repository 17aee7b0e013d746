import { Console, Effect } from "effect"
import { startLearningModel } from "./learningModel.ts"
import { playLearning } from "./playLearning.ts"
import { startService } from "./service.ts"

/** Plays the learning loop against a service and a model server of its own. */
export const learning = Effect.fnUntraced(function* () {
  yield* Console.log("Starting a service and a model server …")
  const model = yield* startLearningModel
  const service = yield* startService({ COUNTERSIGN_PROVIDER_ALLOW: new URL(model.url).host })
  yield* playLearning(service, model.url)
}, Effect.scoped)
