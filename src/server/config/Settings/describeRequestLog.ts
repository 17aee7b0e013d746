import { LogLevel } from "effect"
import type { Settings } from "../Settings.ts"

/** Whether the lines of requests, whose level is info, are hidden at a level. */
const isHiddenAt = (level: LogLevel.LogLevel): boolean => LogLevel.isGreaterThan(level, "Info")

/** Whether requests are logged, and how to change it. `level`: the least severe level that is logged. */
export const describeRequestLog = (
  { requests, sampleRatio }: Pick<Settings["log"], "requests" | "sampleRatio">,
  level: LogLevel.LogLevel
): string => {
  if (!requests) return "not logged; to log them, set COUNTERSIGN_LOG_REQUESTS=true"
  if (isHiddenAt(level)) {
    return `not logged at the level ${level.toLowerCase()}; to log them, set COUNTERSIGN_LOG_LEVEL=info`
  }
  const share = sampleRatio < 1 ? ` (a share of ${sampleRatio})` : ""
  return `logged${share}; to log none, set COUNTERSIGN_LOG_REQUESTS=false`
}

/** A warning if requests are to be logged and the level hides their lines. The default of the variable contradicts no level. */
export const hiddenRequestLog = (
  { isRequestsSet, requests }: Pick<Settings["log"], "requests" | "isRequestsSet">,
  level: LogLevel.LogLevel
): string | undefined =>
  isRequestsSet && requests && isHiddenAt(level)
    ? `COUNTERSIGN_LOG_REQUESTS=true logs requests at the level info, which the log level ${level.toLowerCase()} hides: set COUNTERSIGN_LOG_LEVEL=info, or unset COUNTERSIGN_LOG_REQUESTS`
    : undefined
