/** An error in words, for logs and messages. */
export const describe = (error: unknown): string => (error instanceof Error ? error.message : String(error))
