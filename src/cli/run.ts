import { Cause, Effect, Exit, Layer, Runtime } from "effect"
import { layerLog, layerLogLevel, showError } from "./log.ts"
import { isDefect, errorMessage } from "./errorMessage.ts"
import { exitCodeOf } from "./exitCode.ts"
import { originalStack } from "./originalStack.ts"
import { afterFlush } from "./stdout.ts"

/** Signals that start a graceful shutdown. */
const SHUTDOWN_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const

/** A second signal within this time is a duplicate: a terminal sends Ctrl-C to the whole process group, and npm forwards it again. */
const SAME_SIGNAL_MILLIS = 1_000

/** Exit code of an interrupted command, as shells use for SIGINT. */
const INTERRUPTED_EXIT_CODE = 130

/**
 * Runs a command as the process. A signal interrupts it and its resources are released; a second signal after one second ends the process
 * immediately. The process exits once its output is flushed. A failure is one line on stderr and the exit code of `exitCodeOf`. After a signal, commands
 * marked with {@link endsBySignal} exit with 0, others with 130.
 */
export const run: <E, A>(effect: Effect.Effect<A, E>) => void = (effect) =>
  runMain(
    Effect.provide(
      effect,
      Layer.merge(
        layerLog(process.env["COUNTERSIGN_LOG_FORMAT"]),
        layerLogLevel(process.env["COUNTERSIGN_LOG_LEVEL"])
      )
    ),
    { disableErrorReporting: true }
  )

const runMain = Runtime.makeRunMain(({ fiber }) => {
  let stoppedAt: number | undefined
  const stop = () => {
    if (stoppedAt === undefined) {
      stoppedAt = Date.now()
      fiber.interruptUnsafe(fiber.id)
    } else if (Date.now() - stoppedAt > SAME_SIGNAL_MILLIS) process.exit(1)
  }
  for (const signal of SHUTDOWN_SIGNALS) process.on(signal, stop)
  process.on("uncaughtException", crash)
  // The reader closed the pipe, as `| head` does.
  process.stdout.on("error", stop)
  fiber.addObserver((exit) => {
    const code = exitCode(exit)
    afterFlush(process.stdout, () => afterFlush(process.stderr, () => process.exit(code)))
  })
})

/**
 * An uncaught error or unhandled rejection ends the process immediately: its state is unknown, and everything acknowledged is in the
 * database. Without this handler Node would end the process too, but print all properties of the error.
 */
const crash = (error: unknown): void => {
  process.stderr.write(`countersign: uncaught error; exiting\n${showError(error)}\n`)
  process.exit(1)
}

/** Marks a command that runs until a signal ends it, for which a signal is success. */
export const endsBySignal = <A, E, R>(command: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.onInterrupt(command, () =>
    Effect.sync(() => {
      process.exitCode = 0
    })
  )

/** Prints the failure for the operator and returns the exit code. */
const exitCode = (exit: Exit.Exit<unknown, unknown>): number => {
  if (Exit.isSuccess(exit)) return 0
  if (Cause.hasInterruptsOnly(exit.cause)) return process.exitCode === 0 ? 0 : INTERRUPTED_EXIT_CODE
  const phrase = errorMessage(exit.cause)
  if (phrase !== undefined) process.stderr.write(`countersign: ${phrase}\n`)
  if (isDefect(exit.cause)) process.stderr.write(`${originalStack(Cause.pretty(exit.cause))}\n`)
  return exitCodeOf(exit.cause)
}
