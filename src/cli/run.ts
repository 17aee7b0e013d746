import { Cause, Effect, Exit, Runtime } from "effect"
import { layerLog, showError } from "./log.ts"
import { isDefect, errorMessage } from "./errorMessage.ts"
import { afterFlush } from "./stdout.ts"

/** Signals that ask for an orderly stop. */
const STOPS = ["SIGINT", "SIGTERM", "SIGHUP"] as const

/**
 * A second signal within this time is the same one: a terminal sends Ctrl-C to the whole process group, and npm passes it on once
 * more.
 */
const SAME_SIGNAL_MILLIS = 1_000

/** Exit code of a command that a signal cut short: that of a shell for SIGINT. */
const CUT_SHORT = 130

/**
 * Runs a command as the process. A signal interrupts it and whatever it has acquired is released; a second signal, a second later, ends
 * it at once. It ends when what it printed is taken. A failure is one line on stderr and exit code 1. A command for which a signal is
 * the way to end ({@link endsBySignal}) exits with 0 then, others with 130.
 */
export const run: <E, A>(effect: Effect.Effect<A, E>) => void = (effect) =>
  runMain(Effect.provide(effect, layerLog), { disableErrorReporting: true })

const runMain = Runtime.makeRunMain(({ fiber }) => {
  let stoppedAt: number | undefined
  const stop = () => {
    if (stoppedAt === undefined) {
      stoppedAt = Date.now()
      fiber.interruptUnsafe(fiber.id)
    } else if (Date.now() - stoppedAt > SAME_SIGNAL_MILLIS) process.exit(1)
  }
  for (const signal of STOPS) process.on(signal, stop)
  process.on("uncaughtException", crash)
  // Whoever reads has seen enough, as behind `| head`.
  process.stdout.on("error", stop)
  fiber.addObserver((exit) => {
    const code = exitCode(exit)
    afterFlush(process.stdout, () => afterFlush(process.stderr, () => process.exit(code)))
  })
})

/**
 * What nobody caught, a rejected promise included, ends the process at once: nothing is known of the state that it is in, and whatever was
 * promised is in the store. Without this Node would end it too, and print all that hangs on the error.
 */
const crash = (error: unknown): void => {
  process.stderr.write(`countersign: ended by an uncaught fault\n${showError(error)}\n`)
  process.exit(1)
}

/** Marks a command that runs until a signal ends it: that is its success. */
export const endsBySignal = <A, E, R>(command: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.onInterrupt(command, () =>
    Effect.sync(() => {
      process.exitCode = 0
    })
  )

/** Tells the operator what went wrong, and the shell whether anything did. */
const exitCode = (exit: Exit.Exit<unknown, unknown>): number => {
  if (Exit.isSuccess(exit)) return 0
  if (Cause.hasInterruptsOnly(exit.cause)) return process.exitCode === 0 ? 0 : CUT_SHORT
  const phrase = errorMessage(exit.cause)
  if (phrase !== undefined) process.stderr.write(`countersign: ${phrase}\n`)
  if (isDefect(exit.cause)) process.stderr.write(`${Cause.pretty(exit.cause)}\n`)
  return 1
}
