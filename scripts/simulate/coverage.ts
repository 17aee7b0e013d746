/**
 * Which parts of the simulated code the runs execute, by the block coverage of V8. Node removes types by replacing them
 * with blanks, so positions in the running code are those in the file.
 */
import { type Profiler, Session } from "node:inspector"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const src = new URL("../../src/", import.meta.url).href

/** The folder whose coverage is measured. */
const ENGINE = `${src}server/delivery/Delivery/`

/** Begins to measure modules of the engine that are loaded from now on. The result has what was executed until it is called. */
export const measureCoverage = (): (() => ReadonlyArray<Profiler.ScriptCoverage>) => {
  const session = new Session()
  session.connect()
  session.post("Profiler.enable")
  session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true })
  return () => {
    let result: ReadonlyArray<Profiler.ScriptCoverage> = []
    // Sessions of the same thread answer at once.
    session.post("Profiler.takePreciseCoverage", (_, taken) => {
      result = taken.result.filter(({ url }) => url.startsWith(ENGINE))
    })
    return result
  }
}

/** The coverage of one file. */
export interface FileCoverage {
  readonly file: string
  /** Blocks that V8 counts apart: functions, and the branches in them. */
  readonly branches: number
  readonly covered: number
  /** The first line of each part that was not executed, with its number. */
  readonly missing: ReadonlyArray<string>
}

/** Adds up the coverage of several threads. */
export const mergeCoverage = (
  threads: ReadonlyArray<ReadonlyArray<Profiler.ScriptCoverage>>
): ReadonlyArray<FileCoverage> =>
  [...Map.groupBy(threads.flat(), ({ url }) => url)]
    .map(([url, scripts]) => fileCoverage(url, scripts))
    .toSorted((a, b) => (a.file < b.file ? -1 : 1))

const fileCoverage = (url: string, scripts: ReadonlyArray<Profiler.ScriptCoverage>): FileCoverage => {
  const text = readFileSync(fileURLToPath(url), "utf8")
  const isExecuted = new Uint8Array(text.length)
  const starts = new Map<string, number>()
  for (const { functions } of scripts) {
    const ofThread = new Uint8Array(text.length)
    // Outer ranges come before those within them.
    for (const { ranges } of functions) {
      for (const { count, endOffset, startOffset } of ranges) {
        ofThread.fill(count > 0 ? 1 : 0, startOffset, endOffset)
        starts.set(`${startOffset} ${endOffset}`, startOffset)
      }
    }
    ofThread.forEach((executed, index) => {
      if (executed === 1) isExecuted[index] = 1
    })
  }
  const missing: Array<string> = []
  let offset = 0
  let isInside = false
  for (const [index, line] of text.split("\n").entries()) {
    for (let column = 0; column < line.length; column++) {
      if (line[column] === " ") continue
      const isMissing = isExecuted[offset + column] === 0
      if (isMissing && !isInside) missing.push(`${index + 1}: ${line.slice(column).trim()}`)
      isInside = isMissing
    }
    offset += line.length + 1
  }
  return {
    file: url.slice(src.length),
    branches: starts.size,
    covered: [...starts.values()].filter((start) => isExecuted[start] === 1).length,
    missing
  }
}
