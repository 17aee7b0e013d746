import { Result } from "effect"
import type { Reader } from "./Variable.ts"

/** `json`: a line of JSON; `pretty`: for people. */
export type LogFormat = "json" | "pretty"

/** A format of the log, in any case. */
export const logFormat: Reader<LogFormat> = (text) => {
  const format = text.toLowerCase()
  return format === "json" || format === "pretty"
    ? Result.succeed(format)
    : Result.fail("must be json or pretty")
}
