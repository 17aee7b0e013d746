import { Effect } from "effect"
import { waitForDrain } from "../stdout.ts"

/** Writes a message to stdout, which carries the protocol and nothing else. */
export const writeMessage = (line: string): Promise<void> => {
  process.stdout.write(`${line}\n`)
  return Effect.runPromise(waitForDrain())
}
