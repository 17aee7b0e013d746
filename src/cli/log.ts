import { Cause, Layer, Logger } from "effect"

/**
 * An error as it may be shown: its stack, and those of its causes. What libraries attach to one beside that is left out: the request with
 * its headers, the text that is no URL, the row that was refused.
 */
export const showError = (error: unknown): string =>
  error instanceof Error ? Cause.pretty(Cause.die(error)) : `a thrown ${typeof error}`

const plain = (message: unknown): unknown => (message instanceof Error ? showError(message) : message)

/** A logger that is given errors as `showError` has them, and everything else as it is. */
const discreet = <Output>(logger: Logger.Logger<unknown, Output>): Logger.Logger<unknown, Output> =>
  Logger.make((options) =>
    logger.log({
      ...options,
      message: Array.isArray(options.message) ? options.message.map(plain) : plain(options.message)
    })
  )

/** Logs go to stderr, for people on a terminal and as JSON elsewhere; stdout is for what was asked for. */
export const layerLog = Layer.mergeAll(
  Logger.layer([
    process.stderr.isTTY
      ? discreet(Logger.consolePretty())
      : Logger.withConsoleError(discreet(Logger.formatJson))
  ]),
  Layer.succeed(Logger.LogToStderr)(true)
)
