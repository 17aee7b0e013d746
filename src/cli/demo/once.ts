import { Console, Effect } from "effect"
import { playOnce } from "./playOnce.ts"
import { startService } from "./service.ts"

/** Plays the crash of an agent against a service of its own. */
export const once = Effect.fnUntraced(function* () {
  yield* Console.log("Starting a service …")
  yield* playOnce(yield* startService({}))
}, Effect.scoped)
