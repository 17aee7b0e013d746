import { Effect } from "effect"

/** Candidates of one query: more than there are replicas that claim at the same moment. */
export const MAX_CANDIDATES = 16

/**
 * Claims work of any organization for one replica. A query without locks finds candidates over all organizations; `claim` locks one row of
 * one organization, skipping it if another replica has locked it, and checks again that it is due. Returns the first claim that succeeds.
 */
export const claimFirst = Effect.fnUntraced(function* <Candidate, A, E, R>(
  candidates: Effect.Effect<ReadonlyArray<Candidate>, E, R>,
  claim: (candidate: Candidate) => Effect.Effect<A | undefined, E, R>
) {
  for (const candidate of yield* candidates) {
    const claimed = yield* claim(candidate)
    if (claimed !== undefined) return claimed
  }
  return undefined
})
