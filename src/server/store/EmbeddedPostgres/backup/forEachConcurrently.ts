/** Files that are copied at a time: most are small, and each waits for the disk. */
const CONCURRENCY = 8

/** Runs a function for each item, some at a time, and waits for all that were begun. Fails with the first failure. */
export const forEachConcurrently = async <A>(
  items: ReadonlyArray<A>,
  run: (item: A) => Promise<void>
): Promise<void> => {
  let next = 0
  let isFailed = false
  const work = async (): Promise<void> => {
    for (let item = items[next++]; item !== undefined && !isFailed; item = items[next++]) {
      try {
        await run(item)
      } catch (cause) {
        isFailed = true
        throw cause
      }
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: CONCURRENCY }, work))
  for (const end of ends) if (end.status === "rejected") throw end.reason
}
