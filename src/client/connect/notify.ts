/**
 * Calls a callback of the program that only informs. It cannot fail: an error that it throws, or that its promise rejects with, is printed. Not
 * awaited, because a slow log must not delay the caller.
 */
export const notify = <A>(name: string, callback: ((value: A) => unknown) | undefined, value: A): void => {
  const call = async () => callback?.(value)
  call().catch((error: unknown) => {
    // oxlint-disable-next-line eslint/no-console -- the program's own log or notification is what failed
    console.error(`countersign: ${name} failed:`, error)
  })
}
