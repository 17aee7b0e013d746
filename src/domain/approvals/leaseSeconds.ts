/** The length of a claim's lease in seconds. In a module without `effect`, which `connect` does not load. */
export const LEASE_SECONDS = { minimum: 1, maximum: 3_600 }
export const DEFAULT_LEASE_SECONDS = 300
