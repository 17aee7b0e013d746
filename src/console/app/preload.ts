/** Loads code before it is needed. A failure is ignored here: the component that needs the code reports its own. */
export const preload = (load: () => Promise<unknown>): void => {
  load().catch(() => undefined)
}
