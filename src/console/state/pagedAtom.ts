/** Lists that are loaded page by page. */
import { Effect, Option, Stream } from "effect"
import { Atom } from "effect/reactivity"

/** One page of a list. `more`: another page follows. */
export interface LoadedPage<Item> {
  readonly items: ReadonlyArray<Item>
  readonly more: boolean
}

/** The loaded pages of a list. Writing to the atom loads the next page. */
export type PagedAtom<Item, E> = Atom.Writable<Atom.PullResult<LoadedPage<Item>, E>, void>

/** An atom of a cursor-paginated list operation; `noun` is the response's member that holds the items. */
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
