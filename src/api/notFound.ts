import { Effect } from "effect"
import { NotFound } from "./Problems.ts"

/**
 * The 404 for an id that does not name a `noun` of the caller's organization. Other organizations' ids get the same answer, so that it
 * confirms nothing about them.
 */
export const notFound = (noun: string): Effect.Effect<never, NotFound> =>
  Effect.fail(new NotFound({ detail: `No such ${noun} in this organization.` }))
