/** Paths that monitoring requests every few seconds. They make no spans, and a log line only if they fail. */
export const probePaths = ["/healthz", "/readyz", "/metrics"] as const
