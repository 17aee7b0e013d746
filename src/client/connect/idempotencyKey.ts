import { v4 } from "uuid"

/**
 * A random key by which the service recognizes a repeated request. Undefined in Node 18, which has no random bytes without an import: requests
 * without a key are not repeated.
 */
export const newIdempotencyKey = (): string | undefined => ("crypto" in globalThis ? v4() : undefined)
