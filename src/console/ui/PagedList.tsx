import { Option } from "effect"
import { AsyncResult } from "effect/reactivity"
import type { ReactNode } from "react"
import { refresh, registry, useAtomValue } from "../state/atoms.ts"
import type { PagedAtom } from "../state/pagedAtom.ts"
import { Button } from "./Button.tsx"
import { failureOfCause } from "./Failure.ts"
import { FailureNotice } from "./FailureNotice.tsx"
import { Skeleton } from "./Skeleton.tsx"

/** A paginated list: the items loaded so far, and a button that loads the next page. */
export const PagedList = <Item, E>({
  atom,
  children
}: {
  readonly atom: PagedAtom<Item, E>
  readonly children: (items: ReadonlyArray<Item>) => ReactNode
}) => {
  const result = useAtomValue(atom)
  const value = Option.getOrUndefined(AsyncResult.value(result))
  const cause = Option.getOrUndefined(AsyncResult.cause(result))
  const failure = cause === undefined ? undefined : failureOfCause(cause)
  if (value === undefined && failure === undefined) return <Skeleton />
  return (
    <>
      <FailureNotice failure={failure}>
        <Button small onClick={() => refresh(atom)}>
          Try again
        </Button>
      </FailureNotice>
      {value === undefined ? null : children(value.items.flatMap(({ items }) => items))}
      {value?.items.at(-1)?.more !== true ? null : (
        <div className="more">
          <Button small pending={result.waiting} onClick={() => registry.set(atom, undefined)}>
            Load more
          </Button>
        </div>
      )}
    </>
  )
}
