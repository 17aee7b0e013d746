import { assert, describe, it } from "@effect/vitest"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { onTestFinished } from "vitest"
import { HookState } from "../../../src/cli/hook/HookState.ts"

const DAY = 24 * 60 * 60 * 1_000

const stateDirectory = (): string => {
  const root = mkdtempSync(path.join(tmpdir(), "countersign-hook-state-"))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  return root
}

/** Makes a file or directory look as if it had not been used for some days. */
const age = (file: string, days: number): void => {
  const at = new Date(Date.now() - days * DAY)
  utimesSync(file, at, at)
}

describe("the directory of the hooks' sessions", () => {
  it("keeps everything that is not a session", () => {
    const root = stateDirectory()
    mkdirSync(path.join(root, "documents"))
    for (const name of ["documents/letter", "notes"]) writeFileSync(path.join(root, name), "")
    for (const name of ["documents", "notes"]) age(path.join(root, name), 100)
    assert.deepStrictEqual(new HookState(root, "scope", "session").sweep(Date.now()), [])
    assert.deepStrictEqual(readdirSync(root).toSorted(), ["documents", "notes"])
    assert.deepStrictEqual(readdirSync(path.join(root, "documents")), ["letter"])
  })

  it("loses every session that is not used, behind any number of others", () => {
    const root = stateDirectory()
    const unused: Array<string> = []
    for (let n = 0; n < 300; n++) {
      const before = new Set(readdirSync(root))
      new HookState(root, "scope", `session ${n}`).saveSession({ session_id: null, generation: 0 })
      if (n % 2 === 0) unused.push(...readdirSync(root).filter((name) => !before.has(name)))
    }
    for (const name of unused) age(path.join(root, name), 8)
    for (let sweeps = 0; sweeps < 100; sweeps++) new HookState(root, "scope", "session").sweep(Date.now())
    assert.lengthOf(readdirSync(root), 150)
    assert.deepStrictEqual(
      unused.filter((name) => readdirSync(root).includes(name)),
      []
    )
  })
})
