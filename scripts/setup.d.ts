export const setup: () => string | undefined
