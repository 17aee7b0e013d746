import { type LogLevel, Result } from "effect"
import type { Reader } from "./Variable.ts"

const logLevels: Readonly<Record<string, LogLevel.LogLevel>> = {
  trace: "Trace",
  debug: "Debug",
  info: "Info",
  warn: "Warn",
  error: "Error",
  fatal: "Fatal",
  none: "None"
}

/** A level of the log, in any case. */
export const logLevel: Reader<LogLevel.LogLevel> = (text) => {
  const level = logLevels[text.toLowerCase()]
  return level === undefined
    ? Result.fail("must be trace, debug, info, warn, error, fatal or none")
    : Result.succeed(level)
}
