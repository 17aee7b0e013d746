import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { readFileSync, renameSync, writeFileSync } from "node:fs"
import path from "node:path"
import {
  ACME,
  type Cell,
  DOMAIN,
  frontDirectory,
  type FrontProgram,
  NEIGHBOUR,
  spawnFront,
  untilReady
} from "./Front.ts"
import { freePort } from "../freePort.ts"

const program = process.env["COUNTERSIGN_TEST_ENVOY"] ?? "envoy"

const read = (name: string) =>
  readFileSync(new URL(`../../../scripts/deploy/${name}`, import.meta.url), "utf8")

/** Envoy with `scripts/deploy/envoy.yaml`; the program is that of COUNTERSIGN_TEST_ENVOY or of the PATH. */
export const envoy: FrontProgram = {
  name: "Envoy",
  missing:
    spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0
      ? undefined
      : "envoy is not installed; COUNTERSIGN_TEST_ENVOY can name it",
  unreached: / 503 UH /,
  start: Effect.fnUntraced(function* ({ cells, hosts }) {
    const directory = yield* frontDirectory
    const port = yield* Effect.promise(freePort)
    const config = read("envoy.yaml")
      .replaceAll("/etc/envoy", directory)
      .replace("address: 0.0.0.0, port_value: 8080", `address: 127.0.0.1, port_value: ${port}`)
      .replaceAll(/^ *- endpoint:\n.*-replica2\.internal.*\n/gm, "")
      .replaceAll(/address: (cell[12])-replica1\.internal, port_value: 8080/g, (_, cell: string) => {
        const { hostname, port } = new URL(cell === "cell1" ? cells.cell1 : cells.cell2)
        return `address: ${hostname}, port_value: ${port}`
      })
    const file = path.join(directory, "envoy.yaml")
    writeFileSync(file, config)
    const organizations = read("envoy-organizations.yaml")
    const acme = hosts?.acme ?? ACME
    /** Replaces the map in one step. The name for cell2 is one that no client uses while ACME is in cell1. */
    const write = (cell: Cell): void => {
      const more = hosts === undefined ? [] : [hosts.others, ...(cell === "cell1" ? [hosts.acme] : [])]
      const place = path.join(directory, "organizations.yaml")
      const text = organizations
        .replace(`"${ACME}"`, `"${cell === "cell2" ? acme : `nobody.${DOMAIN}`}"`)
        .replace(`"*.${DOMAIN}"`, [`*.${DOMAIN}`, ...more].map((name) => `"${name}"`).join(", "))
      writeFileSync(`${place}.new`, text)
      renameSync(`${place}.new`, place)
    }
    write("cell1")
    const log = yield* spawnFront(program, [
      ...["--config-path", file, "--use-dynamic-base-id"],
      ...["--concurrency", "1", "--log-level", "error"]
    ])
    yield* untilReady(port, hosts?.others ?? NEIGHBOUR)
    return { port, log, routeAcme: (cell) => Effect.sync(() => write(cell)) }
  })
}
