import { Option } from "effect"
import { AsyncResult, type Atom } from "effect/reactivity"
import type { ReactNode } from "react"
import { Link, usePath } from "../app/router.tsx"
import { matchRoute } from "../app/routes.ts"
import { refresh, useAtomValue } from "../state/atoms.ts"
import { Button } from "./Button.tsx"
import { failureOfCause } from "./Failure.ts"
import { FailureNotice } from "./FailureNotice.tsx"
import { Skeleton } from "./Skeleton.tsx"

/** Renders the result of an atom: a skeleton while it loads, an error with a retry button, or the value. */
export const AsyncContent = <A, E>({
  atom,
  children,
  notFound
}: {
  /** "Try again" refreshes it. */
  readonly atom: Atom.Atom<AsyncResult.AsyncResult<A, E>>
  /** The content instead of the error if the record does not exist. */
  readonly notFound?: ReactNode
  readonly children: (value: A) => ReactNode
}) => {
  const result = useAtomValue(atom)
  const value = AsyncResult.value(result)
  const cause = AsyncResult.cause(result)
  const failure = Option.isSome(cause) ? failureOfCause(cause.value) : undefined
  if (Option.isNone(value) && failure === undefined) return <Skeleton />
  if (notFound !== undefined && failure?.code === "NOT_FOUND") return notFound
  return (
    <>
      <FailureNotice failure={failure}>
        {failure?.code === "NOT_FOUND" ? (
          <BackToList />
        ) : (
          <Button small data-fold="" onClick={() => refresh(atom)}>
            Try again
          </Button>
        )}
      </FailureNotice>
      {Option.isSome(value) ? children(value.value) : null}
    </>
  )
}

/** A way on from a page whose subject does not exist. */
const BackToList = () => {
  const path = usePath()
  const list = matchRoute(path)?.route.navParent ?? `/${path.split("/")[1] ?? ""}`
  return list === path ? null : (
    <Link className="button small" to={list}>
      Back to the list
    </Link>
  )
}
