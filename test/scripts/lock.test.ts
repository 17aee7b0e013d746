import { assert, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { onTestFinished } from "vitest"

/** Works under the lock that is its argument and tells what happens; with "own", over a lock that has its own id. */
const program = `
import { alone } from ${JSON.stringify(new URL("../../scripts/lock.js", import.meta.url).href)}
import { writeFileSync } from "node:fs"
const [lock, own] = process.argv.slice(1)
if (own) writeFileSync(lock, String(process.pid))
alone(lock, () => console.log("worked"), () => console.log("waits"))
`

/** A place for a lock, in a folder of its own. */
const place = (): string => {
  const folder = mkdtempSync(path.join(tmpdir(), "countersign-lock-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return path.join(folder, "lock")
}

/** Runs it to its end and answers with what it told. */
const work = (lock: string, more: ReadonlyArray<string> = [], onWait = () => {}): Promise<string> =>
  new Promise((done) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", program, lock, ...more])
    onTestFinished(() => void child.kill())
    let told = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      told += text
      if (text.includes("waits")) onWait()
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => (told += text))
    child.once("close", () => done(told))
  })

it.each([
  ["is that of a process that is gone", (lock: string) => writeFileSync(lock, "2147483646"), []],
  ["has the worker's own id, left by a process of another time", () => {}, ["own"]],
  [
    "names nobody, and has for a while",
    (lock: string) => {
      writeFileSync(lock, "")
      utimesSync(lock, 0, 0)
    },
    []
  ]
])("a lock that %s is taken over, and nothing is left of it", async (_, leave, more) => {
  const lock = place()
  leave(lock)
  assert.strictEqual(await work(lock, more), "worked\n")
  assert.deepStrictEqual(readdirSync(path.dirname(lock)), [])
})

it("a lock whose process works is waited for, and that is said once", async () => {
  const lock = place()
  writeFileSync(lock, String(process.pid))
  assert.strictEqual(await work(lock, [], () => rmSync(lock)), "waits\nworked\n")
  assert.isFalse(existsSync(lock))
})
