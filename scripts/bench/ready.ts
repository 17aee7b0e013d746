/**
 * Start-up of a checkout whose bundle, console and database exist: `npm start` until the service is ready, with the
 * embedded PostgreSQL, and `countersign --help`. npm's own share and that of `npx`, which is no part of this project,
 * are printed beside.
 */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { alternate, atMost, line, machine, percentOf } from "./measure.ts"
import { freePort } from "./service.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const command = path.join(root, "scripts", "countersign.js")
const dataDir = mkdtempSync(path.join(tmpdir(), "countersign-bench-"))

/** Milliseconds until a program has ended. */
const untilEnd = (program: string, args: ReadonlyArray<string>) => async (): Promise<number> => {
  const began = performance.now()
  const { status, stderr } = spawnSync(program, args, { cwd: root, encoding: "utf8" })
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr}`)
  return performance.now() - began
}

/** Milliseconds until the service is ready. It is stopped then, together with its PostgreSQL. */
const untilReady = (program: string, args: ReadonlyArray<string>) => async (): Promise<number> => {
  const port = await freePort()
  const began = performance.now()
  const child = spawn(program, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, PORT: String(port), COUNTERSIGN_DATA_DIR: dataDir }
  })
  const ended = once(child, "exit")
  for await (const chunk of child.stdout) if (String(chunk).includes("is ready")) break
  const took = performance.now() - began
  child.stdout.resume()
  child.kill("SIGTERM")
  await ended
  return took
}

console.log(machine())
const sides = [
  untilReady("npm", ["start", "--silent"]),
  untilReady(process.execPath, [command, "serve"]),
  untilEnd(process.execPath, [command, "--help"]),
  untilEnd("npx", ["countersign", "--help"]),
  untilEnd(process.execPath, ["--eval", "0"])
]
// The first round creates the database and fills the compile cache.
const [start = [], serve = [], help = [], npx = [], bare = []] = await alternate(sides, {
  warmUp: 1,
  rounds: 4
})
console.log(line("npm start, until ready", start, "ms"))
console.log(line("countersign serve, until ready", serve, "ms"))
console.log(line("countersign --help", help, "ms"))
console.log(line("npx countersign --help", npx, "ms"))
console.log(line("node alone", bare, "ms"))
console.log(atMost("npm start by node alone", percentOf(start, bare), 4_000, "%"))
console.log(atMost("countersign --help by node alone", percentOf(help, bare), 800, "%"))
rmSync(dataDir, { recursive: true, force: true })
