/**
 * Calls a callback that only informs, such as one that logs. It cannot fail: neither an error that it throws nor a promise that it rejects
 * ends the process or changes the response to the sender. Not awaited, because a slow log must not delay the response.
 */
export const notify = <A>(callback: ((value: A) => unknown) | undefined, value: A): void => {
  const call = async () => callback?.(value)
  call().catch(() => undefined)
}
