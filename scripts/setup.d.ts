export const setup: (options?: { readonly withConsole?: boolean }) => string | undefined
