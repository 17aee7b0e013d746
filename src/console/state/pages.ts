/** Lists that come page by page. */
import { Effect, Option, Stream } from "effect"
import { Atom } from "effect/reactivity"

/** All items so far of a list that the service gives by pages; writing to it asks for the next page. */
export const pagesOf = <Noun extends string, Item, Cursor, E>(
  load: (
    cursor: Cursor | undefined
  ) => Effect.Effect<
    { readonly [N in Noun]: ReadonlyArray<Item> } & { readonly next_cursor: Cursor | null },
    E
  >,
  noun: Noun
): PagesAtom<Item, E> =>
  Atom.pull(
    Stream.paginate(undefined as Cursor | undefined, (cursor) =>
      Effect.map(load(cursor), (page) => [page[noun], Option.fromNullOr(page.next_cursor)] as const)
    )
  )

export type PagesAtom<Item, E> = Atom.Writable<Atom.PullResult<Item, E>, void>
