/** Choices that are kept in the browser, such as a theme. Without access to the storage, they last until the page is reloaded. */
const PREFIX = "countersign."

const attempt = <A>(use: () => A): A | undefined => {
  try {
    return use()
  } catch {
    return undefined
  }
}

/** The stored choice; null if there is none or the storage is not accessible. */
export const readPreference = (name: string): string | null =>
  attempt(() => localStorage.getItem(PREFIX + name)) ?? null

export const writePreference = (name: string, value: string): void => {
  attempt(() => localStorage.setItem(PREFIX + name, value))
}
