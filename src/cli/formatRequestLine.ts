import { type Logger, References } from "effect"
import { styleText } from "node:util"

/** The time of a line in the log for people, in this machine's time zone: `2026-11-24 20:31:02.123`. */
export const formatLogTime = (date: Date): string => {
  const padded = (number: number, digits = 2) => String(number).padStart(digits, "0")
  const day = `${date.getFullYear()}-${padded(date.getMonth() + 1)}-${padded(date.getDate())}`
  const time = `${padded(date.getHours())}:${padded(date.getMinutes())}:${padded(date.getSeconds())}`
  return `${day} ${time}.${padded(date.getMilliseconds(), 3)}`
}

/** The length of the longest name of a level that requests are logged at, and one more as in `WARN `. */
const LEVEL_WIDTH = 5

/**
 * A line of the request log for people, such as `2026-11-24 20:31:02.123 INFO  GET /v1/tasks 200 3 ms 512 B key_… org_… req_…`. Unknown
 * facts are left out. Undefined for any other line of the log.
 */
export const formatRequestLine = (
  { date, fiber, logLevel, message }: Logger.Options<unknown>,
  colors: boolean
): string | undefined => {
  const [text, ...others] = Array.isArray(message) ? message : [message]
  const { bytes, key_id, method, ms, org_id, request_id, route, sample_ratio, status, trace_id } =
    fiber.getRef(References.CurrentLogAnnotations)
  const isRequest = typeof method === "string" && typeof status === "number" && typeof ms === "number"
  if (!isRequest || route === undefined || typeof text !== "string" || others.length > 0) return undefined
  const color = status >= 500 ? "red" : status >= 400 || logLevel === "Warn" ? "yellow" : "cyan"
  return [
    formatLogTime(date),
    logLevel.toUpperCase().padEnd(LEVEL_WIDTH),
    colors ? styleText(["bold", color], text, { validateStream: false }) : text,
    `${ms} ms`,
    ...(typeof bytes === "number" ? [`${bytes} B`] : []),
    ...[key_id, org_id, request_id].filter((id) => typeof id === "string"),
    ...(typeof trace_id === "string" ? [`trace_id=${trace_id}`] : []),
    ...(typeof sample_ratio === "number" && sample_ratio < 1 ? [`sample_ratio=${sample_ratio}`] : [])
  ].join(" ")
}
