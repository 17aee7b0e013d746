import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { makeLineProgress, ProgressTerminal, withProgress } from "../../src/cli/progress.ts"

/** Runs a command that reports once, and returns what it wrote to stderr. */
const written = (
  terminal: { readonly isTerminal: boolean; readonly showsOutput: boolean },
  hasOutput: boolean
) =>
  Effect.gen(function* () {
    const texts: Array<string> = []
    const command = withProgress({ unit: "lines", hasOutput }, (report) =>
      Effect.sync(() => {
        report(12_345, 0.25)
        // Too soon after the one before.
        report(12_346, 0.3)
      })
    )
    yield* Effect.provideService(command, ProgressTerminal, {
      ...terminal,
      write: (text) => void texts.push(text)
    })
    return texts
  })

describe("the progress of a command", () => {
  it.effect("is one line of a terminal that disappears at the end", () =>
    Effect.gen(function* () {
      const texts = yield* written({ isTerminal: true, showsOutput: true }, false)
      assert.deepStrictEqual(texts, ["\r\u001B[2K12,345 lines [#####---------------] 25 %", "\r\u001B[2K"])
    })
  )

  it.effect("is not written to a file or a pipe, nor between lines of output", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* written({ isTerminal: false, showsOutput: false }, false), [])
      assert.deepStrictEqual(yield* written({ isTerminal: true, showsOutput: true }, true), [])
      assert.lengthOf(yield* written({ isTerminal: true, showsOutput: false }, true), 2)
    })
  )

  it("of a file is the part of its bytes; of standard input the number of lines", () => {
    const directory = mkdtempSync(path.join(tmpdir(), "progress-"))
    const file = path.join(directory, "lines")
    writeFileSync(file, "one\ntwo\nthrée\n")
    const reports: Array<readonly [number, number | undefined]> = []
    const add = makeLineProgress(file, (done, fraction) => void reports.push([done, fraction]))
    for (const line of ["one", "two", "thrée"]) add(line)
    makeLineProgress("-", (done, fraction) => void reports.push([done, fraction]))("one")
    assert.deepStrictEqual(reports, [
      [1, 4 / 15],
      [2, 8 / 15],
      [3, 1],
      [1, undefined]
    ])
    rmSync(directory, { recursive: true })
  })
})
