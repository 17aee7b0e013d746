import { assert, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { onTestFinished } from "vitest"

/**
 * Runs work under the lock file given as an argument and prints what happens. With "own", it first writes its own
 * process id to the file.
 */
const program = `
import { withFileLock } from ${JSON.stringify(new URL("../../scripts/lock.js", import.meta.url).href)}
import { writeFileSync } from "node:fs"
const [lock, own] = process.argv.slice(1)
if (own) writeFileSync(lock, String(process.pid))
withFileLock(lock, () => console.log("worked"), () => console.log("waits"))
`

/** The path of a lock file in a new folder. */
const newLockPath = (): string => {
  const folder = mkdtempSync(path.join(tmpdir(), "countersign-lock-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return path.join(folder, "lock")
}

/** Runs the program to its end and returns its output. */
const runProgram = (lock: string, more: ReadonlyArray<string> = [], onWait = () => {}): Promise<string> =>
  new Promise((done) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", program, lock, ...more])
    onTestFinished(() => void child.kill())
    let output = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
      if (text.includes("waits")) onWait()
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text))
    child.once("close", () => done(output))
  })

it.each([
  ["of a process that has ended", (lock: string) => writeFileSync(lock, "2147483646"), []],
  ["with the id of this process, left by an earlier process,", () => {}, ["own"]],
  [
    "that is empty and old",
    (lock: string) => {
      writeFileSync(lock, "")
      utimesSync(lock, 0, 0)
    },
    []
  ]
])("a lock file %s is taken over, and no file is left behind", async (_, leave, more) => {
  const lock = newLockPath()
  leave(lock)
  assert.strictEqual(await runProgram(lock, more), "worked\n")
  assert.deepStrictEqual(readdirSync(path.dirname(lock)), [])
})

it("a lock file of a running process is waited for, and the wait is reported once", async () => {
  const lock = newLockPath()
  writeFileSync(lock, String(process.pid))
  assert.strictEqual(await runProgram(lock, [], () => rmSync(lock)), "waits\nworked\n")
  assert.isFalse(existsSync(lock))
})
