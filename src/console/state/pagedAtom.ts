/** Lists that come page by page. */
import { Effect, Option, Stream } from "effect"
import { Atom } from "effect/reactivity"

/** One page, and whether there is another after it. */
export interface LoadedPage<Item> {
  readonly items: ReadonlyArray<Item>
  readonly more: boolean
}

/** A list so far, page by page; writing to it asks for the next page. */
export type PagedAtom<Item, E> = Atom.Writable<Atom.PullResult<LoadedPage<Item>, E>, void>

/** A list that the service gives by pages. */
export const pagedAtom = <Noun extends string, Item, Cursor, E>(
  load: (
    cursor: Cursor | undefined
  ) => Effect.Effect<
    { readonly [N in Noun]: ReadonlyArray<Item> } & { readonly next_cursor: Cursor | null },
    E
  >,
  noun: Noun
): PagedAtom<Item, E> =>
  Atom.pull(
    Stream.paginate<Cursor | undefined, LoadedPage<Item>, E>(undefined, (cursor) =>
      Effect.map(load(cursor), (page) => [
        [{ items: page[noun], more: page.next_cursor !== null }],
        Option.fromNullOr(page.next_cursor)
      ])
    )
  )
