import { Effect, Redacted } from "effect"
import { addressUrl, type Settings } from "../server/config/Settings.ts"

/** Longest wait for the metrics, in milliseconds, and the most that is read of them. */
const METRICS_MILLIS = 5_000
const MAX_METRICS_LENGTH = 1_000_000

/** The metrics of the replica that these settings describe, as text. Fails if it does not answer. */
export const readMetrics = ({ host, port }: Pick<Settings, "host" | "port">, token: Redacted.Redacted) =>
  Effect.tryPromise(async () => {
    const local = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host
    const response = await fetch(`${addressUrl(local, port)}/metrics`, {
      headers: { authorization: `Bearer ${Redacted.value(token)}` },
      redirect: "error",
      signal: AbortSignal.timeout(METRICS_MILLIS)
    })
    if (!response.ok) throw new Error(`status ${response.status}`)
    return (await response.text()).slice(0, MAX_METRICS_LENGTH)
  })
