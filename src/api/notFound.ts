import { Effect } from "effect"
import { NotFound } from "./Problems.ts"

/**
 * The 404 for an id that does not name a `noun` of the caller's organization. Other organizations' ids get the same answer, so that it
 * confirms nothing about them. `pointer` is the JSON pointer of the id, if the request's body contains it.
 */
export const notFound = (noun: string, pointer?: string): Effect.Effect<never, NotFound> =>
  Effect.fail(
    new NotFound({
      detail: `No such ${noun} in this organization.`,
      ...(pointer === undefined ? {} : { errors: [{ pointer, detail: `No such ${noun}` }] })
    })
  )
