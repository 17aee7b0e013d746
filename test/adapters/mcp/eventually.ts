/** Repeats a check until it holds, and returns its result. Fails with its last error after a minute. */
export const eventually = async <A>(check: () => A | Promise<A>): Promise<A> => {
  for (const until = performance.now() + 60_000; ;) {
    try {
      return await check()
    } catch (error) {
      if (performance.now() > until) throw error
      await new Promise((done) => setTimeout(done, 20))
    }
  }
}
