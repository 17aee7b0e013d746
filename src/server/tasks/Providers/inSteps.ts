/** Work on a model's response in steps of some milliseconds, between which other requests get a turn: a response may have 4 MiB. */
import { Effect, type Result } from "effect"
import { type JsonFault, type ScanOptions, startScan } from "../../../domain/json/StrictJson.ts"
import { nextTurnOrYield } from "../../admission/LoopTurns.ts"

/** Work that pauses at each `yield`. */
export type Steps<A> = Generator<undefined, A>

/** Characters of a text that takes a few milliseconds in one step. */
const SHORT = 64 * 1024

/** Tokens that are scanned in one step. */
const TOKENS_PER_STEP = 16 * 1024

/** Runs work on a text of this length. */
export const runInSteps = <A>(length: number, steps: Steps<A>): Effect.Effect<A> =>
  Effect.gen(function* () {
    for (;;) {
      const step = steps.next()
      if (step.done === true) return step.value
      if (length > SHORT) yield* nextTurnOrYield
    }
  })

/** Scans a text as `scan` does. */
export function* scanInSteps(text: string, options: ScanOptions): Steps<Result.Result<void, JsonFault>> {
  const scan = startScan(text, options)
  for (;;) {
    const scanned = scan.advance(TOKENS_PER_STEP)
    if (scanned !== undefined) return scanned
    yield
  }
}
