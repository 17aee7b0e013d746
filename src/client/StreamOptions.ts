import type { Duration } from "./connect/Duration.ts"

/** Options of a session's event stream. */
export interface StreamOptions {
  /** The number of the last received event. Default: start at the oldest retained event. */
  readonly after?: number
  /** Delay before reconnecting. Default: as the service asks, 3 seconds. */
  readonly reconnect?: Duration
}
