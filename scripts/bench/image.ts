/**
 * Cold starts of the container images: from the start of the container's process until `/readyz` returns 200. `slim` uses a migrated database
 * of a PostgreSQL that runs already; `full` starts its own, with a new volume, whose database it creates, and with an existing one.
 * Needs Linux and root.
 */
import { Redacted } from "effect"
import { spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { reachByTcp } from "../image/reachByTcp.ts"
import { cannotRun, startContainer, unpackImage } from "../image/runContainer.ts"
import { root } from "../image/sources.ts"
import type { Variant } from "../image/variants.ts"
import { alternate, line, machine } from "./measure.ts"
import { freePort, startStore } from "./service.ts"

const reason = cannotRun()
if (reason !== undefined) {
  console.log(`skipped: ${reason}`)
  process.exit(0)
}

const folder = mkdtempSync(path.join(tmpdir(), "countersign-bench-image-"))
const built = spawnSync(process.execPath, ["scripts/image.ts", "--output", folder], {
  cwd: root,
  encoding: "utf8"
})
if (built.status !== 0) throw new Error(built.stderr)
console.log(machine())
console.log(built.stdout.trimEnd())

const rootOf = (variant: Variant) => path.join(folder, `${variant}-root`)
const configs = {
  slim: unpackImage(path.join(folder, "slim"), rootOf("slim")),
  full: unpackImage(path.join(folder, "full"), rootOf("full"))
}

const store = await startStore()
const database = await reachByTcp(Redacted.value(await store.database("image")))

const slimEnvironment = {
  DATABASE_URL: database.url,
  COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64")
}

/** Milliseconds until a container is ready. It is stopped then. */
const untilReady = async (
  variant: Variant,
  env: Readonly<Record<string, string>>,
  volume?: string
): Promise<number> => {
  const port = await freePort()
  const began = performance.now()
  const container = startContainer({
    folder: rootOf(variant),
    config: configs[variant],
    env: { ...env, PORT: String(port) },
    ...(volume === undefined ? {} : { volume })
  })
  const isReady = () =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ status }) => status === 200,
      () => false
    )
  while (!(await isReady())) {
    if (container.child.exitCode !== null) throw new Error(container.output())
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const took = performance.now() - began
  const pid = container.pid()
  if (pid !== undefined) process.kill(pid, "SIGTERM")
  await container.ended
  return took
}

let volumes = 0
const existing = path.join(folder, "existing")
const [slim = [], created = [], found = []] = await alternate(
  [
    () => untilReady("slim", slimEnvironment),
    () => untilReady("full", {}, path.join(folder, `volume-${volumes++}`)),
    () => untilReady("full", {}, existing)
  ],
  { warmUp: 1, rounds: 5 }
)
console.log("until /readyz returns 200, 5 starts each:")
console.log(line("slim, database migrated", slim, "ms"))
console.log(line("full, new volume", created, "ms"))
console.log(line("full, existing volume", found, "ms"))
database.close()
await store.dispose()
rmSync(folder, { recursive: true, force: true })
