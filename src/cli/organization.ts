/** The organization that the first admin key belongs to, and that commands mean where none is named. */
export const DEFAULT_ORGANIZATION = "default"
