import { Effect, type Scope } from "effect"
import { spawnSync } from "node:child_process"
import { chmodSync, closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs"
import { constants, tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"

/** Kinds of system calls that can be made to fail, as in preload.c. */
const operations = { write: 1, sync: 2, open: 4, extend: 8, name: 16 } as const
export type Operation = keyof typeof operations

/** System calls that fail until the fault is removed. */
export interface FailingCalls {
  readonly error: "ENOSPC" | "EROFS" | "EIO" | "EDQUOT"
  readonly operations: ReadonlyArray<Operation>
  /** Only calls on files whose paths contain this text. */
  readonly path: string
  /** How many of these calls succeed first. Default 0. */
  readonly skip?: number
}

/** Faults of the processes that are started with `environment`. */
export interface ProcessFaults {
  readonly environment: Readonly<Record<string, string>>
  readonly fail: (calls: FailingCalls) => void
  /** Lets every call succeed again. Returns how many have failed. */
  readonly heal: () => number
  /** Sets the time of day of these processes ahead of the machine's, in milliseconds; negative: behind. */
  readonly setClock: (millis: number) => void
}

/** The layout of `struct faults` in preload.c. */
const FAILED_AT = 12
const CLOCK_AT = 16
const PATH_AT = 24
const PATH_BYTES = 232

const source = fileURLToPath(new URL("preload.c", import.meta.url))

/** Compiles the library that processes preload; undefined on other systems than Linux, and without a C compiler. */
const compile = (directory: string): string | undefined => {
  if (process.platform !== "linux") return undefined
  const library = path.join(directory, "preload.so")
  const compiler = spawnSync("cc", ["-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], {
    encoding: "utf8"
  })
  if (compiler.error !== undefined) return undefined
  if (compiler.status !== 0) throw new Error(`cc cannot compile ${source}: ${compiler.stderr}`)
  return library
}

/** Makes the faults of one group of processes; undefined if this machine cannot compile the library. */
export const makeProcessFaults: Effect.Effect<ProcessFaults | undefined, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => {
      const directory = mkdtempSync(path.join(tmpdir(), "countersign-preload-"))
      // PostgreSQL may run under another account.
      chmodSync(directory, 0o755)
      const library = compile(directory)
      const control = path.join(directory, "faults")
      const file = openSync(control, "w+", 0o666)
      chmodSync(control, 0o666)
      writeSync(file, Buffer.alloc(PATH_AT + PATH_BYTES), 0, undefined, 0)
      return { directory, library, control, file }
    }),
    ({ directory, file }) =>
      Effect.sync(() => {
        closeSync(file)
        rmSync(directory, { recursive: true, force: true })
      })
  ),
  ({ control, file, library }) => {
    if (library === undefined) return undefined
    const writeNumbers = (at: number, ...numbers: ReadonlyArray<number>) => {
      const data = Buffer.alloc(4 * numbers.length)
      numbers.forEach((number, index) => data.writeInt32LE(number, 4 * index))
      writeSync(file, data, 0, data.length, at)
    }
    return {
      environment: { LD_PRELOAD: library, COUNTERSIGN_FAULTS: control },
      fail: (calls) => {
        const text = Buffer.alloc(PATH_BYTES)
        text.write(calls.path)
        writeSync(file, text, 0, text.length, PATH_AT)
        const mask = calls.operations.reduce((sum, name) => sum | operations[name], 0)
        writeNumbers(4, mask, calls.skip ?? 0, 0)
        writeNumbers(0, constants.errno[calls.error])
      },
      heal: () => {
        writeNumbers(0, 0)
        const failed = Buffer.alloc(4)
        readSync(file, failed, 0, 4, FAILED_AT)
        return failed.readInt32LE()
      },
      setClock: (millis) => {
        const data = Buffer.alloc(8)
        data.writeBigInt64LE(BigInt(Math.round(millis)) * 1_000_000n)
        writeSync(file, data, 0, data.length, CLOCK_AT)
      }
    }
  }
)
