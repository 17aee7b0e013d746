import { Cause, Console, Formatter, Layer, Logger, References, Result } from "effect"
import { type LogFormat, logFormat } from "../server/config/Settings/logFormat.ts"
import { logLevel } from "../server/config/Settings/logLevel.ts"
import { errorsOf } from "../server/observability/errorsOf.ts"
import { formatLogTime, formatRequestLine } from "./formatRequestLine.ts"
import { originalStack } from "./originalStack.ts"

/**
 * Formats an error for the log: its stack and the stacks of its causes. Other properties, which libraries attach, are
 * left out: they may hold a request with its headers, an invalid URL or a rejected row.
 */
export const showError = (error: unknown): string =>
  error instanceof Error ? originalStack(Cause.pretty(Cause.die(error))) : `a thrown ${typeof error}`

/** Points the stacks of a cause's errors to the sources, in place: loggers format the cause themselves. */
const mapStacks = (cause: Cause.Cause<unknown>): void => {
  for (const error of errorsOf(cause)) {
    if (error instanceof Error && error.stack !== undefined) error.stack = originalStack(error.stack)
  }
}

/**
 * Wraps a logger: errors are formatted by `showError` and passed on as `error`, stacks point to the sources, everything else is unchanged.
 */
const discreet = <Output>(
  logger: Logger.Logger<unknown, Output>,
  plain: (error: Error) => unknown
): Logger.Logger<unknown, Output> =>
  Logger.make((options) => {
    mapStacks(options.cause)
    const withoutErrors = (part: unknown) => (part instanceof Error ? plain(part) : part)
    return logger.log({
      ...options,
      message: Array.isArray(options.message)
        ? options.message.map(withoutErrors)
        : withoutErrors(options.message)
    })
  })

const isDetails = (part: unknown): part is object => typeof part === "object" && part !== null

/**
 * A line of JSON. `message` is always a string, because a log index with typed fields rejects lines in which it is
 * sometimes a list. Objects logged with the text become annotations.
 */
const jsonLine = Logger.map(Logger.formatStructured, ({ annotations, message, ...entry }) => {
  const parts: ReadonlyArray<unknown> = Array.isArray(message) ? message : [message]
  const texts = parts.filter((part) => !isDetails(part)).map(String)
  return Formatter.formatJson({
    ...entry,
    message: texts.join(" "),
    annotations: Object.assign({}, ...parts.filter(isDetails), annotations)
  })
})

/** Lines for people: one for each request, and all other lines as Effect formats them. */
const prettyLogger = (colors: boolean): Logger.Logger<unknown, void> => {
  const other = discreet(Logger.consolePretty({ colors, formatDate: formatLogTime, mode: "tty" }), showError)
  return Logger.make((options) => {
    const line = formatRequestLine(options, colors)
    if (line === undefined) other.log(options)
    else options.fiber.getRef(Console.Console).error(line)
  })
}

/**
 * Logs go to stderr, in the format of `COUNTERSIGN_LOG_FORMAT`, by default formatted for people on a terminal and as JSON elsewhere; the
 * settings report an invalid one. Stdout has the output of the command.
 */
export const layerLog = (format?: string): Layer.Layer<never> =>
  Layer.mergeAll(
    Logger.layer([
      formatOf(format) === "pretty"
        ? prettyLogger(process.stderr.isTTY)
        : Logger.withConsoleError(discreet(jsonLine, (error) => ({ error: showError(error) })))
    ]),
    Layer.succeed(Logger.LogToStderr)(true)
  )

const formatOf = (text: string | undefined): LogFormat => {
  const format = text === undefined ? undefined : Result.getOrUndefined(logFormat(text.trim()))
  return format ?? (process.stderr.isTTY ? "pretty" : "json")
}

/**
 * The least severe level that is logged, as in `COUNTERSIGN_LOG_LEVEL`; the settings report an invalid one. The flag
 * `--log-level` takes precedence.
 */
export const layerLogLevel = (text: string | undefined): Layer.Layer<never> => {
  const level = text === undefined ? undefined : Result.getOrUndefined(logLevel(text.trim()))
  return level === undefined ? Layer.empty : Layer.succeed(References.MinimumLogLevel)(level)
}
