/** Lists that are loaded page by page. */
import { Effect, Option, Stream } from "effect"
import { AsyncResult, Atom } from "effect/reactivity"
import { registry, useAtomValue } from "./atoms.ts"

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
): PagedAtom<Item, E> => {
  const loadPage = (cursor: Cursor | undefined) =>
    Effect.map(load(cursor), (page) => ({
      items: page[noun],
      more: page.next_cursor !== null,
      next: Option.fromNullOr(page.next_cursor)
    }))
  const atom: PagedAtom<Item, E> = Atom.pull(
    Stream.paginate<Cursor | undefined, LoadedPage<Item>, E>(undefined, (cursor) =>
      Effect.map(loadPage(cursor), ({ items, more, next }) => [[{ items, more }], next])
    )
  )
  firstPages.set(
    atom,
    Effect.map(loadPage(undefined), ({ items }) => items)
  )
  return atom
}

const firstPages = new WeakMap<object, Effect.Effect<ReadonlyArray<unknown>, unknown>>()

/** Reads the first page of a list again, without changing the atom. */
export const readFirstPage = <Item, E>(
  atom: PagedAtom<Item, E>
): Effect.Effect<ReadonlyArray<Item>, unknown> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `pagedAtom` made both from one function
  (firstPages.get(atom) ?? Effect.succeed([])) as Effect.Effect<ReadonlyArray<Item>, unknown>

/** The items of the pages that are loaded. */
export const loadedItems = <Item, E>(result: Atom.PullResult<LoadedPage<Item>, E>): ReadonlyArray<Item> =>
  Option.match(AsyncResult.value(result), {
    onNone: () => [],
    onSome: (pages) => pages.items.flatMap(({ items }) => items)
  })

/** Whether another page follows those that are loaded. */
export const hasMorePages = <Item, E>(result: Atom.PullResult<LoadedPage<Item>, E>): boolean =>
  Option.exists(AsyncResult.value(result), (pages) => pages.items.at(-1)?.more === true)

/** The items of a list that are loaded, in a component. */
export const useLoadedItems = <Item, E>(atom: PagedAtom<Item, E>): ReadonlyArray<Item> =>
  loadedItems(useAtomValue(atom))

/** Loads pages of a list until it has so many items, or all there are. Returns them; after a failure, those before it. */
export const loadAtLeast = async <Item, E>(
  atom: PagedAtom<Item, E>,
  count: number
): Promise<ReadonlyArray<Item>> => {
  for (;;) {
    const result = registry.get(atom)
    const items = loadedItems(result)
    if (items.length >= count || !hasMorePages(result)) return items
    await new Promise<void>((resolve) => {
      const cancel = registry.subscribe(atom, ({ waiting }) => {
        if (waiting) return
        cancel()
        resolve()
      })
      registry.set(atom, undefined)
    })
    if (AsyncResult.isFailure(registry.get(atom))) return items
  }
}
