import { Context, Effect } from "effect"
import { statSync } from "node:fs"

/** Where progress is shown. A reference, so that tests can replace it. */
export const ProgressTerminal = Context.Reference<{
  /** Whether people see stderr. */
  readonly isTerminal: boolean
  /** Whether the output of the command goes to the same terminal: its lines would be mixed with the progress. */
  readonly showsOutput: boolean
  readonly write: (text: string) => void
}>("countersign/cli/ProgressTerminal", {
  defaultValue: () => ({
    isTerminal: process.stderr.isTTY,
    showsOutput: process.stdout.isTTY,
    write: (text) => void process.stderr.write(text)
  })
})

/** Shortest pause between two updates, in milliseconds. */
const UPDATE_MILLIS = 200

const BAR_WIDTH = 20

/** Erases the current line of a terminal. */
const ERASE = "\r\u001B[2K"

/** A bar of a fraction from 0 to 1. */
const bar = (fraction: number): string => {
  const filled = Math.round(Math.min(1, Math.max(0, fraction)) * BAR_WIDTH)
  return ` [${"#".repeat(filled)}${"-".repeat(BAR_WIDTH - filled)}] ${Math.round(Math.min(1, fraction) * 100)} %`
}

/** Shows the progress so far. `fraction`: from 0 to 1, if the whole is known. */
export type ReportProgress = (done: number, fraction?: number) => void

/**
 * Runs a long command, whose progress is one line of the terminal (`12,345 lines [####----] 20 %`) that disappears at the end. Nothing is
 * written if stderr is no terminal, as in a script, or if lines of output would be mixed with it.
 */
export const withProgress = <A, E, R>(
  options: {
    /** The noun of the counted things, in the plural. */
    readonly unit: string
    /** Whether the command prints many lines to stdout. */
    readonly hasOutput: boolean
  },
  use: (report: ReportProgress) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.flatMap(ProgressTerminal, ({ isTerminal, showsOutput, write }) => {
    if (!isTerminal || (options.hasOutput && showsOutput)) return use(() => undefined)
    let shownAt = Number.NEGATIVE_INFINITY
    let isShown = false
    const report: ReportProgress = (done, fraction) => {
      const now = performance.now()
      if (now - shownAt < UPDATE_MILLIS) return
      shownAt = now
      isShown = true
      write(
        `${ERASE}${done.toLocaleString("en")} ${options.unit}${fraction === undefined ? "" : bar(fraction)}`
      )
    }
    return Effect.ensuring(
      use(report),
      Effect.sync(() => {
        if (isShown) write(ERASE)
      })
    )
  })

/** The size of a file in bytes; undefined for standard input and for a file that cannot be read. */
const sizeOf = (file: string): number | undefined => {
  try {
    return file === "-" ? undefined : statSync(file).size || undefined
  } catch {
    return undefined
  }
}

/** Counts the lines of a file, and reports the part of its bytes that they are. */
export const makeLineProgress = (file: string, report: ReportProgress) => {
  const size = sizeOf(file)
  let lines = 0
  let bytes = 0
  return (line: string): void => {
    lines++
    // With the line's end.
    bytes += Buffer.byteLength(line) + 1
    report(lines, size === undefined ? undefined : bytes / size)
  }
}
