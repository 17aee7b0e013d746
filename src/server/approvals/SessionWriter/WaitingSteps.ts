import { LruCache } from "../../concurrency/LruCache.ts"
import type { StepKey } from "./findSavedSteps.ts"

/** Steps that one replica remembers, and the length of their keys in all. */
const MAX_STEPS = 20_000
const MAX_TEXT = 2 * 1024 * 1024

/**
 * Steps that have waited for an approval by a response of this replica. Their agents repeat the request until it is decided, and such a
 * request is read first instead of being prepared as a new step. A hint: the read shows whether the session still has the step.
 */
export const makeWaitingSteps = () => {
  const seen = new LruCache<true>({ entries: MAX_STEPS, weight: MAX_TEXT })
  return {
    add: (key: StepKey): void => seen.set(keyOf(key), true, keyOf(key).length),
    has: (key: StepKey): boolean => seen.get(keyOf(key)) === true
  }
}

const keyOf = ({ org_id, session_id, step_id }: StepKey): string => `${org_id} ${session_id} ${step_id}`
