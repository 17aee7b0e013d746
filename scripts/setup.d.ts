export const setup: (options?: { readonly withConsole?: boolean }) => string | undefined

export const generate: () => void

export const removeSourceMaps: (modules: string) => void
