import { Effect } from "effect"

/** Streams of this replica that outlast their request, by what they depend on, such as a console session or an API key. */
export const makeEndWatch = <Ref, Id>(idOf: (ref: Ref) => Id) => {
  const watched = new Map<Id, { readonly ref: Ref; readonly waiters: Set<() => void> }>()
  return {
    /** Completes when `ref` is ended. */
    awaitEnd: (ref: Ref): Effect.Effect<void> =>
      Effect.callback((resume) => {
        const id = idOf(ref)
        const { waiters } = watched.get(id) ?? { waiters: new Set<() => void>() }
        watched.set(id, { ref, waiters })
        const waiter = () => resume(Effect.void)
        waiters.add(waiter)
        return Effect.sync(() => {
          waiters.delete(waiter)
          if (waiters.size === 0 && watched.get(id)?.waiters === waiters) watched.delete(id)
        })
      }),
    end: (id: Id): void => {
      const waiters = watched.get(id)?.waiters
      watched.delete(id)
      waiters?.forEach((resume) => resume())
    },
    /** What is waited for. */
    refs: (): ReadonlyArray<Ref> => [...watched.values()].map(({ ref }) => ref)
  }
}
