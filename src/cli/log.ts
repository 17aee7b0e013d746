import { Cause, Layer, Logger } from "effect"
import { errorsOf } from "../server/observability/errorsOf.ts"
import { originalStack } from "./originalStack.ts"

/**
 * Formats an error for the log: its stack and the stacks of its causes. Other properties, which libraries attach, are left out: they may hold a
 * request with its headers, an invalid URL or a rejected row.
 */
export const showError = (error: unknown): string =>
  error instanceof Error ? originalStack(Cause.pretty(Cause.die(error))) : `a thrown ${typeof error}`

/** Points the stacks of a cause's errors to the sources, in place: loggers format the cause themselves. */
const mapStacks = (cause: Cause.Cause<unknown>): void => {
  for (const error of errorsOf(cause)) {
    if (error instanceof Error && error.stack !== undefined) error.stack = originalStack(error.stack)
  }
}

const plain = (message: unknown): unknown => (message instanceof Error ? showError(message) : message)

/** Wraps a logger: errors are formatted by `showError`, stacks point to the sources, everything else is unchanged. */
const discreet = <Output>(logger: Logger.Logger<unknown, Output>): Logger.Logger<unknown, Output> =>
  Logger.make((options) => {
    mapStacks(options.cause)
    return logger.log({
      ...options,
      message: Array.isArray(options.message) ? options.message.map(plain) : plain(options.message)
    })
  })

/** Logs go to stderr, formatted for people on a terminal and as JSON elsewhere; stdout has the output of the command. */
export const layerLog = Layer.mergeAll(
  Logger.layer([
    process.stderr.isTTY
      ? discreet(Logger.consolePretty())
      : Logger.withConsoleError(discreet(Logger.formatJson))
  ]),
  Layer.succeed(Logger.LogToStderr)(true)
)
