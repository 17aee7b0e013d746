import { setImmediate } from "node:timers/promises"

/** The errors of promises that `run` has left behind. Node ends a process for each of them. */
export const unhandledRejections = async (run: () => Promise<void>): Promise<ReadonlyArray<unknown>> => {
  const errors: Array<unknown> = []
  const record = (error: unknown) => void errors.push(error)
  process.on("unhandledRejection", record)
  try {
    await run()
    // Node reports them at the end of a turn of the event loop.
    await setImmediate()
  } finally {
    process.off("unhandledRejection", record)
  }
  return errors
}
