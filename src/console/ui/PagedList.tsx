import { Effect, Option } from "effect"
import { AsyncResult } from "effect/reactivity"
import { type ReactNode, useEffect, useEffectEvent, useState } from "react"
import { loadedPages, rememberPages, scrollToStart } from "../app/place.ts"
import { refresh, registry, useAtomValue } from "../state/atoms.ts"
import { hasMorePages, loadedItems, type PagedAtom, readFirstPage } from "../state/pagedAtom.ts"
import { REFRESH_INTERVAL_MS } from "../state/useRefreshing.ts"
import { Button } from "./Button.tsx"
import { failureOfCause } from "./Failure.ts"
import { FailureNotice } from "./FailureNotice.tsx"
import { Skeleton } from "./Skeleton.tsx"

/**
 * A paginated list: the items loaded so far, and a button that loads the next page. Back and a reload load as many pages as there were.
 *
 * With `itemId`, the list keeps itself current: at its start it is read again every few seconds; further down, a button says how many items
 * are new.
 */
export const PagedList = <Item, E>({
  atom,
  children,
  itemId
}: {
  readonly atom: PagedAtom<Item, E>
  readonly itemId?: (item: Item) => string
  /** `hasMore`: more items may follow. */
  readonly children: (items: ReadonlyArray<Item>, hasMore: boolean) => ReactNode
}) => {
  const result = useAtomValue(atom)
  const value = Option.getOrUndefined(AsyncResult.value(result))
  const cause = Option.getOrUndefined(AsyncResult.cause(result))
  const failure = cause === undefined ? undefined : failureOfCause(cause)
  const pages = value?.items.length ?? 0
  const hasMore = hasMorePages(result)
  const [wanted] = useState(loadedPages)
  const isRestoring = hasMore && pages < wanted && failure === undefined
  useEffect(() => {
    if (isRestoring && !result.waiting) registry.set(atom, undefined)
  }, [atom, isRestoring, result.waiting])
  if (value === undefined && failure === undefined) return <Skeleton />
  const items = loadedItems(result)
  return (
    <>
      <FailureNotice failure={failure}>
        <Button small onClick={() => refresh(atom)}>
          Try again
        </Button>
      </FailureNotice>
      {itemId === undefined || value === undefined || isRestoring ? null : (
        <NewItems atom={atom} pages={pages} items={items} itemId={itemId} />
      )}
      {value === undefined ? null : children(items, hasMore)}
      {!hasMore ? null : (
        <div className="more">
          <Button
            small
            pending={result.waiting}
            onClick={() => {
              rememberPages(pages + 1)
              registry.set(atom, undefined)
            }}
          >
            Load more
          </Button>
        </div>
      )}
    </>
  )
}

/** How far a list may be scrolled down to count as being at its start, in pixels. */
const START_PX = 120

export const isAtStart = (): boolean => (document.querySelector("#content")?.scrollTop ?? 0) < START_PX

/** Keeps a list current: reads it again at its start, else says how many items are new. */
const NewItems = <Item, E>({
  atom,
  itemId,
  items,
  pages
}: {
  readonly atom: PagedAtom<Item, E>
  readonly items: ReadonlyArray<Item>
  readonly itemId: (item: Item) => string
  readonly pages: number
}) => {
  const [found, setFound] = useState({ atom, count: 0 })
  const count = found.atom === atom ? found.count : 0
  const look = useEffectEvent(() => {
    if (document.hidden) return
    if (pages === 1 && isAtStart()) {
      setFound({ atom, count: 0 })
      refresh(atom)
      return
    }
    const known = new Set(items.map(itemId))
    // The next look may succeed.
    void Effect.runPromise(
      Effect.match(readFirstPage(atom), {
        onFailure: () => undefined,
        onSuccess: (first) =>
          setFound({ atom, count: first.filter((item) => !known.has(itemId(item))).length })
      })
    )
  })
  useEffect(() => {
    const timer = setInterval(() => look(), REFRESH_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [])
  return (
    <div className="new-items" role="status">
      {count === 0 ? null : (
        <Button
          small
          onClick={() => {
            setFound({ atom, count: 0 })
            rememberPages(1)
            refresh(atom)
            scrollToStart()
          }}
        >
          {count} new <span aria-hidden="true">↑</span>
        </Button>
      )}
    </div>
  )
}
