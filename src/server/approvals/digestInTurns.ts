import { Effect } from "effect"
import type { DigestSlices } from "../../domain/approvals/StepDigest.ts"
import { nextTurn, nextTurnOrYield } from "../admission/LoopTurns.ts"

/**
 * Computes a digest in turns of the current request, if that is a large one. For a small one, it yields between the slices of large
 * arguments that were stored before. A digest of one slice, which nearly all are, does not wait.
 */
export const digestInTurns = Effect.fnUntraced(function* (begin: () => DigestSlices) {
  yield* nextTurn
  const slices = begin()
  let slice = slices.next()
  for (; slice.done !== true; slice = slices.next()) yield* nextTurnOrYield
  return slice.value
})
